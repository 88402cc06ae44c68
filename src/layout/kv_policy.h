// What a request's cache may be: the formats of K and V, and which tokens are kept. A value, written as text:
//
//     int8                            K and V alike
//     k=int8, v=int4                  K and V apart; what is not named is f16
//     f16, window=1024, sinks=4       the last 1024 tokens and the first 4
//     bf16, recent=128:f32, sinks=4   the last 128 tokens and the first 4 in f32, all others in bf16
//     int8, evict=h2o:25%, sinks=4    a quarter of the prompt's tokens, those attended to most, and the first 4
//
// Settings are separated by commas, in any order, with any white space. docs/kv-policies.md is for users.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "layout/kv_format.h"
#include "layout/retention.h"
#include "layout/token_eviction.h"

namespace kvasir {

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

  friend bool operator==(const KvPolicy&, const KvPolicy&) = default;
};

KvPolicy uniform_policy(KvFormat format);

// Throws Error, of kind kUsage, naming the setting and `where` the text was given.
KvPolicy parse_kv_policy(std::string_view text, std::string_view where);

// The one text that names this policy: parse_kv_policy gives the policy back, and equal policies have equal texts.
std::string to_text(const KvPolicy& policy);

// What a layer keeps that by itself would keep `own`. A layer with a window of its own gets no sinks: it never saw
// them.
Retention narrowed(const Retention& own, const Retention& by);

}  // namespace kvasir
