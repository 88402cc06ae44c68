// What the laws compare: the hash of every row of logits a request was answered from, the tokens, their probabilities
// where they were asked for, and how it ended.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <map>
#include <memory>
#include <ostream>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "backend/make_backend.h"
#include "base/hash.h"
#include "engine/engine.h"
#include "laws/cell_models.h"
#include "support/draft_heads.h"
#include "support/far_backend.h"
#include "support/repeating_backend.h"
#include "support/some_basis.h"

namespace kvasir::testing {

// What became of one request.
struct Trace {
  std::vector<std::array<std::uint8_t, 16>> logits;  // a hash of the bits of each row it was answered from
  std::vector<TokenId> tokens;
  std::vector<std::array<std::uint8_t, 16>> logprobs;  // a hash of what was told with each token
  FinishReason finish = FinishReason::kNone;
  RequestRecord record;

  friend bool operator==(const Trace& a, const Trace& b) {
    return a.logits == b.logits && a.tokens == b.tokens && a.logprobs == b.logprobs && a.finish == b.finish;
  }
};

inline std::ostream& operator<<(std::ostream& out, const Trace& trace) {
  return out << trace.tokens.size() << " tokens from " << trace.logits.size() << " rows of logits, "
             << name_of(trace.finish);
}

inline std::unique_ptr<Backend> backend_of(const Cell& cell) {
  const bool far = cell.device == "far";
  const bool repeating = cell.device == "repeating";
  auto backend = make_backend({far         ? "cpu"
                               : repeating ? "ref"
                                           : cell.device,
                               cell.threads, cell.isa, cell.activations, cell.sm_count});
  if (far) return std::make_unique<FarBackend>(std::move(backend));
  if (repeating) return std::make_unique<RepeatingBackend>(std::move(backend));
  return backend;
}

// A backend and a model, and engines of any kind on them.
class World {
 public:
  explicit World(const Cell& cell) : cell_(cell), backend_(backend_of(cell)), model_(load_cell(cell, *backend_)) {
    if (has_uniform_heads(model_->config())) model_->use_basis(some_basis(model_->config()));
  }

  EngineConfig config() const {
    EngineConfig config;
    config.kv = cell_.policy;
    return config;
  }

  // Memory for so many blocks of every group. Groups of different sizes, none of which fills the largest's evenly,
  // are all held whole: then so many that pages of the largest block have room for all.
  std::uint64_t bytes_for(std::int64_t blocks, int block_tokens = 16) const {
    constexpr std::int64_t kLine = 64;
    std::vector<std::int64_t> sizes;
    const std::vector<KvGroup> groups = kv_groups(model_->config(), cell_.policy);
    for (const KvGroup& group : groups) sizes.push_back(block_bytes_of(group, block_tokens));
    std::int64_t bytes = 0;
    const std::int64_t page = (std::ranges::max(sizes) + kLine - 1) / kLine * kLine;
    for (size_t i = 0; i < sizes.size(); ++i) {
      const std::int64_t size = sizes[i];
      const std::int64_t per_page = page / size;
      if (!groups[i].keeps_state() && is_of_source(model_->config(), groups[i])) {  // with_source(), for two tenants
        bytes += (2 * blocks_for(kSourceTokens, block_tokens) + per_page - 1) / per_page * page;
        continue;
      }
      // What is kept takes room from what is written, as rows do; where there is least, a request could not run
      // without.
      if (groups[i].only_kept()) {
        bytes += blocks < 8 ? page : 0;
        continue;
      }
      if (groups[i].keeps_state()) {  // a request has one, and as many blocks of rows as there are of it
        bytes += (std::max<std::int64_t>(blocks / 4, 1) + per_page - 1) / per_page * page;
        continue;
      }
      const bool fills = cell_.policy.layers.empty() && std::ranges::max(sizes) % size == 0 &&
                         (blocks % per_page == 0 || per_page < 3);
      bytes += fills ? blocks * size : (blocks + per_page - 1) / per_page * page;
    }
    return static_cast<std::uint64_t>(bytes);
  }

  Engine engine(const EngineConfig& config) { return Engine(*backend_, *model_, config); }
  // One in which a head of random weights guesses, of a layer like the model's last one.
  Engine engine_with_head(EngineConfig config) {
    if (!head_) head_ = random_head(head_spec(model_->config(), DraftHeadSpec::Kind::kNextN), *model_, *backend_);
    config.speculation = {.drafters = {"mtp"},
                          .model = 1,
                          .most = 3,
                          .branches = config.speculation.branches,
                          .verify = SpeculationConfig::Verify::kAll};
    const std::vector<EngineModel> more{{head_.get(), KvPolicy{}}};
    return Engine(*backend_, *model_, std::move(config), more);
  }
  const Model& model() const { return *model_; }
  bool has_states() const { return model_->config().recurs(); }
  static constexpr std::int64_t kSourceTokens = 23;  // of with_source()
  std::int64_t source_tokens() const { return model_->config().reads_source() ? kSourceTokens : 0; }

 private:
  Cell cell_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<Model> head_;  // once somebody asked for it
};

// Of a model that answers to a source: the laws' prompts are what an answer begins with, and all have one source.
// Others are asked as they are.
inline Request with_source(Engine& engine, Request request) {
  const KvCache& cache = engine.cache();
  const std::span<const size_t> groups = cache.groups_of(0);
  const bool reads = std::ranges::any_of(groups, [&](size_t group) { return cache.keeps_source(group); });
  for (std::uint64_t i = 0; reads && std::ssize(request.source) < World::kSourceTokens; ++i)
    request.source.push_back(static_cast<TokenId>(mix(91, i, 0) % 101));
  return request;
}

// Collects the traces of an engine's requests.
class Recorder {
 public:
  explicit Recorder(Engine& engine) : engine_(engine) {
    engine.observe([this](RequestId id, Position, std::span<const float> row) {
      traces_[id].logits.push_back(content_hash(std::as_bytes(row)));
    });
  }

  OnUpdate listener() {
    return [this](const Update& update) {
      Trace& trace = traces_[update.id];
      if (update.token >= 0) trace.tokens.push_back(update.token);
      if (update.logprobs != nullptr) trace.logprobs.push_back(hash_of(*update.logprobs));
      trace.finish = update.finish;
      trace.record = *update.record;
      ASSERT_EQ(engine_.cache().problem(), std::nullopt);
    };
  }

  RequestId submit(const Request& request) { return engine_.submit(with_source(engine_, request), listener()); }
  // The prompt is the source, where the model reads one.
  RequestId submit_as_is(const Request& request) { return engine_.submit(request, listener()); }
  const Trace& of(RequestId id) { return traces_[id]; }

 private:
  static std::array<std::uint8_t, 16> hash_of(const TokenLogprobs& told) {
    std::vector<TokenLogprob> all = told.top;
    all.push_back({-1, told.chosen});
    return content_hash(std::as_bytes(std::span(all)));
  }

  Engine& engine_;
  std::map<RequestId, Trace> traces_;
};

inline std::vector<TokenId> some_tokens(std::int64_t count, std::uint64_t seed, int vocab = 101) {
  std::vector<TokenId> out;
  for (std::int64_t i = 0; i < count; ++i) {
    out.push_back(
        static_cast<TokenId>(mix(seed, static_cast<std::uint64_t>(i), 0) % static_cast<std::uint64_t>(vocab)));
  }
  return out;
}

// Sampled, not greedy: a draw that differs shows a logit that differs.
inline Request request_of(std::vector<TokenId> prompt, std::int64_t answer, std::uint64_t seed = 5) {
  Request request;
  request.prompt = std::move(prompt);
  request.max_tokens = answer;
  request.sampling.temperature = 1.0F;
  request.sampling.seed = seed;
  return request;
}

inline Trace run_alone(World& world, const EngineConfig& config, const Request& request) {
  Engine engine = world.engine(config);
  Recorder recorder(engine);
  const RequestId id = recorder.submit(request);
  engine.run();
  return recorder.of(id);
}

}  // namespace kvasir::testing
