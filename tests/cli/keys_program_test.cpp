// kvasir keys and doctor as a user runs them, and a server that reads its keys again.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "child.h"
#include "cli/client/http_client.h"
#include "cli/keys_command.h"
#include "program.h"

namespace kvasir::testing {
namespace {

class KeysProgramTest : public ProgramTest {
 protected:
  std::string file() const { return (folder_ / "keys.json").string(); }
  Ran keys(const std::string& arguments) { return run("keys " + arguments + " --file " + file()); }
};

TEST_F(KeysProgramTest, AKeyIsShownOnceAndOnlyItsHashIsKept) {
  const Ran added = keys("add alice --guaranteed 20% --most 50% --weight 2");
  ASSERT_EQ(added.code, 0) << added.err;
  ASSERT_EQ(added.out.size(), 47U);  // kv-, 43 of base64, a line's end
  const std::string text = read(file());
  EXPECT_EQ(text.find(added.out.substr(0, 46)), std::string::npos);
  EXPECT_NE(text.find("\"guaranteed_percent\": 20"), std::string::npos);
  struct stat about {};
  ASSERT_EQ(::stat(file().c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 0777, 0600U);
  EXPECT_EQ(keys("add bob").code, 0);
  const Ran list = keys("list");
  EXPECT_NE(list.out.find("alice          20%    50%       2"), std::string::npos) << list.out;
  EXPECT_NE(list.out.find("bob             0%   100%       1"), std::string::npos) << list.out;
  EXPECT_EQ(keys("remove alice").code, 0);
  EXPECT_EQ(keys("list").out.find("alice"), std::string::npos);
}

TEST_F(KeysProgramTest, MistakesAreNamedAndChangeNothing) {
  ASSERT_EQ(keys("add alice --guaranteed 60%").code, 0);
  const std::string before = read(file());
  const std::string at = " --file " + file();
  expect_refused("keys add alice" + at, 2, "has a key already");
  expect_refused("keys add bob --guaranteed 50%" + at, 1, "110%");
  expect_refused("keys add bob --guaranteed half" + at, 2, "write it like 20%");
  expect_refused("keys add bob --guaranteed 20" + at, 2, "write it like 20%");
  expect_refused("keys add bob --guaranteed 30% --most 20%" + at, 1, "at most 20%");
  expect_refused("keys add 'a b'" + at, 1, "not a tenant's name");
  expect_refused("keys remove carol" + at, 2, "no key of 'carol'");
  expect_refused("keys", 2, "subcommand is required");
  EXPECT_EQ(read(file()), before);
  std::ofstream(file()) << before.substr(0, before.size() / 2);
  expect_refused("keys list" + at, 1, "not JSON");
  expect_refused("keys add dave" + at, 1, "not JSON");
  expect_refused("serve --port 0 --keys " + file(), 1, "not JSON");
  expect_refused("keys list --file " + (folder_ / "none").string(), 1, "No such file");
}

TEST_F(KeysProgramTest, TheStandardFileFollowsTheDesktopsRules) {
  const std::string config = "XDG_CONFIG_HOME=" + folder_.string() + "/config ";
  EXPECT_EQ(run("keys add alice", "/dev/null", config).code, 0);
  EXPECT_TRUE(std::filesystem::exists(folder_ / "config" / "kvasir" / "keys.json"));
  const std::string home = "XDG_CONFIG_HOME= HOME=" + folder_.string() + " ";
  EXPECT_EQ(run("keys add alice", "/dev/null", home).code, 0);
  EXPECT_TRUE(std::filesystem::exists(folder_ / ".config" / "kvasir" / "keys.json"));
}

TEST_F(KeysProgramTest, AFileOthersCanReadIsWarnedOf) {
  ASSERT_EQ(keys("add alice").code, 0);
  ASSERT_EQ(::chmod(file().c_str(), 0644), 0);
  EXPECT_NE(keys("list").err.find("others can read"), std::string::npos);
}

TEST_F(KeysProgramTest, APublicAddressNeedsKeys) {
  expect_refused("serve --host 0.0.0.0 --port 0", 2, "--keys FILE");
}

TEST_F(KeysProgramTest, TheDoctorLooksAtTheMachine) {
  const Ran ran = run("doctor", "/dev/null", "XDG_CONFIG_HOME=" + folder_.string() + " ");
  EXPECT_EQ(ran.code, 0) << ran.out << ran.err;
  for (const char* topic : {"cpu ", "memory ", "model ", "keys ", "port "})
    EXPECT_NE(ran.out.find(topic), std::string::npos) << topic;
  EXPECT_NE(ran.out.find("kernels: scalar"), std::string::npos);
  EXPECT_EQ(run("doctor -m no-such-model", "/dev/null", "XDG_CONFIG_HOME=" + folder_.string() + " ").code, 1);
  expect_refused("doctor --isolation --samples 7", 2, "even");
  expect_refused("doctor --isolation --url http://127.0.0.1:1", 2, "two tenants");
}

TEST_F(KeysProgramTest, SighupReadsTheKeysAgain) {
  const std::string alice = keys("add alice").out.substr(0, 46);
  const std::string model = KVASIR_SOURCE_DIR "/models/tales-draft";
  Child server({KVASIR_PROGRAM, "serve", "--port", "0", "--keys", file(), "-m", model}, (folder_ / "log").string());
  const std::string greeting = server.said("try:");
  ASSERT_FALSE(greeting.empty());
  const size_t at = greeting.find("http://");
  const HttpAddress address = parse_url(greeting.substr(at, greeting.find_first_of(" \n", at) - at));
  const auto status = [&](const std::string& key) { return HttpClient(address).get("/v1/models", key).status; };
  EXPECT_EQ(status(alice), 200);
  EXPECT_EQ(status(""), 401);
  const std::string bob = keys("add bob").out.substr(0, 46);
  EXPECT_EQ(status(bob), 401);
  server.signal(SIGHUP);
  ASSERT_FALSE(server.said("event=reload ").empty());
  EXPECT_EQ(status(bob), 200);
  const std::string good = read(file());
  std::ofstream(file()) << good.substr(0, good.size() / 2);
  server.signal(SIGHUP);
  const std::string failed = server.said("event=reload_failed");
  ASSERT_FALSE(failed.empty());
  const size_t secret = good.find("\"secret\": \"") + 11;
  EXPECT_EQ(failed.find(good.substr(secret, 8)), std::string::npos);
  EXPECT_EQ(status(alice), 200);
  std::ofstream(file()) << good;
  ASSERT_EQ(keys("remove alice").code, 0);
  server.signal(SIGHUP);
  ASSERT_FALSE(server.said("keys=1").empty());
  EXPECT_EQ(status(alice), 401);
  EXPECT_EQ(status(bob), 200);
  EXPECT_EQ(server.end(), 0);
}

}  // namespace
}  // namespace kvasir::testing
