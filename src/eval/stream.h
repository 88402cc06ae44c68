// A text without end read as one sequence, under a policy with a window: whether quality, time and memory stay as
// they are.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "engine/engine.h"

namespace kvasir {

struct StreamPlan {
  std::int64_t tokens = 0;       // to read; a text that is shorter begins again
  std::int64_t segment = 10000;  // tokens that are reported together
  std::vector<TokenId> opening;
  std::int64_t last = 0;  // so many last tokens are judged together as well
};

struct StreamSegment {
  std::int64_t end = 0;   // tokens read when it ended
  double perplexity = 0;  // of its tokens
  double seconds_per_token = 0;
  std::int64_t cache_bytes = 0;    // that the sequence holds at its end
  std::int64_t process_bytes = 0;  // of memory that the whole process has then
};

struct StreamReading {
  std::vector<StreamSegment> segments;
  double last_perplexity = 0;  // of the plan's last tokens
};

// Told how many tokens are done.
using OnStream = std::function<void(std::int64_t done)>;

// The text over and over, behind the plan's opening.
std::vector<TokenId> stream_tokens(std::span<const TokenId> text, const StreamPlan& plan);

// Throws Error when the policy would have to keep everything, or sees further than the model was trained for.
StreamReading read_stream(Backend& backend, Model& model, const EngineConfig& config, std::span<const TokenId> tokens,
                          const StreamPlan& plan, const OnStream& on_progress);

// What the last tokens' perplexity is when nothing is kept: for every few of them (kRereadTokens) as many tokens
// before them as the policy's window holds are computed again.
inline constexpr std::int64_t kRereadTokens = 64;
double reread_last(Backend& backend, Model& model, const EngineConfig& config, std::span<const TokenId> tokens,
                   const StreamPlan& plan, const OnStream& on_progress);

}  // namespace kvasir
