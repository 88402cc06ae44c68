// Matrices of latent attention (MLA): what brings a query to where it meets the cached latent, and what makes a
// head's values of what attention gives. They are made of what heads make of the latent: [heads][keys][latent] and
// [heads][values][latent].
#pragma once

#include <vector>

#include "backend/ops.h"
#include "backend/tensor.h"
#include "model/spec.h"

namespace kvasir {

// [heads][q_dim][stride]: of a projected query, [nope | rope], the first part becomes kv_rank numbers, and the second
// is put before them.
std::vector<float> absorbing(const AttentionSpec& attention, const HostWeight& keys);

// [heads][kv_rank][stride]
std::vector<float> expanding(const AttentionSpec& attention, const HostWeight& values);

// The first as an op takes it, and the second.
PerHeadLinear absorb_linear(const AttentionSpec& attention, const float* at);
PerHeadLinear expand_linear(const AttentionSpec& attention, const float* at);

}  // namespace kvasir
