// kvasir serve as those who operate it see it: its log, its signals, what it tells who started it.
#include <sys/socket.h>
#include <sys/un.h>

#include <thread>

#include "child.h"
#include "cli/client/http_client.h"
#include "program.h"
#include "server/api/json_fields.h"

namespace kvasir::testing {
namespace {

class ServeProgramTest : public ProgramTest {
 protected:
  static std::vector<std::string> serve(const std::vector<std::string>& options, const std::string& port = "0") {
    std::vector<std::string> out{KVASIR_PROGRAM, "serve", "--port",
                                 port,           "-m",    KVASIR_SOURCE_DIR "/models/tales-draft"};
    out.insert(out.end(), options.begin(), options.end());
    return out;
  }
  static HttpAddress address_in(const std::string& said) {
    const size_t at = said.find("http://");
    return parse_url(said.substr(at, said.find_first_of(" \"\n", at) - at));
  }
  static int health(const HttpAddress& address) { return HttpClient(address).get("/health", "").status; }

  std::string err() const { return (folder_ / "err").string(); }
  std::string log() const { return (folder_ / "log").string(); }
};

TEST_F(ServeProgramTest, LogsJsonToAFileThatCanBeMovedAway) {
  Child server(serve({"--log-format", "json", "--log-file", log()}), err());
  const std::string greeting = Child::said("\"ready\"", log());
  ASSERT_FALSE(greeting.empty());
  const HttpAddress address = address_in(greeting);
  EXPECT_EQ(health(address), 200);
  ASSERT_FALSE(Child::said("\"/health\"", log()).empty());
  std::filesystem::rename(log(), log() + ".1");
  server.signal(SIGUSR1);
  for (int i = 0; i < 1000 && !std::filesystem::exists(log()); ++i) ::usleep(10'000);
  EXPECT_EQ(health(address), 200);
  ASSERT_FALSE(Child::said("\"/health\"", log()).empty());
  server.signal(SIGHUP);  // opens it again too, and there are no keys to read
  EXPECT_EQ(health(address), 200);
  EXPECT_EQ(server.end(), 0);
  std::ifstream lines(log());
  std::string last;
  for (std::string line; std::getline(lines, line); last = line) EXPECT_TRUE(Json::accept(line)) << line;
  EXPECT_EQ(Json::parse(last)["event"], "end");
  EXPECT_EQ(read(err()), "");
}

TEST_F(ServeProgramTest, ServesOnWhenItsLogIsFull) {
  // stderr is full from the start, and so the port has to be known.
  HttpAddress address;
  {
    Child probe(serve({}), err());
    address = address_in(probe.said("try:"));
    EXPECT_EQ(probe.end(), 0);
  }
  Child server(serve({}, address.port), "/dev/full");
  int good = 0;
  for (int i = 0; i < 600 && good < 20; ++i) {
    try {
      good += health(address) == 200 ? 1 : 0;
    } catch (const std::exception&) {  // not up yet
    }
    if (good == 0) ::usleep(50'000);
  }
  EXPECT_EQ(good, 20);
  const std::string page = HttpClient(address).get("/metrics", "").body;
  EXPECT_EQ(page.find("kvasir:log_lines_dropped_total{model_name=\"tales-draft\"} 0\n"), std::string::npos);
  EXPECT_EQ(server.end(), 0);
}

TEST_F(ServeProgramTest, TellsTheServiceManager) {
  const std::string path = (folder_ / "notify").string();
  sockaddr_un at{};
  at.sun_family = AF_UNIX;
  ASSERT_LT(path.size(), sizeof at.sun_path);
  std::copy(path.begin(), path.end(), at.sun_path);
  const int socket = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  ASSERT_EQ(::bind(socket, reinterpret_cast<const sockaddr*>(&at), sizeof at), 0);
  const timeval patience{30, 0};
  ::setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  const auto told = [&] {
    char text[256];
    const ssize_t got = ::recv(socket, text, sizeof text, 0);
    return std::string(text, static_cast<size_t>(std::max<ssize_t>(got, 0)));
  };
  Child server(serve({"--log-file", log()}), err(), {"NOTIFY_SOCKET=" + path});
  EXPECT_EQ(told(), "READY=1");
  EXPECT_EQ(health(address_in(Child::said("event=ready", log()))), 200);
  server.signal(SIGTERM);
  EXPECT_EQ(told(), "STOPPING=1");
  EXPECT_EQ(server.wait(), 0);
  ::close(socket);
}

TEST_F(ServeProgramTest, ADrainEndsAtItsDeadline) {
  Child server(serve({"--drain-timeout", "0.2"}), err());
  const HttpAddress address = address_in(server.said("try:"));
  HttpClient::Answer answer;
  std::jthread client([&] {
    answer = HttpClient(address).post("/v1/completions", "",
                                      R"({"prompt":"a","n":32,"max_tokens":1900,"ignore_eos":true,"temperature":1})");
  });
  const auto idle = [&] {
    return HttpClient(address)
               .get("/metrics", "")
               .body.find("num_requests_running{model_name=\"tales-draft\"} 0\n") != std::string::npos;
  };
  for (int i = 0; i < 1000 && idle(); ++i) ::usleep(2'000);
  server.signal(SIGTERM);
  EXPECT_EQ(server.wait(), 0);
  client.join();
  EXPECT_EQ(answer.status, 503) << answer.body;
  EXPECT_NE(server.said("event=drain_timeout answers_ended=1"), "");
}

TEST_F(ServeProgramTest, RefusesWhatMakesNoSense) {
  expect_refused("serve --port 0 --log-file " + folder_.string(), 2, "log file cannot be opened");
  expect_refused("serve --port 0 --max-body 16MiB --max-bodies-memory 20MiB", 2, "twice --max-body");
  expect_refused("serve --port 0 --handler-threads 0", 2, "threads make no sense");
  expect_refused("serve --port 0 --log-format xml", 2, "--log-format");
  expect_refused("serve --port 0 --drain-timeout -1", 2, "seconds make no sense");
}

}  // namespace
}  // namespace kvasir::testing
