#include "cli/doctor/isolation_probe.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>

#include "base/error.h"
#include "eval/two_sample_tests.h"

namespace kvasir {
namespace {

using Json = nlohmann::json;
using Prompt = std::vector<int>;

constexpr int kWarmUp = 8;  // samples that do not count: threads, buffers and branches settle

class Probe {
 public:
  explicit Probe(const IsolationOptions& options)
      : options_(options), victim_(options.address), attacker_(options.address), random_(options.seed) {
    const HttpClient::Answer models = attacker_.get("/v1/models", options.attacker_key);
    if (models.status != 200) fail_system(fmt::format("GET /v1/models gave {}", models.status), options.address.host);
    const int vocab = Json::parse(models.body)["data"][0]["meta"]["n_vocab"].get<int>();
    tokens_.resize(static_cast<size_t>(vocab - std::min(300, vocab / 2)));  // the first ids are often special ones
    std::iota(tokens_.begin(), tokens_.end(), vocab - static_cast<int>(tokens_.size()));
    std::ranges::shuffle(tokens_, random_);
    const auto most = static_cast<int>(tokens_.size() / 2) - kWarmUp;
    if (options.samples > most) {
      fail_usage(fmt::format("the model has too few tokens for {} different beginnings", options.samples),
                 "--samples", fmt::format("use at most {}", most));
    }
  }

  // The victim asks for the attacker's prompt first, in every second sample; otherwise for another.
  void sample(int index, IsolationSamples& out) {
    const Prompt prompt = new_prompt();
    const bool primed = index % 2 == 0;
    ask(victim_, options_.victim_key, primed ? prompt : new_prompt());
    note(ask(attacker_, options_.attacker_key, prompt), primed ? out.primed : out.fresh);
    note(ask(attacker_, options_.attacker_key, prompt), out.own);
  }

 private:
  struct Timed {
    double seconds = 0;
    std::int64_t cached_tokens = 0;
  };

  // No two begin with the same token: reuse is to the token, and an own earlier prompt must not be taken for
  // another's.
  Prompt new_prompt() {
    std::uniform_int_distribution<size_t> any(0, tokens_.size() - 1);
    Prompt prompt{tokens_[prompts_++]};
    while (prompt.size() < static_cast<size_t>(options_.prompt_tokens)) prompt.push_back(tokens_[any(random_)]);
    return prompt;
  }

  static Timed ask(HttpClient& client, const std::string& key, const Prompt& prompt) {
    const Json body{{"prompt", prompt},
                    {"max_tokens", 1},
                    {"temperature", 0},
                    {"stream", true},
                    {"stream_options", {{"include_usage", true}}}};
    const HttpClient::Answer answer = client.post("/v1/completions", key, body.dump());
    if (answer.status != 200)
      fail_system(fmt::format("the server answered {}: {}", answer.status, answer.body.substr(0, 200)),
                  "/v1/completions");
    // The usage stands in the last event before [DONE].
    const size_t at = answer.body.rfind("data: {");
    if (at == std::string::npos || answer.first_event_seconds == 0)
      fail_system("the stream has no events", "/v1/completions");
    const Json last = Json::parse(answer.body.substr(at + 6, answer.body.find('\n', at) - at - 6));
    return {answer.first_event_seconds, last["usage"]["prompt_tokens_details"]["cached_tokens"].get<std::int64_t>()};
  }

  static void note(const Timed& timed, IsolationSamples::Kind& kind) {
    kind.seconds.push_back(timed.seconds);
    kind.cached_tokens += timed.cached_tokens;
  }

  const IsolationOptions& options_;
  HttpClient victim_;
  HttpClient attacker_;
  std::mt19937_64 random_;
  std::vector<int> tokens_;  // shuffled
  size_t prompts_ = 0;
};

std::string row(const char* name, const IsolationSamples::Kind& kind) {
  const auto ms = [&](double share) { return quantile(kind.seconds, share) * 1e3; };
  return fmt::format("  {:<24}{:>8}{:>11.3f}{:>11.3f}{:>11.3f}{:>11.1f}\n", name, kind.seconds.size(), ms(0.05),
                     ms(0.5), ms(0.95),
                     static_cast<double>(kind.cached_tokens) / static_cast<double>(kind.seconds.size()));
}

std::string verdict(const char* question, bool answer, const KsTest& test, const std::string& more) {
  return fmt::format("  {:<44}{:<5}KS distance {:.3f}, p {:.2g}; {}\n", question, answer ? "yes" : "no",
                     test.distance, test.p, more);
}

}  // namespace

IsolationSamples probe_isolation(const IsolationOptions& options, const std::function<void(int done)>& on_sample) {
  Probe probe(options);
  IsolationSamples unused;
  for (int i = 0; i < kWarmUp; ++i) probe.sample(i, unused);
  std::vector<int> order(static_cast<size_t>(options.samples));
  std::iota(order.begin(), order.end(), 0);
  std::mt19937_64 random(options.seed + 1);
  std::ranges::shuffle(order, random);
  IsolationSamples out;
  int done = 0;
  for (const int one : order) {
    probe.sample(one, out);
    if (on_sample) on_sample(++done);
  }
  return out;
}

IsolationVerdict judge(const IsolationSamples& samples) {
  const KsTest others = ks_test(samples.primed.seconds, samples.fresh.seconds);
  const KsTest own = ks_test(samples.own.seconds, samples.fresh.seconds);
  const Auc guess = auc(samples.primed.seconds, samples.fresh.seconds);
  const bool seen = samples.primed.cached_tokens + samples.fresh.cached_tokens > 0;
  IsolationVerdict out;
  out.hidden = !seen && others.p > 0.01;
  const double faster = quantile(samples.fresh.seconds, 0.5) / quantile(samples.own.seconds, 0.5);
  out.own_faster = own.p < 1e-6 && faster > 1;
  out.table = fmt::format("  {:<24}{:>8}{:>11}{:>11}{:>11}{:>11}\n", "time to first token, ms", "samples", "5%",
                          "median", "95%", "cached");
  out.table += row("another tenant had it", samples.primed);
  out.table += row("nobody had it", samples.fresh);
  out.table += row("the same tenant had it", samples.own);
  out.table += verdict("can another tenant's cache be told by time?", others.p <= 0.01, others,
                       fmt::format("AUC {:.3f}, by chance 0.5 ± {:.3f}", guess.value, guess.margin));
  out.table +=
      verdict("would a hit have been seen?", out.own_faster, own, fmt::format("{:.1f} times as fast", faster));
  return out;
}

}  // namespace kvasir
