#include "tune/rank_tuner.h"

#include "eval/policy_engine.h"
#include "eval/reader.h"

namespace kvasir {

KvBasis tune_rank(RankRecorder& recorder, Model& model, const TextWindows& windows,
                  const std::function<void(std::int64_t done)>& progress) {
  EngineConfig config = with_policy({}, kReferencePolicy);
  config.reuse = CacheConfig::Reuse::kOff;  // every row of every window is computed, and counts
  Reader reader(recorder, model, config, windows.cut().context);
  for (std::int64_t i = 0; i < windows.count(); ++i) {
    const TextWindow window = windows.at(i);
    reader.open(window.tokens, static_cast<Position>(window.tokens.size()) - 1);  // nobody asks what it foretells
    while (reader.step([](Position, std::span<const float>) {})) {
    }
    progress(i + 1);
  }
  return basis_of(recorder.moments());
}

}  // namespace kvasir
