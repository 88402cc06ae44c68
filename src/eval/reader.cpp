#include "eval/reader.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "eval/divergence.h"
#include "eval/policy_engine.h"

namespace kvasir {
namespace {

EngineConfig config_for(const Model& model, EngineConfig config, std::int64_t context) {
  config.context = context;
  config.kv_bytes = roomy_bytes(model, config, context);
  config.swap_bytes = 0;
  return config;
}

}  // namespace

Reader::Reader(Backend& backend, Model& model, const EngineConfig& config, std::int64_t context)
    : Reader(backend, model, config_for(model, config, context)) {}

void Reader::open(std::span<const TokenId> tokens, Position first_judged) {
  const auto length = static_cast<Position>(tokens.size());
  const Position prompt = std::max(first_judged, length / 2) / EvictionRule::kInterval * EvictionRule::kInterval;
  open(tokens, first_judged, prompt > 0 ? prompt : std::min(EvictionRule::kInterval, length - 1));
}

// The last token is foretold, and foretells nothing: it is not read.
void Reader::open(std::span<const TokenId> tokens, Position first_judged, Position prompt) {
  CHECK(engine_.idle());
  CHECK(first_judged >= 1 && static_cast<size_t>(first_judged) < tokens.size());
  Request request;
  request.prompt.assign(tokens.begin(), tokens.end() - 1);
  request.max_tokens = 1;
  request.sampling.temperature = 0;
  request.score_from = first_judged - 1;
  request.evict_after = prompt;
  length_ = static_cast<Position>(tokens.size()) - 1;
  engine_.submit(std::move(request), [this](const Update& update) {
    if (update.finish == FinishReason::kFailed) failure_ = update.record->failure;
  });
}

bool Reader::step(const OnRow& on_row) {
  if (engine_.idle()) return false;
  engine_.observe([&on_row](RequestId, Position position, std::span<const float> row) { on_row(position, row); });
  engine_.step();
  engine_.observe({});
  if (!failure_.empty()) fail_input(std::exchange(failure_, {}), "eval");
  return true;
}

Position Reader::read() {
  Position done = length_;
  engine_.scheduler().each(
      [&done](const Sequence& sequence) { done = sequence.lease.valid() ? sequence.lease.length() : 0; });
  return done;
}

double Reader::log_likelihood(std::span<const TokenId> beginning, std::span<const TokenId> ending) {
  std::vector<TokenId> text(beginning.begin(), beginning.end());
  text.insert(text.end(), ending.begin(), ending.end());
  open(text, static_cast<Position>(beginning.size()), static_cast<Position>(beginning.size()));
  double sum = 0;
  const auto add = [&](Position position, std::span<const float> row) {
    sum -= surprise(row, text[static_cast<size_t>(position)]);
  };
  while (step(add)) {
  }
  return sum;
}

}  // namespace kvasir
