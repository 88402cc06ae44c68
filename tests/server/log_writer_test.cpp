// A log on a full disk, into a pipe that nobody reads, and moved away: whoever writes to it never notices.
#include "server/log_writer.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "server/api/json_fields.h"

namespace kvasir::testing {
namespace {

class LogTest : public ::testing::Test {
 protected:
  LogTest() { std::filesystem::create_directories(folder_); }
  ~LogTest() override { std::filesystem::remove_all(folder_); }

  static std::string all_of(const std::filesystem::path& path) {
    std::ifstream stream(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
  }
  // Tries for ten seconds.
  template <class Holds>
  static bool soon(Holds holds) {
    for (int i = 0; i < 1000; ++i) {
      if (holds()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  }
  // What can be read from the pipe now.
  static std::string drained(int pipe) {
    std::string all;
    char chunk[65536];
    for (ssize_t got = 0; (got = ::read(pipe, chunk, sizeof chunk)) > 0;) all.append(chunk, static_cast<size_t>(got));
    return all;
  }

  std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("kvasir_log_" + std::to_string(::getpid()));
  std::filesystem::path file_ = folder_ / "log";
};

TEST_F(LogTest, WritesWholeLines) {
  {
    Log log({.file = file_});
    log.say("for people");
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&log] {
        for (int i = 0; i < 200; ++i) log.write({"x", {{"n", std::int64_t{i}}}});
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(log.dropped(), 0);
  }
  std::ifstream lines(file_);
  std::string line;
  EXPECT_TRUE(std::getline(lines, line) && line == "for people");
  int count = 0;
  while (std::getline(lines, line)) {
    EXPECT_TRUE(line.starts_with("time=2") && line.find(" event=x n=") != std::string::npos) << line;
    ++count;
  }
  EXPECT_EQ(count, 800);
}

TEST_F(LogTest, AFullDiskCostsLinesOnly) {
  Log log({.file = "/dev/full"});
  for (int i = 0; i < 10; ++i) log.write({"x"});
  EXPECT_TRUE(soon([&] { return log.dropped() == 10; })) << log.dropped();
}

TEST_F(LogTest, APipeNobodyReadsCostsLinesOnly) {
  ASSERT_EQ(::mkfifo(file_.c_str(), 0600), 0);
  const int reader = ::open(file_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  Log log({.format = LogFormat::kJson, .file = file_, .queue_bytes = 1 << 16});
  const std::string wide(400, 'x');
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 20000; ++i) log.write({"x", {{"wide", wide}}});
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
  EXPECT_GT(log.dropped(), 1000);  // the pipe and the queue hold some three hundred
  // It is read again: what waited comes, and, in one line or several, how many were lost.
  std::string read;
  const auto told = [&read] {
    std::int64_t lines = 0;
    for (size_t at = 0, end = 0; (end = read.find('\n', at)) != std::string::npos; at = end + 1) {
      const Json line = Json::parse(read.substr(at, end - at));
      if (line["event"] == "log_lost") lines += line["lines"].get<std::int64_t>();
    }
    return lines;
  };
  EXPECT_TRUE(soon([&] {
    log.write({"again"});
    read += drained(reader);
    return told() > 1000;
  }));
  // The reader goes: no signal, no error, only lines that are lost.
  const std::int64_t before = log.dropped();
  ::close(reader);
  EXPECT_TRUE(soon([&] {
    log.write({"nobody"});
    return log.dropped() > before;
  }));
}

TEST_F(LogTest, EndsThoughNobodyReads) {
  ASSERT_EQ(::mkfifo(file_.c_str(), 0600), 0);
  const int reader = ::open(file_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  const auto begin = std::chrono::steady_clock::now();
  {
    Log log({.file = file_});
    for (int i = 0; i < 2000; ++i) log.write({"x", {{"wide", std::string(400, 'x')}}});
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
  ::close(reader);
}

TEST_F(LogTest, IsOpenedAgainByItsName) {
  Log log({.file = file_});
  log.write({"before"});
  ASSERT_TRUE(soon([&] { return all_of(file_).find("before") != std::string::npos; }));
  std::filesystem::rename(file_, folder_ / "log.1");
  log.write({"between"});
  ASSERT_TRUE(soon([&] { return all_of(folder_ / "log.1").find("between") != std::string::npos; }));
  log.reopen();
  ASSERT_TRUE(soon([&] { return std::filesystem::exists(file_); }));
  log.write({"after"});
  ASSERT_TRUE(soon([&] { return all_of(file_).find("after") != std::string::npos; }));
  // Where it cannot be opened, the old one goes on.
  std::filesystem::remove(file_);
  std::filesystem::create_directory(file_);
  log.reopen();
  log.write({"kept"});
  log.flush();
  EXPECT_EQ(log.dropped(), 0);
}

TEST_F(LogTest, AFileThatCannotBeOpenedIsAnError) {
  EXPECT_THROW(Log({.file = folder_ / "none" / "log"}), std::exception);
}

}  // namespace
}  // namespace kvasir::testing
