// Weights of any quantized type without a file and without an encoder: blocks of random bytes.
#pragma once

#include <list>
#include <string>
#include <string_view>

#include "base/hash.h"
#include "model/tensor_source.h"
#include "support/random_data.h"

namespace kvasir::testing {

class RandomBlocks final : public TensorSource {
 public:
  explicit RandomBlocks(DType type) : type_(type) {}

  // Matrices of the type; vectors around 1, in f32, the last norm's around 1/16: logits of a deviation of some 16
  // would leave one token to choose, and branches would never part. The same name and shape give the same bytes.
  HostWeight matrix(std::string_view name, int rows, int cols) const override {
    std::uint64_t seed = 1;
    for (const char letter : name) seed = mix(seed, static_cast<unsigned char>(letter), 11);
    const bool vector = rows == 1;
    const float level = name == "model.norm.weight" ? 1.0F / 16 : 1.0F;
    OwnedWeight& made = made_.emplace_back(rows, cols, vector ? DType::kF32 : type_, seed);
    for (size_t i = 0; vector && i < made.bytes.size(); i += sizeof(float)) {
      float value;
      std::memcpy(&value, made.bytes.data() + i, sizeof value);
      value = level * (1 + 0.1F * value);
      std::memcpy(made.bytes.data() + i, &value, sizeof value);
    }
    return made.view;
  }
  Key256 fingerprint() const override {
    const std::array<std::string_view, 2> parts{"random blocks", name_of(type_)};
    return keyed_hash({}, parts);
  }
  void done_with(const HostWeight& weight) const override {
    made_.remove_if([&](const OwnedWeight& made) { return made.bytes.data() == weight.bytes.data(); });
  }
  std::uint64_t bytes() const override { return 0; }

 private:
  DType type_;
  mutable std::list<OwnedWeight> made_;
};

}  // namespace kvasir::testing
