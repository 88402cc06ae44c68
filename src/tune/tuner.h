// Chooses the formats of K and V for every layer, and how many recent tokens are kept in a finer one. What one part
// of the cache costs by itself is measured, what many cost is foretold as the sum, the best mixes of every size
// follow from that, and those of the wanted size are measured. Uniform formats are measured as well: the answer is
// never worse than one of them of the wanted size, on the text it was tuned on.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tune/layer_mix.h"
#include "tune/policy_evaluator.h"

namespace kvasir {

// A mix has b bits when the cache of a sequence as long as the text's windows, in whole blocks and with all that it
// holds, recent tokens and scales included, takes bytes_of_bits(b) a token.
struct TuneSettings {
  double bits = 4;  // at most
  std::vector<KvFormat> formats{KvFormat::kInt8, KvFormat::kInt4, KvFormat::kInt2};
  std::vector<std::int64_t> recents{0, 64};  // each is tried; 0: none
  KvFormat recent_format = KvFormat::kInt8;  // of recent tokens
  int candidates = 12;                       // mixes of the wanted size that are measured
  int front_points = 10;                     // of other sizes
};

// Mean KL from a cache in f32, in nats: [layer][K, V][format].
using LayerHarm = std::vector<std::array<std::vector<double>, 2>>;

// With one number of recent tokens.
struct Sensitivity {
  std::int64_t recent = 0;
  double base = 0;  // all layers in f32, but the recent tokens
  LayerHarm harm;   // with this part alone in a format, less the base
};

struct TunedMix {
  LayerMix mix;
  std::string policy;          // its text
  double bytes_per_token = 0;  // see TuneSettings
  double bits = 0;
  double foretold = 0;  // mean KL; 0: not foretold
  std::optional<QualitySums> measured;
};

struct TuneResult {
  std::vector<Sensitivity> sensitivity;
  std::vector<TunedMix> front;       // as foretold, by size; some of it is measured
  std::vector<TunedMix> candidates;  // of the wanted size, all measured
  std::vector<TunedMix> uniform;     // one format for all, no recent tokens, all measured
  TunedMix best;
};

// Throws Error when no mix of these formats is so small.
TuneResult tune_layers(PolicyEvaluator& evaluator, const Model& model, const TuneSettings& settings,
                       const OnMeasured& on_measured);

}  // namespace kvasir
