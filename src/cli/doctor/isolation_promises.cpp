#include "cli/doctor/isolation_promises.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/error.h"

namespace kvasir {
namespace {

using OwnJson = nlohmann::json;  // of a server that we started
using Prompt = std::vector<int>;

class TwoTenants {
 public:
  explicit TwoTenants(const PromiseOptions& options)
      : options_(options), victim_(options.address), attacker_(options.address) {
    const OwnJson models = OwnJson::parse(attacker_.get("/v1/models", options.attacker_key).body);
    vocab_ = models["data"][0]["meta"]["n_vocab"].get<int>();
    const OwnJson props = OwnJson::parse(attacker_.get("/props", options.attacker_key).body);
    longest_ = props["default_generation_settings"]["n_ctx"].get<std::int64_t>();
  }

  struct Asked {
    std::int64_t cached_tokens = 0;
    std::string id;
  };
  Asked victim_asks(const Prompt& prompt) { return ask(victim_, options_.victim_key, prompt); }
  Asked attacker_asks(const Prompt& prompt) { return ask(attacker_, options_.attacker_key, prompt); }

  // Begins with a token of its own, so that nothing of it was ever asked before.
  Prompt new_prompt(std::int64_t tokens) {
    ++prompts_;
    Prompt prompt;
    for (std::int64_t i = 0; i < tokens; ++i) {
      const std::int64_t ordinary = vocab_ / 2;  // the first ids are often special ones
      prompt.push_back(static_cast<int>(vocab_ - 1 - (prompts_ * 31 + i * (7 + prompts_)) % ordinary));
    }
    return prompt;
  }

  // The number of the attacker's request, as its record tells it.
  std::uint64_t task_of(const std::string& id) {
    const auto answer = attacker_.get("/kvasir/requests/" + id, options_.attacker_key);
    return OwnJson::parse(answer.body)["tasks"][0]["id_task"].get<std::uint64_t>();
  }

  std::int64_t longest() const { return longest_; }  // prompt and answer of the attacker's

 private:
  static Asked ask(HttpClient& client, const std::string& key, const Prompt& prompt) {
    const OwnJson body{{"prompt", prompt}, {"max_tokens", 1}, {"temperature", 0}};
    const HttpClient::Answer answer = client.post("/v1/completions", key, body.dump());
    if (answer.status != 200) {
      fail_system(fmt::format("the server answered {}: {}", answer.status, answer.body.substr(0, 200)),
                  "/v1/completions");
    }
    const OwnJson json = OwnJson::parse(answer.body);
    return {json["usage"]["prompt_tokens_details"]["cached_tokens"].get<std::int64_t>(),
            json["id"].get<std::string>()};
  }

  const PromiseOptions& options_;
  HttpClient victim_;
  HttpClient attacker_;
  std::int64_t vocab_ = 0;
  std::int64_t longest_ = 0;
  std::int64_t prompts_ = 0;
};

PromiseReport guarantee_is_kept(TwoTenants& tenants, const PromiseOptions& options) {
  const std::int64_t length = std::min(options.guaranteed_tokens, tenants.longest()) / 2;
  const Prompt mine = tenants.new_prompt(length);
  tenants.victim_asks(mine);
  const std::int64_t before = tenants.victim_asks(mine).cached_tokens;
  std::int64_t flood = 0;
  while (flood < 2 * options.cache_tokens) {
    const Prompt other = tenants.new_prompt(tenants.longest() / 2);
    tenants.attacker_asks(other);
    flood += std::ssize(other);
  }
  const std::int64_t after = tenants.victim_asks(mine).cached_tokens;
  return {"what is guaranteed stays cached", before > 0 && after == before,
          fmt::format("{} of {} tokens cached, after {} of another tenant's {}", before, length, flood, after)};
}

PromiseReport public_text_tells_nothing(TwoTenants& tenants, const PromiseOptions& options) {
  Prompt probe = options.public_text;
  probe.push_back(1);
  const std::int64_t before = tenants.attacker_asks(probe).cached_tokens;
  const auto push_out = [&] { tenants.attacker_asks(tenants.new_prompt(tenants.longest() - 1)); };
  push_out();
  const std::int64_t unused = tenants.attacker_asks(probe).cached_tokens;
  push_out();
  tenants.victim_asks(probe);
  const std::int64_t used = tenants.attacker_asks(probe).cached_tokens;
  return {"a public text tells nobody who used it", before > 0 && unused == before && used == before,
          fmt::format("{} of {} tokens cached; after the longest request {}; after another's use {}", before,
                      probe.size(), unused, used)};
}

PromiseReport numbers_tell_nothing(TwoTenants& tenants) {
  constexpr std::uint64_t kOfVictim = 7;
  const std::uint64_t first = tenants.task_of(tenants.attacker_asks(tenants.new_prompt(20)).id);
  for (std::uint64_t i = 0; i < kOfVictim; ++i) tenants.victim_asks(tenants.new_prompt(20));
  const std::uint64_t second = tenants.task_of(tenants.attacker_asks(tenants.new_prompt(20)).id);
  return {"numbers of requests tell nothing of others'", second - first != kOfVictim + 1,
          fmt::format("{} and {}, with {} of another tenant's between", first, second, kOfVictim)};
}

// Several connections, each with as many answers as one request may have, until the server takes no more.
PromiseReport places_are_left(TwoTenants& tenants, const PromiseOptions& options) {
  constexpr int kConnections = 24;
  const OwnJson body{{"prompt", tenants.new_prompt(8)}, {"max_tokens", 40}, {"n", 64}, {"ignore_eos", true}};
  std::vector<int> statuses(kConnections, 0);
  std::vector<std::thread> threads;
  for (int& status : statuses) {
    threads.emplace_back([&status, &options, &body] {
      try {
        HttpClient client(options.address);
        status = client.post("/v1/completions", options.attacker_key, body.dump()).status;
      } catch (const std::exception&) {
        status = -1;
      }
    });
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  HttpClient client(options.address);
  const OwnJson one{{"prompt", tenants.new_prompt(8)}, {"max_tokens", 1}};
  const int seen = client.post("/v1/completions", options.victim_key, one.dump()).status;
  for (std::thread& thread : threads) thread.join();
  const auto refused = std::ranges::count(statuses, 429);
  return {"no tenant takes every place", seen == 200,
          fmt::format("{} requests of 64 answers, {} of them refused; another tenant's: {}", kConnections, refused,
                      seen)};
}

}  // namespace

std::vector<PromiseReport> try_promises(const PromiseOptions& options) {
  TwoTenants tenants(options);
  return {guarantee_is_kept(tenants, options), public_text_tells_nothing(tenants, options),
          numbers_tell_nothing(tenants), places_are_left(tenants, options)};
}

}  // namespace kvasir
