#include "cli/service_manager.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <cstring>
#include <ctime>

namespace kvasir {

void ServiceManager::tell(std::string_view state) const noexcept {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (!socket_ || socket_->empty() || socket_->size() >= sizeof address.sun_path) return;
  std::memcpy(address.sun_path, socket_->data(), socket_->size());
  if (address.sun_path[0] == '@') address.sun_path[0] = '\0';
  const int fd = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return;
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + socket_->size());
  [[maybe_unused]] const ssize_t sent = ::sendto(fd, state.data(), state.size(), MSG_NOSIGNAL | MSG_DONTWAIT,
                                                 reinterpret_cast<const sockaddr*>(&address), size);
  ::close(fd);
}

void ServiceManager::tell_reloading() const noexcept {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  char text[64];
  std::snprintf(text, sizeof text, "RELOADING=1\nMONOTONIC_USEC=%lld",
                static_cast<long long>(now.tv_sec) * 1'000'000 + now.tv_nsec / 1000);
  tell(text);
}

}  // namespace kvasir
