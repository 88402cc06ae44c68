#include "tune/rank_basis.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"

namespace kvasir {
namespace {

// Directions that were hardly seen are taken as this share of the mean, so that roots can be divided by.
constexpr double kLeastShare = 1e-6;

double floor_of(const std::vector<double>& values) {
  const double sum = std::accumulate(values.begin(), values.end(), 0.0);
  return std::max(kLeastShare * sum / static_cast<double>(values.size()), 1e-30);
}

// vectors f(values) vectors^T
template <class Function>
Square of_values(const Eigen& eigen, const Function& f) {
  const double least = floor_of(eigen.values);
  Square out(eigen.vectors.size);
  for (int i = 0; i < out.size; ++i) {
    for (int j = 0; j < out.size; ++j) {
      for (int k = 0; k < out.size; ++k) {
        const double value = std::max(eigen.values[static_cast<size_t>(k)], least);
        out(i, j) += eigen.vectors(i, k) * f(value) * eigen.vectors(j, k);
      }
    }
  }
  return out;
}

void append(std::vector<float>& to, const Square& square) {
  for (const double value : square.at) to.push_back(static_cast<float>(value));
}

void add_keys(const HeadMoments& head, KvBasis::Layer& to) {
  const Eigen of_queries = symmetric_eigen(head.queries);
  const Square root = of_values(of_queries, [](double value) { return std::sqrt(value); });
  const Square inverse = of_values(of_queries, [](double value) { return 1 / std::sqrt(value); });
  Square weighted = product(product(root, head.keys), root);
  for (int i = 0; i < weighted.size; ++i) {
    for (int j = 0; j < i; ++j) weighted(i, j) = weighted(j, i) = (weighted(i, j) + weighted(j, i)) / 2;
  }
  const Eigen directions = symmetric_eigen(weighted);
  const double least = floor_of(directions.values);
  Square keys = product(root, directions.vectors);
  Square queries = product(inverse, directions.vectors);
  for (int column = 0; column < keys.size; ++column) {
    const double scale = 1 / std::sqrt(std::sqrt(std::max(directions.values[static_cast<size_t>(column)], least)));
    for (int row = 0; row < keys.size; ++row) {
      keys(row, column) *= scale;
      queries(row, column) /= scale;
    }
  }
  append(to.keys, keys);
  append(to.queries, queries);
}

void add_channels(const HeadMoments& head, std::vector<std::int32_t>& to) {
  std::vector<std::int32_t> order(static_cast<size_t>(head.keys.size));
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&head](int a, int b) {
    return head.queries(a, a) * head.keys(a, a) > head.queries(b, b) * head.keys(b, b);
  });
  to.insert(to.end(), order.begin(), order.end());
}

}  // namespace

KvBasis basis_of(const std::vector<std::vector<HeadMoments>>& moments) {
  CHECK(!moments.empty() && !moments.front().empty());
  KvBasis basis;
  basis.kv_heads = static_cast<int>(moments.front().size());
  basis.dim = moments.front().front().keys.size;
  for (const std::vector<HeadMoments>& heads : moments) {
    KvBasis::Layer& layer = basis.layers.emplace_back();
    for (const HeadMoments& head : heads) {
      add_keys(head, layer);
      append(layer.values, symmetric_eigen(head.outputs).vectors);
      add_channels(head, layer.channels);
    }
  }
  return basis;
}

}  // namespace kvasir
