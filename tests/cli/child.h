// The program as a child that goes on while the test does.
#pragma once

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

namespace kvasir::testing {

// The program as a child whose stderr is a file.
class Child {
 public:
  // `settings`: of its environment, like NAME=VALUE.
  Child(const std::vector<std::string>& arguments, const std::string& err,
        const std::vector<std::string>& settings = {})
      : err_(err), pid_(::fork()) {
    if (pid_ != 0) return;
    for (const std::string& setting : settings) ::putenv(const_cast<char*>(setting.c_str()));
    std::vector<char*> argv;
    for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
    argv.push_back(nullptr);
    if (std::freopen(err.c_str(), "w", stderr) != nullptr) ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  ~Child() {
    if (pid_ > 0) end();
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  void signal(int number) const { ::kill(pid_, number); }

  int end() {
    signal(SIGTERM);
    return wait();
  }

  int wait() {
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  // What it has said, once that has `text` in it; empty after half a minute without.
  std::string said(const std::string& text) const { return said(text, err_); }

  static std::string said(const std::string& text, const std::string& file) {
    for (int i = 0; i < 3000; ++i) {
      std::ifstream stream(file);
      std::string all{std::istreambuf_iterator<char>(stream), {}};
      if (all.find(text) != std::string::npos) return all;
      ::usleep(10'000);
    }
    return {};
  }

 private:
  std::string err_;
  pid_t pid_;
};

}  // namespace kvasir::testing
