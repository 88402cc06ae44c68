#include "serve/server_process.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string_view>

namespace kvasir::bench {
namespace {

// The child's id. Its stderr goes to `output` unless that is negative.
pid_t start(const std::string& program, const std::vector<std::string>& arguments, int output) {
  std::vector<char*> argv{const_cast<char*>(program.c_str())};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  const pid_t pid = ::fork();
  if (pid < 0) throw std::runtime_error(fmt::format("cannot start {}: {}", program, std::strerror(errno)));
  if (pid > 0) return pid;
  if (output >= 0) ::dup2(output, STDERR_FILENO);
  ::execv(program.c_str(), argv.data());
  ::_exit(127);
}

int end_of(pid_t pid) {
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// "… at http://127.0.0.1:8080 (OpenAI …": 0 while the line is not there yet.
std::uint16_t port_in(const std::string& said) {
  const std::string before = " at http://127.0.0.1:";
  const size_t at = said.find(before);
  if (at == std::string::npos || said.find('\n', at) == std::string::npos) return 0;
  return static_cast<std::uint16_t>(std::stoul(said.substr(at + before.size(), 5)));
}

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

// Whether GET /health is answered with 200.
bool healthy(std::uint16_t port) {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = loopback(port);
  const std::string request = "GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
  char reply[16] = {};
  const bool answered = ::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
                        ::send(socket, request.data(), request.size(), MSG_NOSIGNAL) > 0 &&
                        ::recv(socket, reply, sizeof reply - 1, MSG_WAITALL) > 12;
  ::close(socket);
  return answered && std::string_view(reply).substr(9, 3) == "200";
}

}  // namespace

std::uint16_t free_port() {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = loopback(0);
  socklen_t size = sizeof address;
  const bool bound = ::bind(socket, reinterpret_cast<const sockaddr*>(&address), size) == 0 &&
                     ::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) == 0;
  ::close(socket);
  if (!bound) throw std::runtime_error("no free port");
  return ntohs(address.sin_port);
}

ServerProcess::ServerProcess(const Launch& launch) : port_(launch.port) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
  pid_ = start(launch.program, launch.arguments, ends[1]);
  ::close(ends[1]);
  output_ = ends[0];
  if (port_ == 0) wait_for_port(launch.program);
  reader_ = std::thread([output = output_] {
    char ignored[4096];
    while (::read(output, ignored, sizeof ignored) > 0) {
    }
  });
  if (launch.port != 0) wait_for_health(launch.program);
}

void ServerProcess::wait_for_port(const std::string& program) {
  std::string said;
  char chunk[4096];
  while (port_ == 0) {
    const ssize_t got = ::read(output_, chunk, sizeof chunk);
    if (got <= 0) {
      ::close(output_);
      throw std::runtime_error(fmt::format("{} ended with {}: {}", program, end_of(pid_), said));
    }
    said.append(chunk, static_cast<size_t>(got));
    port_ = port_in(said);
  }
}

void ServerProcess::wait_for_health(const std::string& program) {
  constexpr int kTries = 600;
  for (int i = 0; i < kTries; ++i) {
    if (healthy(port_)) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    if (::waitpid(pid_, nullptr, WNOHANG) == pid_) break;
  }
  ::kill(pid_, SIGKILL);
  reader_.join();
  throw std::runtime_error(program + " does not serve");
}

ServerProcess::~ServerProcess() {
  ::kill(pid_, SIGTERM);
  end_of(pid_);
  reader_.join();
  ::close(output_);
}

std::uint64_t ServerProcess::resident_bytes() const {
  std::ifstream status(fmt::format("/proc/{}/statm", pid_));
  std::uint64_t size = 0;
  std::uint64_t resident = 0;
  status >> size >> resident;
  return resident * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

std::string kvasir_program() {
  return (std::filesystem::read_symlink("/proc/self/exe").parent_path() / "kvasir").string();
}

void run_program(const std::string& program, const std::vector<std::string>& arguments) {
  const int code = end_of(start(program, arguments, -1));
  if (code != 0) throw std::runtime_error(fmt::format("{} {} ended with {}", program, arguments.front(), code));
}

void raise_file_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace kvasir::bench
