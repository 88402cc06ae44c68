// A target and its head on a backend, for whole engines: every token nearly says what follows, and the head knows
// that.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backend/make_backend.h"
#include "engine/engine.h"
#include "engine/sampling_backend.h"
#include "model/known_models.h"
#include "support/draft_heads.h"

namespace kvasir::testing {

inline constexpr int kPairVocab = 101;

inline std::vector<TokenId> pair_text(std::int64_t count, std::uint64_t seed) {
  std::vector<TokenId> out;
  for (std::int64_t i = 0; i < count; ++i) {
    out.push_back(static_cast<TokenId>(mix(seed, static_cast<std::uint64_t>(i), 0) % kPairVocab));
  }
  return out;
}

inline Request pair_request(std::vector<TokenId> prompt, std::int64_t answer, float temperature = 0,
                            std::uint64_t seed = 11) {
  Request out;
  out.prompt = std::move(prompt);
  out.max_tokens = answer;
  out.sampling.temperature = temperature;
  out.sampling.seed = seed;
  return out;
}

// A target and its head, on a backend.
class DraftPair {
 public:
  explicit DraftPair(DraftHeadSpec::Kind kind, bool samples = false)
      : kind_(kind), backend_(make_backend({"cpu", 1, "auto"})) {
    if (samples) backend_ = std::make_unique<SamplingBackend>(std::move(backend_));
    ModelSpec spec = parse_shape("layers=3,hidden=32,ffn=48,heads=4,kv_heads=4,head_dim=8,vocab=101,context=400");
    spec.dtype = DType::kF32;
    spec.tied_embeddings = false;
    target_ = make_decoder(spec, NearlyMarkov(spec, 3, 0), *backend_, {64, {}});
    ModelSpec head = head_spec(spec, kind);
    const bool eagle = kind == DraftHeadSpec::Kind::kEagle3;
    const NearlyMarkov weights(head, 3, eagle ? 0.1F : 0.25F, eagle ? &spec : nullptr);
    head_ = make_decoder(head, weights, *backend_, {64, {}}, target_->shared_weights());
  }

  std::string name() const { return kind_ == DraftHeadSpec::Kind::kNextN ? "mtp" : "eagle3"; }
  EngineConfig config(SpeculationConfig::Verify verify = SpeculationConfig::Verify::kAll) const {
    EngineConfig out;
    out.speculation = {.drafters = {name()}, .model = 1, .most = 4, .verify = verify};
    return out;
  }
  Engine engine(const EngineConfig& config) {
    const std::vector<EngineModel> more{{head_.get(), KvPolicy{}}};
    return {*backend_, *target_, config, more};
  }
  Engine plain() { return {*backend_, *target_, {}}; }
  Backend& backend() { return *backend_; }
  Model& model() { return *target_; }
  Model& head() { return *head_; }
  const ModelSpec& target() const { return target_->config(); }

 private:
  DraftHeadSpec::Kind kind_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Model> target_;
  std::unique_ptr<Model> head_;
};

}  // namespace kvasir::testing
