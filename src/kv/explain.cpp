#include "kv/explain.h"

#include <fmt/format.h>

#include "base/check.h"

namespace kvasir {
namespace {

struct Words {
  std::string_view name;
  std::string_view sentence;
};

Words words_of(ReuseStop stop) {
  switch (stop) {
    case ReuseStop::kWholePrompt:
      return {"whole_prompt", "the last token is always computed"};
    case ReuseStop::kShortTail:
      return {"short_tail", "what follows does not fill a block"};
    case ReuseStop::kDiverged:
      return {"diverged", "the nearest cached text differs there"};
    case ReuseStop::kEvicted:
      return {"evicted", "what followed was cached, and was evicted"};
    case ReuseStop::kWindowDropped:
      return {"window_dropped", "a layer's window no longer holds what is needed there"};
    case ReuseStop::kNeverSeen:
      return {"never_seen", "what follows was never cached"};
    case ReuseStop::kOtherPolicy:
      return {"other_policy", "the same beginning is cached, but under another KV policy"};
    case ReuseStop::kPrivate:
      return {"private", "under this KV policy tokens are evicted, so what is cached is each request's own"};
    case ReuseStop::kOff:
      return {"off", "the cache is off"};
  }
  CHECK(false);
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

}  // namespace

std::string_view name_of(EvictedFor whom) {
  switch (whom) {
    case EvictedFor::kOwnRequest:
      return "own_request";
    case EvictedFor::kOwnQuota:
      return "own_quota";
    case EvictedFor::kOthers:
      break;
  }
  return "shared_pool";
}

std::string_view name_of(ReuseStop stop) { return words_of(stop).name; }

std::string describe(const ReuseReport& report) {
  std::string out = fmt::format("{} of {} prompt tokens reused; stopped at token {}: {}", report.reused_tokens,
                                report.prompt_tokens, report.stopped_at, words_of(report.stop).sentence);
  if (report.stop == ReuseStop::kEvicted) {
    out += fmt::format(" {}, {:.1f} s ago", cause_of(report), report.evicted_seconds_ago);
  }
  return out;
}

}  // namespace kvasir
