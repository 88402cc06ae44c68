// The models that a table of sizes says.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "backend/weight_type.h"

namespace kvasir {

// A model that sizes say; the rest of a spec follows from the family.
struct KnownShape {
  std::string_view name;
  std::string_view family;
  int layers, hidden, ffn, heads, kv_heads, head_dim, vocab;
  std::int64_t context;
  double theta;
  bool tied = false;
  DType dtype = DType::kBF16;
  double rope_factor = 0;   // 0: no scaling; else llama3 in the Llama family, linear in Gemma 3
  std::int64_t window = 0;  // which layers have it follows from the family
  int experts = 0;          // of each layer, with an MLP of `ffn` each
  int used_experts = 0;     // by a token
};

std::span<const KnownShape> known_sizes();

}  // namespace kvasir
