// From what a model's heads were seen to compute to the directions in which its K and V are kept.
#pragma once

#include <vector>

#include "model/kv_basis.h"
#include "tune/symmetric_eigen.h"

namespace kvasir {

// Means over calibration text, of one KV head of one layer and all query heads that read it. K and queries after
// their positions are in them, and what attention gives before it is multiplied with weights.
struct HeadMoments {
  explicit HeadMoments(int dim) : queries(dim), keys(dim), outputs(dim) {}

  Square queries;  // mean of q q^T
  Square keys;     // mean of k k^T
  Square outputs;  // mean of o o^T
};

// [layers][kv_heads] of moments become a basis.
//
// Keys: the error of a score is q^T (I - M) k, and M of rank r that makes its square least, if queries and keys have
// nothing to do with each other, follows from the largest eigenvectors U of W C W, where C are the keys' moments and
// W is the root of the queries': k becomes U^T W k, q becomes U^T W^-1 q. Both are then scaled so that noise added to
// keys, as number formats add it, costs least: direction i by the fourth root of its eigenvalue.
// Values: what a head gives is linear in them, so the directions are the largest eigenvectors of its outputs'
// moments. Channels: those with the largest product of mean q^2 and mean k^2 come first (ThinK).
KvBasis basis_of(const std::vector<std::vector<HeadMoments>>& moments);

}  // namespace kvasir
