#include "eval/canary.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "base/hash.h"

namespace kvasir {
namespace {

constexpr int kMostTries = 3;

bool is_plain(KvFormat format) {
  return format == KvFormat::kF32 || format == KvFormat::kF16 || format == KvFormat::kBF16;
}

KvFormat with_more_bits(KvFormat format) {
  switch (format) {
    case KvFormat::kInt2:
      return KvFormat::kInt4;
    case KvFormat::kInt4:
    case KvFormat::kE5M2:
    case KvFormat::kE4M3:
      return KvFormat::kInt8;
    default:
      return is_plain(format) ? format : KvFormat::kF16;
  }
}

}  // namespace

bool is_lossy(const KvPolicy& policy) {
  return !is_plain(policy.k_format) || policy != uniform_policy(policy.k_format);
}

std::optional<KvPolicy> safer(const KvPolicy& policy) {
  KvPolicy out = policy;
  out.k_format = with_more_bits(policy.k_format);
  out.v_format = with_more_bits(policy.v_format);
  std::vector<LayerFormats> layers = policy.layers;
  bool plain = is_plain(out.k_format) && is_plain(out.v_format);
  for (LayerFormats& own : layers) {
    own.k_format = with_more_bits(own.k_format);
    own.v_format = with_more_bits(own.v_format);
    plain = plain && is_plain(own.k_format) && is_plain(own.v_format);
  }
  set_layer_formats(out, std::move(layers));
  if (out == policy && !policy.evict.on()) return std::nullopt;
  if (out == policy) out.evict = {};  // what could be kept better is; what is left is to keep it all
  if (plain) {                        // nothing is coarser than the recent tokens any more
    out.recent = 0;
    out.recent_format = KvPolicy{}.recent_format;
    if (out.retention.full() && !out.evict.on()) out.retention.sinks = 0;
  }
  return out;
}

std::vector<KvPolicy> canary_policies(std::span<const KvPolicy> watched) {
  std::vector<KvPolicy> out{uniform_policy(KvFormat::kF32)};
  for (const KvPolicy& policy : watched) {
    for (std::optional<KvPolicy> next = safer(policy); next; next = safer(*next)) out.push_back(*next);
  }
  return out;
}

void Canary::watch(Engine& engine) {
  engine.on_finished([this](const FinishedSequence& finished) { offer(finished); });
}

// Whether a request is watched depends on how many came before it, and on nothing that a client can choose.
void Canary::offer(const FinishedSequence& finished) {
  if (!is_lossy(finished.policy)) return;
  const auto answered = std::ssize(finished.tokens) - finished.prompt_tokens;
  if (answered < 1 || finished.prompt_tokens < 1) return;
  constexpr double kRange = 18446744073709551616.0;  // 2^64
  if (static_cast<double>(mix(0x63616e617279, ++offered_, 0)) >= config_.share * kRange) return;
  if (jobs_.size() >= kMostWaiting) return;
  Job job;
  job.tokens.assign(finished.tokens.begin(), finished.tokens.end());
  job.first_judged = std::ssize(job.tokens) - std::min<Position>(answered, kMostJudged);
  job.prompt_tokens = finished.prompt_tokens;
  job.policy = finished.policy;
  job.tenant = finished.tenant;
  jobs_.push_back(std::move(job));
}

void Canary::begin(Engine& engine) {
  if (running_ || jobs_.empty()) return;
  if (stage_ == Stage::kPlain) return read(engine, uniform_policy(KvFormat::kF32));
  own_rows_.clear();
  sums_ = {};
  read(engine, jobs_.front().policy);
}

void Canary::read(Engine& engine, const KvPolicy& policy) {
  const Job& job = jobs_.front();
  Request request;
  request.prompt.assign(job.tokens.begin(), job.tokens.end() - 1);
  request.max_tokens = 1;
  request.sampling.temperature = 0;
  request.score_from = job.first_judged - 1;
  request.evict_after = job.prompt_tokens;
  request.tenant = job.tenant;
  request.kv = policy;
  request.origin = Request::Origin::kInternal;
  next_ = job.first_judged;
  engine.observe([this](RequestId id, Position position, std::span<const float> row) {
    if (running_ == id) compare(position, row);
  });
  try {
    running_ = engine.submit(std::move(request), [this, &engine](const Update& update) { hear(engine, update); });
  } catch (const Error&) {  // a plain cache of it does not fit: nothing can be said of this one
    end_job(engine);
  }
}

void Canary::compare(Position position, std::span<const float> row) {
  if (position != next_) return;  // shown before, and again after a pause
  ++next_;
  const Job& job = jobs_.front();
  if (stage_ == Stage::kOwn) {
    own_rows_.insert(own_rows_.end(), row.begin(), row.end());
    return;
  }
  const auto index = static_cast<size_t>(position - job.first_judged) * row.size();
  CHECK(index + row.size() <= own_rows_.size());
  sums_.add(
      compare_rows(row, std::span(own_rows_).subspan(index, row.size()), job.tokens[static_cast<size_t>(position)]));
}

// Called from inside the engine's step: what comes next begins with the next begin().
void Canary::hear(Engine& engine, const Update& update) {
  if (update.finish == FinishReason::kNone || running_ != update.id) return;
  running_.reset();
  if (update.finish == FinishReason::kCancelled) return;
  if (update.finish == FinishReason::kFailed) return end_job(engine);
  if (stage_ == Stage::kOwn) {
    stage_ = Stage::kPlain;
    return;
  }
  judge(engine);
  end_job(engine);
}

void Canary::judge(Engine& engine) {
  const KvPolicy& policy = jobs_.front().policy;
  Seen& seen = seen_[to_text(policy)];
  ++seen.requests;
  seen.sums.rows += sums_.rows;
  seen.sums.kl += sums_.kl;
  seen.sums.surprise += sums_.surprise;
  seen.sums.same_top += sums_.same_top;
  if (seen.judged || seen.sums.rows < config_.enough || seen.sums.mean_kl() <= config_.most_kl) return;
  seen.judged = true;
  const std::optional<KvPolicy> by = safer(policy);
  if (by) {
    engine.replace_policy(policy, *by);
    seen.replaced_by = to_text(*by);
  }
  if (on_verdict_) on_verdict_({to_text(policy), seen.replaced_by, seen.sums.mean_kl(), seen.sums.rows});
}

void Canary::end_job(Engine& engine) {
  engine.observe({});
  stage_ = Stage::kOwn;
  jobs_.pop_front();
}

void Canary::give_way(Engine& engine) {
  const bool begun = running_.has_value() || stage_ == Stage::kPlain;
  if (!begun) return;
  if (running_) engine.cancel(*std::exchange(running_, std::nullopt));
  engine.observe({});
  stage_ = Stage::kOwn;
  if (++jobs_.front().tries >= kMostTries) jobs_.pop_front();
}

}  // namespace kvasir
