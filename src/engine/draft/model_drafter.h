// A small model that guesses for a large one, with the same vocabulary.
//
// Its K and V lie in the engine's cache, under a policy of its own, and are a lease's like any others: found by the
// text they are of, charged to the tenant, evicted when nobody uses them. A sequence's lease of it is behind the
// sequence for as long as nobody asks, and comes along then: what is not found is computed. Tokens that were guessed
// are written behind the lease's end, and belong to it when the sequence has accepted them; so what is published is
// text that was verified.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "backend/kv_storage.h"
#include "engine/draft/draft_batch.h"
#include "engine/draft/drafter.h"
#include "engine/draft/drafters.h"
#include "engine/draft/guess_sampler.h"
#include "engine/draft/pass_costs.h"
#include "engine/schedule/policy_registry.h"
#include "kv/cache.h"
#include "model/batch.h"
#include "model/model.h"

namespace kvasir {

class ModelDrafter final : public Drafter {
 public:
  // All outlive this. `policy` is of this model.
  struct Parts {
    Backend& backend;
    Model& model;
    KvCache& cache;
    KvStorage& storage;
    std::shared_ptr<const ActivePolicy> policy;
    std::int64_t context = 0;  // the longest text
    int vocab = 0;             // of the large one: tokens beyond it are not proposed
  };
  explicit ModelDrafter(Parts parts);
  ~ModelDrafter() override;

  std::string_view name() const override { return kModelDrafter; }
  void propose(std::span<const DraftAsk> asks) override;
  bool runs_passes() const override { return true; }
  double pass_seconds(int sequences) const override { return costs_.known() ? costs_.seconds(sequences) : 0; }
  double catch_up_seconds(const Sequence& sequence, const DrafterState* state) const override;

 private:
  struct Follower;
  struct Row {
    const DraftAsk* ask = nullptr;
    Follower* follower = nullptr;
    std::span<const TokenId> tokens{};  // to be computed
    Position start = 0;                 // the first of them
    bool completes = false;             // the next token can be guessed
  };

  static Follower& follower_of(const DraftAsk& ask);
  bool come_along(const DraftAsk& ask, Follower& follower);
  void list_uncomputed(std::span<const DraftAsk> asks);
  void run_pass();
  void guess(Matrix logits);
  void list_guessed();

  Parts p_;
  GuessSampler sampler_;
  PassCosts costs_;
  double row_seconds_ = 0;  // of a text that is caught up with
  // Of a pass; kept between passes.
  std::vector<PassRows> pass_;
  Batch batch_;
  std::vector<Row> rows_;
  std::vector<Row> next_;
  std::vector<GuessSampler::Row> guessed_;
};

}  // namespace kvasir
