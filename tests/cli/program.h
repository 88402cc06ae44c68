// The program as a user runs it, in a folder of its own.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

namespace kvasir::testing {

struct Ran {
  int code = -1;
  std::string out;
  std::string err;
};

class ProgramTest : public ::testing::Test {
 protected:
  ProgramTest() { std::filesystem::create_directories(folder_); }
  ~ProgramTest() override { std::filesystem::remove_all(folder_); }

  // `environment`: settings before the command, each with a space behind it.
  Ran run(const std::string& arguments, const std::string& input = "/dev/null", const std::string& environment = {}) {
    const std::string err = (folder_ / "err").string();
    const std::string command = environment + KVASIR_PROGRAM + " " + arguments + " 2>" + err + " <" + input;
    Ran ran;
    FILE* pipe = ::popen(command.c_str(), "r");
    std::array<char, 4096> chunk{};
    for (size_t n = 0; (n = std::fread(chunk.data(), 1, chunk.size(), pipe)) > 0;) ran.out.append(chunk.data(), n);
    const int status = ::pclose(pipe);
    ran.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    ran.err = read(err);
    return ran;
  }

  static std::string read(const std::filesystem::path& path) {
    std::ifstream stream(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
  }

  // A copy of the shipped model whose file `name` has been changed.
  std::string damaged(const std::string& name, const std::function<std::string(std::string)>& change) {
    const auto copy = folder_ / "model";
    std::filesystem::remove_all(copy);
    std::filesystem::copy(KVASIR_SOURCE_DIR "/models/tales-draft", copy);
    const std::string before = read(copy / name);
    std::ofstream(copy / name, std::ios::binary) << change(before);
    return copy.string();
  }

  // One line on stderr, exit code as expected, nothing on stdout.
  void expect_refused(const std::string& arguments, int code, const std::string& says) {
    const Ran ran = run(arguments);
    EXPECT_EQ(ran.code, code) << arguments << "\n" << ran.err;
    EXPECT_EQ(ran.out, "") << arguments;
    EXPECT_EQ(std::count(ran.err.begin(), ran.err.end(), '\n'), 1) << ran.err;
    EXPECT_NE(ran.err.find(says), std::string::npos) << ran.err;
  }

  std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("kvasir_cli_" + std::to_string(::getpid()));
};

}  // namespace kvasir::testing
