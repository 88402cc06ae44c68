// What layers compute that remember a text in a state: parts of ops.h.
//
// A sequence's state is its view's only block (block_count is 1), read and written by the op; where the sequence
// starts at 0 it is zero, whatever lies there. A row's result is made of the state behind the row before, by the same
// operations in the same order wherever a chunk began: how a sequence was cut changes no bit. REQUIRES: no draft
// trees.
#pragma once

#include <cstdint>
#include <limits>

#include "backend/sequence_views.h"
#include "backend/tensor.h"
#include "layout/state_format.h"
#include "layout/state_layout.h"

namespace kvasir {

inline constexpr int kMostConvWeights = 8;  // of a channel
inline constexpr int kMostStateRows = 256;  // k_dim

// A convolution along each sequence, channel by channel: out = bend(bias + the sum of weight[j] times the input
// `kernel - 1 - j` rows before). out may be x.
struct CausalConvOp {
  enum class Bend : std::uint8_t { kNone, kSilu };

  Matrix x;                       // [rows][channels]
  const float* weight = nullptr;  // [kernel][channels], where kernel is one more than the state has inputs
  const float* bias = nullptr;    // [channels], or none
  Bend bend = Bend::kNone;
  StateView state;
  SequenceViews sequences;
  Matrix out;

  friend bool operator==(const CausalConvOp&, const CausalConvOp&) = default;
};

// step = softplus(x + bias), held to least … most; decay = exp(rate of the head * step). Either may be x.
struct DecayOp {
  Matrix x;                     // [rows][heads * n]
  const float* bias = nullptr;  // [heads * n]
  const float* rate = nullptr;  // [heads], below 0
  int heads = 0;
  Matrix step;  // or none
  Matrix decay;
  float least = 0;
  float most = std::numeric_limits<float>::infinity();

  friend bool operator==(const DecayOp&, const DecayOp&) = default;
};

// Row after row, in each head with its matrix S of the state, [k_dim][v_dim]:
//
//     S = decay S + k written,    out = S' q + skip v
//     kDelta: written = sigmoid(strength) (v - (decay S)' k)
//     kAdd:   written = strength v
//
// Heads are in groups: head h has the q and k of h / (heads / k_heads). out may be v.
struct RecurrenceOp {
  enum class Rule : std::uint8_t { kDelta, kAdd };

  Rule rule = Rule::kDelta;
  Matrix q;  // [rows][k_heads * k_dim]
  Matrix k;
  Matrix v;                     // [rows][heads * v_dim]
  Matrix decay;                 // [rows][heads], or [rows][heads * k_dim]: of each row of S its own
  Matrix strength;              // [rows][heads]
  const float* skip = nullptr;  // [heads], or none
  StateView state;
  SequenceViews sequences;
  Matrix out;

  KVASIR_HD int k_heads() const { return k.cols / state.shape.k_dim; }
  KVASIR_HD bool decays_by_row() const { return decay.cols > state.shape.heads; }
  friend bool operator==(const RecurrenceOp&, const RecurrenceOp&) = default;
};

// One layer's states of these sequences become what a format can hold (round_conv_inputs, round_matrix).
struct StateRoundOp {
  enum class Part : std::uint8_t { kConvInputs, kMatrices };

  StateFormat format = StateFormat::kBF16;
  Part part = Part::kMatrices;
  StateView state;
  SequenceViews sequences;

  friend bool operator==(const StateRoundOp&, const StateRoundOp&) = default;
};

// Of a whole state, how it is kept.
struct StateCodes {
  StateFormat format = StateFormat::kBF16;
  StateShape shape;
  int layers = 0;

  friend bool operator==(const StateCodes&, const StateCodes&) = default;
};
struct StateEncodeOp {  // a state that is written, to one that is kept
  StateCodes codes;
  const float* from = nullptr;
  std::byte* to = nullptr;
  friend bool operator==(const StateEncodeOp&, const StateEncodeOp&) = default;
};
struct StateDecodeOp {
  StateCodes codes;
  const std::byte* from = nullptr;
  float* to = nullptr;
  friend bool operator==(const StateDecodeOp&, const StateDecodeOp&) = default;
};

}  // namespace kvasir
