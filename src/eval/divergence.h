// How far one next-token distribution is from another, and how well each foretold the token that came. In double
// precision and in one order, so that a number is the same however it was reached.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"

namespace kvasir {

// -log of the probability that these logits give the token, in nats. Throws Error when the logits are not numbers.
double surprise(std::span<const float> logits, TokenId token);

struct RowComparison {
  double surprise = 0;    // of the distribution that is judged
  double kl = 0;          // KL(reference || judged), in nats; 0 exactly where the logits are equal
  bool same_top = false;  // both find the same token likeliest; of equals the smaller id counts
};

// REQUIRES: as many logits in both. Throws Error when they are not numbers.
RowComparison compare_rows(std::span<const float> reference, std::span<const float> judged, TokenId token);

// What many rows come to. Rows are added in the order of the text; the sums depend on nothing else.
// Of `largest` only as many are kept as the 99th percentile of `rows_expected` rows needs.
struct QualitySums {
  void add(const RowComparison& row);

  double perplexity() const;     // of no rows: 1
  double mean_kl() const;        // of no rows: 0
  double kl_99() const;          // the smallest KL that at least 99% of the rows do not exceed; of no rows: 0
  double most_kl() const;        // of no rows: 0
  double top_agreement() const;  // share of rows; of no rows: 1

  std::int64_t rows_expected = 0;
  std::int64_t rows = 0;
  double surprise = 0;            // summed
  double kl = 0;                  // summed
  std::int64_t same_top = 0;      // rows
  std::vector<double> largest{};  // KLs, as a heap whose first is the smallest
};

}  // namespace kvasir
