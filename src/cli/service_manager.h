// What systemd, and others that speak as it does, want to hear of a service: sd_notify(3), by hand.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace kvasir {

class ServiceManager {
 public:
  // `socket`: what the environment has as NOTIFY_SOCKET: a path, or '@' and an abstract name. nullopt: nobody
  // listens.
  explicit ServiceManager(std::optional<std::string> socket) : socket_(std::move(socket)) {}

  // "READY=1", "STOPPING=1", …; several with line ends between them. One try, and never waits: a manager that does
  // not listen is no reason to stop serving.
  void tell(std::string_view state) const noexcept;

  // With the time that it must be told with.
  void tell_reloading() const noexcept;

 private:
  std::optional<std::string> socket_;
};

}  // namespace kvasir
