#include "eval/stream.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <limits>

#include "base/error.h"
#include "engine/engine_config.h"
#include "eval/divergence.h"
#include "eval/policy_engine.h"
#include "eval/reader.h"

namespace kvasir {
namespace {

using Clock = std::chrono::steady_clock;

std::int64_t process_bytes() {
  std::ifstream file("/proc/self/statm");
  std::int64_t total = 0;
  std::int64_t resident = 0;
  file >> total >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

// Room for what the policy keeps and for the step that is being read, however long the text.
EngineConfig config_for(const Model& model, EngineConfig config, std::int64_t tokens) {
  const std::vector<KvGroup> groups = kv_groups(model.config(), config.kv);
  const std::int64_t trained = model.config().context;
  if (!streams(groups, trained)) {
    fail_usage(fmt::format("'{}' is no policy to stream with", to_text(config.kv)), "--kv",
               fmt::format("give it a window, like \"window={}, sinks=4\"; both together at most {}",
                           std::min<std::int64_t>(1020, trained - 4), trained));
  }
  std::int64_t held = 2 * config.scheduler.max_batch_tokens;
  for (const KvGroup& group : groups) {
    held = std::max(held, group.retention.span() + group.retention.sinks + 2 * config.scheduler.max_batch_tokens);
  }
  config.context = tokens + 1;
  config.kv_bytes = roomy_bytes(model, config, held);
  config.swap_bytes = 0;
  config.reuse = CacheConfig::Reuse::kOff;  // what is dropped is never asked for again
  return config;
}

std::int64_t held_bytes(Engine& engine) {
  std::int64_t bytes = 0;
  for (size_t g = 0; g < engine.cache().groups(); ++g) {
    bytes += engine.cache().pool(g).held() * engine.cache().pool(g).weight();
  }
  return bytes;
}

}  // namespace

std::vector<TokenId> stream_tokens(std::span<const TokenId> text, const StreamPlan& plan) {
  if (plan.tokens < 2 || plan.segment < 1) {
    fail_usage(fmt::format("{} tokens are no stream", plan.tokens), "--stream", "try --stream 100000");
  }
  if (plan.last < 0 || plan.last >= plan.tokens) {
    fail_usage(fmt::format("{} are not some of {} tokens", plan.last, plan.tokens), "--reread",
               "use fewer than --stream has");
  }
  if (text.empty()) fail_input("the text is empty", "--text", "give a longer text");
  std::vector<TokenId> tokens = plan.opening;
  while (std::ssize(tokens) < plan.tokens)
    tokens.push_back(text[(tokens.size() - plan.opening.size()) % text.size()]);
  return tokens;
}

StreamReading read_stream(Backend& backend, Model& model, const EngineConfig& config, std::span<const TokenId> tokens,
                          const StreamPlan& plan, const OnStream& on_progress) {
  Reader reader(backend, model, config_for(model, config, plan.tokens));
  StreamReading reading;
  QualitySums sums;
  QualitySums last;
  Position judged = 0;  // the last one
  const auto judge = [&](Position position, std::span<const float> row) {
    const RowComparison one{surprise(row, tokens[static_cast<size_t>(position)]), 0, true};
    sums.add(one);
    if (position >= plan.tokens - plan.last) last.add(one);
    judged = position;
  };
  Clock::time_point began = Clock::now();
  std::int64_t held = 0;
  const auto end_segment = [&] {
    const Clock::time_point now = Clock::now();
    const double seconds = std::chrono::duration<double>(now - began).count();
    reading.segments.push_back(
        {judged + 1, sums.perplexity(), seconds / static_cast<double>(sums.rows), held, process_bytes()});
    sums = {};
    began = now;
  };
  reader.open(tokens, 1);
  while (reader.step(judge)) {
    if (judged + 1 < plan.tokens) held = held_bytes(reader.engine());  // at its end it lets go of everything
    if (on_progress) on_progress(judged + 1);
    if (sums.rows >= plan.segment) end_segment();
  }
  if (sums.rows > 0) end_segment();
  if (last.rows > 0) reading.last_perplexity = last.perplexity();
  return reading;
}

double reread_last(Backend& backend, Model& model, const EngineConfig& config, std::span<const TokenId> tokens,
                   const StreamPlan& plan, const OnStream& on_progress) {
  Position window = std::numeric_limits<Position>::max();
  for (const KvGroup& group : kv_groups(model.config(), config.kv)) {
    if (!group.retention.full()) window = std::min(window, group.retention.span());
  }
  Reader reader(backend, model, config, window);
  QualitySums sums;
  for (Position at = plan.tokens - plan.last; at < plan.tokens; at += kRereadTokens) {
    const Position end = std::min(at + kRereadTokens, plan.tokens);
    const Position begin = std::max<Position>(0, end - window);
    const auto part = tokens.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
    reader.open(part, std::max<Position>(at - begin, 1));
    while (reader.step([&](Position position, std::span<const float> row) {
      sums.add({surprise(row, part[static_cast<size_t>(position)]), 0, true});
    })) {
    }
    if (on_progress) on_progress(end - (plan.tokens - plan.last));
  }
  return sums.perplexity();
}

}  // namespace kvasir
