#include "serve/server_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>

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

}  // namespace

ServerProcess::ServerProcess(const std::string& program, const std::vector<std::string>& arguments) {
  std::vector<std::string> all{"serve", "--port", "0", "--quiet"};
  all.insert(all.end(), arguments.begin(), arguments.end());
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
  pid_ = start(program, all, ends[1]);
  ::close(ends[1]);
  output_ = ends[0];
  std::string said;
  char chunk[4096];
  while (port_ == 0) {
    const ssize_t got = ::read(output_, chunk, sizeof chunk);
    if (got <= 0) {
      ::close(output_);
      throw std::runtime_error(fmt::format("{} serve ended with {}: {}", program, end_of(pid_), said));
    }
    said.append(chunk, static_cast<size_t>(got));
    port_ = port_in(said);
  }
  reader_ = std::thread([output = output_] {
    char ignored[4096];
    while (::read(output, ignored, sizeof ignored) > 0) {
    }
  });
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
