// A server as a process of its own, on a free port, for as long as this object lives: `kvasir serve`, or another
// program that serves the same API and is compared with it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <thread>
#include <vector>

namespace kvasir::bench {

class ServerProcess {
 public:
  struct Launch {
    std::string program;
    std::vector<std::string> arguments;
    std::uint16_t port = 0;  // 0: the program says which, as kvasir does; else where it will answer GET /health
  };
  // Starts the program and waits until it serves. Throws std::runtime_error, with what it said, when it does not.
  explicit ServerProcess(const Launch& launch);
  ~ServerProcess();  // asks it to finish, and waits
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

  std::uint16_t port() const { return port_; }
  std::uint64_t resident_bytes() const;  // 0: it has ended

 private:
  void wait_for_port(const std::string& program);
  void wait_for_health(const std::string& program);

  pid_t pid_ = -1;
  std::uint16_t port_ = 0;
  int output_ = -1;
  std::thread reader_;  // of what it says later, so that it never waits for a reader
};

std::uint16_t free_port();

// The program of the same build.
std::string kvasir_program();

// Runs a command to its end. Throws std::runtime_error when it fails.
void run_program(const std::string& program, const std::vector<std::string>& arguments);

// As many open files as the system lets us have, for this process and those it starts.
void raise_file_limit();

}  // namespace kvasir::bench
