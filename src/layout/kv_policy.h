// What a request's cache may be: the formats of K and V, and which tokens are kept. A value, written as text:
//
//     int8                            K and V alike
//     k=int8, v=int4                  K and V apart; what is not named is f16
//     f16, window=1024, sinks=4       the last 1024 tokens and the first 4
//     bf16, recent=128:f32, sinks=4   the last 128 tokens and the first 4 in f32, all others in bf16
//     int8, evict=h2o:25%, sinks=4    a quarter of the prompt's tokens, those attended to most, and the first 4
//     int4, 0:int8, 3-5:int8/int2     layer 0 in int8, K of layers 3 to 5 in int8 and V in int2, others in int4
//     f16, rank=k:32/v:48             rows of K as 32 numbers and rows of V as 48, in the model's own directions
//     f16, channels=60%               of K the channels that say most, six in ten
//     f16, states=bf16                states of recurrent layers in bf16
//
// Settings are separated by commas, in any order, with any white space. docs/kv-policies.md is for users.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "layout/kv_format.h"
#include "layout/retention.h"
#include "layout/state_format.h"
#include "layout/token_eviction.h"

namespace kvasir {

// Layers of the model, first and last included, that have formats of their own.
struct LayerFormats {
  int first = 0;
  int last = 0;
  KvFormat k_format = KvFormat::kF16;
  KvFormat v_format = KvFormat::kF16;

  friend bool operator==(const LayerFormats&, const LayerFormats&) = default;
};

struct KvPolicy {
  KvFormat k_format = KvFormat::kF16;
  KvFormat v_format = KvFormat::kF16;
  // Narrows what the model's own layers keep and never widens it. Sinks only with a window, recent tokens or
  // eviction.
  Retention retention;
  // The last so many tokens, and the sinks, are read in this format instead; 0: none.
  std::int64_t recent = 0;
  KvFormat recent_format = KvFormat::kF16;
  // Of layers that keep everything. Neither with a window nor with recent tokens.
  TokenEviction evict{};
  // Other layers have the formats above. As set_layer_formats() makes it: ascending, none twice, none that changes
  // nothing, and neighbours alike are one. So equal policies are equal values.
  std::vector<LayerFormats> layers{};
  // Rows of K and of V are kept as so many numbers (KvSpace::kRank), or so many percent of K's channels are
  // (kChannels, not with k_rank), but for recent tokens; 0: whole rows. What K and V become is in the model's
  // KvBasis.
  int k_rank = 0;
  int v_rank = 0;
  int channels = 0;
  // Of recurrent layers: what their states are rounded to, and kept in.
  StateFormat states = StateFormat::kF32;

  friend bool operator==(const KvPolicy&, const KvPolicy&) = default;
};

KvPolicy uniform_policy(KvFormat format);

inline constexpr int kMostPolicyLayers = 4096;  // a layer's number is below

// REQUIRES: no layer twice, numbers in 0 … kMostPolicyLayers - 1.
void set_layer_formats(KvPolicy& policy, std::vector<LayerFormats> layers);

// Of K and of V.
std::pair<KvFormat, KvFormat> formats_of_layer(const KvPolicy& policy, int layer);

// Throws Error, of kind kUsage, naming the setting and `where` the text was given.
KvPolicy parse_kv_policy(std::string_view text, std::string_view where);

// What a request may say of its cache: a policy, and beside it what names no block.
struct RequestedKv {
  std::optional<KvPolicy> policy;   // nullopt: nothing was said of it
  std::optional<int> state_budget;  // how many states of recurrent layers it may leave behind
};

// A policy's text, or object's, which may have state_budget=N among its settings. Throws as parse_kv_policy does.
RequestedKv parse_requested_kv(std::string_view text, std::string_view where);

// The one text that names this policy: parse_kv_policy gives the policy back, and equal policies have equal texts.
std::string to_text(const KvPolicy& policy);

// What a layer keeps that by itself would keep `own`. A layer with a window of its own gets no sinks: it never saw
// them.
Retention narrowed(const Retention& own, const Retention& by);

}  // namespace kvasir
