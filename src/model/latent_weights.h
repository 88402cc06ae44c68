// Matrices of latent attention (MLA): what brings a query to where it meets the cached latent, and what makes a
// head's values of what attention gives. Both are made of one stored matrix, [heads][keys, then values][latent].
#pragma once

#include <vector>

#include "backend/ops.h"
#include "backend/tensor.h"
#include "model/spec.h"

namespace kvasir {

// [heads][q_dim][stride]: of a projected query, [nope | rope], the first part becomes kv_rank numbers, and the second
// is put before them, with the halves of its pairs apart. `gguf`: whether it is a file of that kind.
std::vector<float> absorbing(const AttentionSpec& attention, const HostWeight& up, bool gguf);

// [heads][kv_rank][stride]
std::vector<float> expanding(const AttentionSpec& attention, const HostWeight& up);

// The first as an op takes it, and the second.
PerHeadLinear absorb_linear(const AttentionSpec& attention, const float* at);
PerHeadLinear expand_linear(const AttentionSpec& attention, const float* at);

}  // namespace kvasir
