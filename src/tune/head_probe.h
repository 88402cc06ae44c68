// What a format does to each head of each layer alone: the divergence from a cache in f32 when that head's K or V,
// and nothing else, is rounded to the format. Queries are not rounded, as they are beside whole layers in packed
// formats.
#pragma once

#include <vector>

#include "model/model.h"
#include "tune/policy_evaluator.h"
#include "tune/quantize_one_head_backend.h"

namespace kvasir {

// Mean KL, in nats: [layer][K, V][KV head].
using HeadHarm = std::vector<std::array<std::vector<double>, 2>>;

// REQUIRES: the model was loaded on this backend.
HeadHarm probe_heads(QuantizeOneHeadBackend& backend, Model& model, const TextWindows& windows, KvFormat format,
                     const OnMeasured& on_measured);

}  // namespace kvasir
