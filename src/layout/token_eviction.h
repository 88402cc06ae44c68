// Token eviction as a value: how many tokens a sequence keeps, and by which rule others go.
#pragma once

#include <cstdint>
#include <string_view>

namespace kvasir {

struct TokenEviction {
  enum class Method : std::uint8_t {
    kNone,
    kFifo,    // the oldest go
    kLru,     // those go that were not attended to for the longest time
    kH2o,     // those go that were attended to the least, but for the newest half
    kTova,    // those go that the newest query attends to the least
    kSnapKv,  // those go that the newest queries, and for the tokens beside them, attend to the least
  };
  enum class Budgets : std::uint8_t { kUniform, kPyramid };  // over layers: alike, or fewer the higher the layer
  enum class Heads : std::uint8_t { kUniform, kAdaptive };   // within a layer: alike, or as attention is spread

  Method method = Method::kNone;
  std::int64_t tokens = 0;  // the budget …
  int percent = 0;          // … or, where it is 0, a share of the prompt's tokens
  Budgets budgets = Budgets::kUniform;
  Heads heads = Heads::kUniform;

  bool on() const { return method != Method::kNone; }
  friend bool operator==(const TokenEviction&, const TokenEviction&) = default;
};

std::string_view name_of(TokenEviction::Method method);  // "h2o"

// The row of one KV head goes from one place of its sequence to another, over what is there.
struct RowMove {
  int head = 0;
  std::int32_t from = 0;  // places in the sequence's block table, counted in rows
  std::int32_t to = 0;
};

}  // namespace kvasir
