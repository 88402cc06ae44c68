// How a token is drawn from logits, in arithmetic that has the same bits everywhere: hosts and devices must choose
// the same token. So logarithms and powers are made of single operations that IEEE 754 rounds, and probabilities are
// added as integers, in any order.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

#include "base/ids.h"
#include "base/mix.h"

namespace kvasir {

// What is drawn from: a row of logits, without penalties or a form to keep to. See SamplingParams.
struct SampleRule {
  float temperature = 0.0F;  // 0: the largest, the first of equals
  int top_k = 0;             // 0: all
  float top_p = 1.0F;
  float min_p_margin = -std::numeric_limits<float>::infinity();  // logits below the largest plus this are left out
  std::uint64_t seed = 0;
  Position position = 0;  // of the token that is drawn
};

// Where a token is wanted that a backend has drawn and nobody on the host knows yet: row `row` of its last draw.
constexpr TokenId sampled_token(int row) { return -1 - row; }
constexpr bool is_sampled(TokenId token) { return token < 0; }
constexpr int row_of_sampled(TokenId token) { return -1 - token; }

// The natural logarithm of a positive, normal number, to about a unit in the last place.
constexpr double same_log(double x) {
  constexpr double kLn2 = 0.69314718055994530942;
  constexpr double kSqrt2 = 1.41421356237309504880;
  const auto bits = std::bit_cast<std::uint64_t>(x);
  int exponent = static_cast<int>(bits >> 52) - 1023;
  double m = std::bit_cast<double>((bits & 0xfffffffffffffULL) | 0x3ff0000000000000ULL);  // in [1, 2)
  if (m > kSqrt2) {
    m = m / 2;
    ++exponent;
  }
  const double s = (m - 1) / (m + 1);  // log(m) = 2 (s + s^3 / 3 + s^5 / 5 + …), |s| < 0.172
  const double s2 = s * s;
  double sum = 0;
  for (int i = 23; i >= 1; i -= 2) sum = sum * s2 + 1.0 / i;
  return exponent * kLn2 + 2 * s * sum;
}

// The power of e to x <= 0, to about a unit in the last place; 0 below -700.
constexpr double same_exp(double x) {
  constexpr double kLog2E = 1.44269504088896340736;
  constexpr double kLn2High = 0.693147180369123816490;  // the last 21 bits of its fraction are 0
  constexpr double kLn2Low = 1.90821492927058770002e-10;
  if (!(x > -700)) return 0;
  const auto exponent = static_cast<int>(x * kLog2E - 0.5);
  const double r = (x - exponent * kLn2High) - exponent * kLn2Low;  // |r| < 0.35
  double sum = 1;
  for (int i = 14; i >= 1; --i) sum = 1 + sum * (r * (1.0 / i));
  return sum * std::bit_cast<double>(static_cast<std::uint64_t>(exponent + 1023) << 52);
}

// A Gumbel variable: the largest logit + noise is distributed as softmax(logits).
constexpr double gumbel(std::uint64_t seed, Position position, TokenId token) {
  const std::uint64_t bits = mixed(seed, static_cast<std::uint64_t>(position), static_cast<std::uint64_t>(token));
  const double uniform = (static_cast<double>(bits >> 11) + 0.5) * 0x1p-53;  // never 0 or 1
  return -same_log(-same_log(uniform));
}

// How likely a token is beside the likeliest, as an integer: sums of all tokens of any vocabulary fit.
constexpr std::uint64_t likelihood(float logit, float largest) {
  return static_cast<std::uint64_t>(same_exp(static_cast<double>(logit) - static_cast<double>(largest)) * 0x1p38);
}

}  // namespace kvasir
