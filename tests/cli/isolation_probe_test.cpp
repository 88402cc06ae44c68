// The probe against real servers: it must see what can be seen. What its clock says is not tested here.
#include "cli/doctor/isolation_probe.h"

#include "server/test_server.h"

namespace kvasir::testing {
namespace {

class IsolationProbeTest : public ServedDraft {
 protected:
  IsolationProbeTest() {
    service_.keys = KeysFile{random_secret(), {}};
    for (const auto& [name, key] : {std::pair("victim", victim_), std::pair("attacker", attacker_)})
      service_.keys->entries.push_back({.name = name, .hash = hash_of_key(key), .created = "", .share = {}});
  }

  IsolationOptions options(const TestServer& server, const std::string& attacker) const {
    return {.address = {.port = std::to_string(server.port())},
            .victim_key = victim_,
            .attacker_key = attacker,
            .samples = 20,
            .prompt_tokens = 48,
            .seed = 3};
  }

  std::string victim_ = random_key();
  std::string attacker_ = random_key();
  ServiceOptions service_;
};

TEST_F(IsolationProbeTest, TwoTenantsShareNothing) {
  const TestServer server(*model_, {}, service_);
  int last = 0;
  const IsolationSamples samples = probe_isolation(options(server, attacker_), [&](int done) { last = done; });
  EXPECT_EQ(last, 20);
  EXPECT_EQ(samples.primed.seconds.size(), 10U);
  EXPECT_EQ(samples.fresh.seconds.size(), 10U);
  EXPECT_EQ(samples.own.seconds.size(), 20U);
  EXPECT_EQ(samples.primed.cached_tokens, 0);
  EXPECT_EQ(samples.fresh.cached_tokens, 0);
  EXPECT_EQ(samples.own.cached_tokens, 20 * 47);
  for (const double seconds : samples.primed.seconds) EXPECT_GT(seconds, 0);
}

TEST_F(IsolationProbeTest, ALeakIsSeen) {
  const TestServer server(*model_, {}, service_);
  const IsolationSamples samples = probe_isolation(options(server, victim_), {});  // both are one tenant
  EXPECT_EQ(samples.primed.cached_tokens, 10 * 47);
  EXPECT_EQ(samples.fresh.cached_tokens, 0);
  EXPECT_FALSE(judge(samples).hidden);
}

TEST_F(IsolationProbeTest, AWrongKeyIsAnError) {
  const TestServer server(*model_, {}, service_);
  EXPECT_THROW(probe_isolation(options(server, "kv-wrong"), {}), Error);
}

TEST(Judge, TimesAloneCanTell) {
  IsolationSamples samples;
  for (int i = 0; i < 500; ++i) {
    samples.primed.seconds.push_back(1 + i * 1e-3);
    samples.fresh.seconds.push_back(1 + i * 1e-3);
    samples.own.seconds.push_back(0.1 + i * 1e-3);
  }
  EXPECT_TRUE(judge(samples).hidden);
  EXPECT_TRUE(judge(samples).own_faster);
  IsolationSamples leaking = samples;
  for (double& seconds : leaking.primed.seconds) seconds -= 0.06;
  EXPECT_FALSE(judge(leaking).hidden);
  IsolationSamples blind = samples;
  blind.own = blind.fresh;
  EXPECT_FALSE(judge(blind).own_faster);
  IsolationSamples slower = samples;
  for (double& seconds : slower.own.seconds) seconds += 5;
  EXPECT_FALSE(judge(slower).own_faster);
}

TEST(Url, IsHttpWithAPort) {
  EXPECT_EQ(parse_url("http://127.0.0.1:8080").port, "8080");
  EXPECT_EQ(parse_url("http://[::1]:81/v1").host, "::1");
  EXPECT_EQ(parse_url("http://box.lan").port, "80");
  EXPECT_THROW(parse_url("https://box.lan"), Error);
}

}  // namespace
}  // namespace kvasir::testing
