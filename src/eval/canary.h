// A watch over lossy KV policies while they serve: a share of the requests that ended is read once more in idle time,
// under their own policy and over a cache of plain f32, and what the model foretold is compared. A policy that is too
// far off is replaced by a safer one.
//
// Lives on the engine's thread. Nobody sees a canary's answers, and it gives way to whoever asks for one.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/idle_work.h"
#include "eval/divergence.h"

namespace kvasir {

struct CanaryConfig {
  double share = 0;           // of requests under lossy policies; 0: none is watched
  double most_kl = 0.1;       // mean divergence in nats: a policy beyond it is replaced …
  std::int64_t enough = 128;  // … once so many tokens were compared
};

// The next policy with more bits, for what can have more, or that keeps all tokens; nullopt: only plain formats are
// left, and nothing is evicted.
std::optional<KvPolicy> safer(const KvPolicy& policy);

// Policies that a canary over these may run requests under, besides these: memory must be laid out for them.
std::vector<KvPolicy> canary_policies(std::span<const KvPolicy> watched);

// Whether a canary over this policy can see anything: plain 16- and 32-bit caches of all tokens are what it compares
// with.
bool is_lossy(const KvPolicy& policy);

class Canary final : public IdleWork {
 public:
  static constexpr size_t kMostWaiting = 8;        // requests kept to be read again; more are let go
  static constexpr std::int64_t kMostJudged = 32;  // tokens of an answer, the last ones

  struct Verdict {
    std::string policy;
    std::string replaced_by;  // empty: there is no safer one
    double kl = 0;
    std::int64_t tokens = 0;
  };
  using OnVerdict = std::function<void(const Verdict& verdict)>;

  Canary(CanaryConfig config, OnVerdict on_verdict) : config_(config), on_verdict_(std::move(on_verdict)) {}

  // Hears of every request that ended; the canary outlives what the engine still does.
  void watch(Engine& engine);

  bool waiting() const override { return !jobs_.empty(); }
  void begin(Engine& engine) override;
  void give_way(Engine& engine) override;

  // By policy's text, what was seen so far.
  struct Seen {
    std::int64_t requests = 0;
    QualitySums sums;
    std::string replaced_by;
    bool judged = false;  // beyond the limit
  };
  const std::map<std::string, Seen>& seen() const { return seen_; }

 private:
  struct Job {
    std::vector<TokenId> tokens;  // prompt and answer
    std::int64_t prompt_tokens = 0;
    Position first_judged = 0;
    KvPolicy policy;
    Tenant tenant;
    int tries = 0;
  };

  void offer(const FinishedSequence& finished);
  void read(Engine& engine, const KvPolicy& policy);
  void hear(Engine& engine, const Update& update);
  void compare(Position position, std::span<const float> row);
  void judge(Engine& engine);
  void end_job(Engine& engine);

  CanaryConfig config_;
  OnVerdict on_verdict_;
  std::deque<Job> jobs_;  // the first may be running
  std::optional<RequestId> running_;
  enum class Stage : std::uint8_t { kOwn, kPlain } stage_ = Stage::kOwn;
  Position next_ = 0;            // to be judged
  std::vector<float> own_rows_;  // [judged][vocab], under the job's own policy
  QualitySums sums_;             // of the running job
  std::uint64_t offered_ = 0;
  std::map<std::string, Seen> seen_;
};

}  // namespace kvasir
