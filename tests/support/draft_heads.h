// Draft heads for tests: of random weights, for any decoder, and beside a target that says nearly the same.
#pragma once

#include <algorithm>
#include <cstring>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "model/decoder.h"
#include "model/draft_head.h"
#include "model/random_weights.h"

namespace kvasir::testing {

// An MTP head as DeepSeek's files have it, of one layer like the target's last one, or an EAGLE-3 head of that layer.
inline ModelSpec head_spec(const ModelSpec& target, DraftHeadSpec::Kind kind) {
  ModelSpec out = target;
  const auto last = std::find_if(target.layers.rbegin(), target.layers.rend(), [](const LayerSpec& layer) {
    return !layer.attention.none() && layer.attention.owns_kv();
  });
  out.layers = {*last};
  out.layers.front().recurrent = {};  // a head of no family has states: they could not forget a wrong guess
  out.dtype = DType::kF32;
  out.draft.kind = kind;
  out.draft.target_layers = target.layer_count();
  out.draft.reads = {DraftHeadSpec::kNormedRows};
  if (kind == DraftHeadSpec::Kind::kEagle3) {
    out.draft.reads = {0, 1, target.layer_count()};
    out.layers.front().attention_norm = false;
    out.layers.front().reads_embedding = true;
    out.tied_embeddings = false;
  }
  return out;
}

// Random weights in which every token says what follows, nearly: what layers add to the stream is small. A head that
// has the token's embedding then knows what its target will say, and a part of what it is given makes it wrong at
// times. An EAGLE-3 head has it by attention to its own row: REQUIRES as wide K and V as the stream.
class NearlyMarkov final : public TensorSource {
 public:
  // `like`: whose table a head of an own vocabulary says its tokens by.
  NearlyMarkov(const ModelSpec& spec, std::uint64_t seed, float given, const ModelSpec* like = nullptr)
      : random_(spec, seed), given_(given) {
    if (like != nullptr) like_.emplace(*like, seed);
    CHECK(spec.dtype == DType::kF32);
    using enum TensorRole;
    const bool eagle = spec.draft.kind == DraftHeadSpec::Kind::kEagle3;
    for (const TensorSpec& tensor : own_tensors(spec)) {
      Made& made = made_as_[tensor.name];
      if (tensor.role == kO || tensor.role == kDown) made = {0, 0.2F};
      if (tensor.role == kDraftJoin) made = eagle ? Made{0, given_} : Made{1, given_};
      if (!eagle) continue;
      if (tensor.role == kQ || tensor.role == kK) made = {3, 0};
      if (tensor.role == kV) made = {1, 0};
      if (tensor.role == kO) made = {2, 0};
    }
  }

  HostWeight matrix(std::string_view name, int rows, int cols) const override {
    if (like_ && name == kHead) return like_->matrix(name, rows, cols);
    HostWeight out = random_.matrix(name, rows, cols);
    const Made made = made_as_.at(std::string(name));
    if (made.one == 0 && made.rest == 1) return out;
    std::vector<float>& own = own_.emplace_back(static_cast<size_t>(rows) * static_cast<size_t>(cols));
    std::memcpy(own.data(), out.bytes.data(), out.bytes.size());
    random_.done_with(out);
    for (int r = 0; r < rows; ++r) {
      for (int c = 0; c < cols; ++c) {
        float& value = own[static_cast<size_t>(r) * static_cast<size_t>(cols) + static_cast<size_t>(c)];
        value = made.one > 0 && c < rows ? (c == r ? made.one : 0) : value * made.rest;
      }
    }
    out.bytes = std::as_bytes(std::span(own));
    return out;
  }
  Key256 fingerprint() const override { return random_.fingerprint(); }
  void done_with(const HostWeight& weight) const override {
    const auto removed = own_.remove_if(
        [&](const std::vector<float>& own) { return std::as_bytes(std::span(own)).data() == weight.bytes.data(); });
    if (removed > 0) return;
    random_.done_with(weight);
    if (like_) like_->done_with(weight);
  }
  std::uint64_t bytes() const override { return random_.bytes(); }

 private:
  // Of a matrix: so many times the identity in its first square, if any, and other numbers times `rest`.
  struct Made {
    float one = 0;
    float rest = 1;
  };
  static constexpr std::string_view kHead = "lm_head.weight";

  RandomWeights random_;
  std::optional<RandomWeights> like_;
  float given_;
  std::map<std::string, Made> made_as_;
  mutable std::list<std::vector<float>> own_;
};

inline std::unique_ptr<Model> random_head(const ModelSpec& spec, const Model& target, Backend& backend,
                                          int max_rows = 512) {
  return make_decoder(spec, RandomWeights(spec, 7), backend, {max_rows, {}}, target.shared_weights());
}

}  // namespace kvasir::testing
