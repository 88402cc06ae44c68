#include "kv/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/check.h"

namespace kvasir {
namespace {

struct Words {
  ReuseStop stop;
  std::string_view name;
  std::string_view sentence;
};

constexpr std::array<Words, 10> kWords{{
    {ReuseStop::kWholePrompt, "whole_prompt", "the last token is always computed"},
    {ReuseStop::kShortTail, "short_tail", "what follows does not fill a block"},
    {ReuseStop::kDiverged, "diverged", "the nearest cached text differs there"},
    {ReuseStop::kEvicted, "evicted", "what followed was cached, and was evicted"},
    {ReuseStop::kWindowDropped, "window_dropped", "a layer's window no longer holds what is needed there"},
    {ReuseStop::kStateBefore, "state_before", "the nearest state of recurrent layers that was kept lies there"},
    {ReuseStop::kNeverSeen, "never_seen", "what follows was never cached"},
    {ReuseStop::kOtherPolicy, "other_policy", "the same beginning is cached, but under another KV policy"},
    {ReuseStop::kPrivate, "private",
     "under this KV policy tokens are evicted, so what is cached is each request's own"},
    {ReuseStop::kOff, "off", "the cache is off"},
}};

const Words& words_of(ReuseStop stop) {
  const auto* const found = std::ranges::find(kWords, stop, &Words::stop);
  CHECK(found != kWords.end());
  return *found;
}

std::string cause_of(const ReuseReport& report) {
  switch (report.evicted_for) {
    case EvictedFor::kOwnRequest:
      return fmt::format("to make room for your request {}", report.evicted_by);
    case EvictedFor::kOwnQuota:
      return fmt::format("because your quota was used up by your request {}", report.evicted_by);
    case EvictedFor::kOthers:
      break;
  }
  return "because the shared pool was full";
}

std::string cause_of_loss(const ReuseReport& report) {
  switch (report.state_loss) {
    case StateLoss::kSuperseded:
      return fmt::format(
          "the state at token {} made way {:.1f} s ago, since a later one of the same text had been kept; a "
          "breakpoint "
          "there would have kept it",
          report.rows_upto, report.evicted_seconds_ago);
    case StateLoss::kEvicted:
      return fmt::format("the state at token {} was evicted {}, {:.1f} s ago; more --kv-memory would have kept it",
                         report.rows_upto, cause_of(report), report.evicted_seconds_ago);
    case StateLoss::kNeverKept:
      break;
  }
  return fmt::format("a breakpoint at token {}, or a larger --state-budget, would have kept one", report.rows_upto);
}

}  // namespace

std::string_view name_of(StateLoss loss) {
  if (loss == StateLoss::kNeverKept) return "never_kept";
  return loss == StateLoss::kEvicted ? "evicted" : "superseded";
}

std::string_view name_of(EvictedFor whom) {
  if (whom == EvictedFor::kOthers) return "shared_pool";
  return whom == EvictedFor::kOwnQuota ? "own_quota" : "own_request";
}

std::string_view name_of(ReuseStop stop) { return words_of(stop).name; }

ReuseReport ReuseReport::of_prompt() const {
  ReuseReport out = *this;
  if (source_tokens == 0) return out;
  out.prompt_tokens = source_tokens;
  out.reused_tokens = out.stopped_at = source_reused;
  out.stop = source_stop;
  out.cached_token = -1;
  return out;
}

std::string describe(const ReuseReport& report) {
  if (report.source_tokens > 0 && report.reused_tokens == report.source_tokens) {
    return fmt::format("all {} tokens of the source were found: the encoder did not run", report.source_tokens);
  }
  std::string out = fmt::format("{} of {} prompt tokens reused; stopped at token {}: {}", report.reused_tokens,
                                report.prompt_tokens, report.stopped_at, words_of(report.stop).sentence);
  if (report.stop == ReuseStop::kEvicted) {
    out += fmt::format(" {}, {:.1f} s ago", cause_of(report), report.evicted_seconds_ago);
  }
  if (report.stop == ReuseStop::kStateBefore) {
    out += fmt::format(", and the {} tokens behind it are computed again, though their rows are cached: {}",
                       report.rows_upto - report.stopped_at, cause_of_loss(report));
  }
  return out;
}

}  // namespace kvasir
