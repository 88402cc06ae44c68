// A draft head (MTP, EAGLE-3): a few layers that guess the next token from the newest one and from what the target
// made of the one before it.
//
// Row r of a head is of token r + 1 and of the target's row r. So a head's text is the sequence's without its first
// token, which stands before it: its K and V lie in the engine's cache under a policy of its own, named by all tokens
// that they depend on, are found by them, and are evicted when nobody uses them. No row of it is ever of another
// text's next token, and the target's own hits are what they are without a head.
//
// What the target makes of a token is known in the step that computes it alone. So a head follows every step of its
// sequence, prompts too. Where a sequence begins behind tokens that were found in the cache, the head lacks what the
// target made of the last of them: the step computes that one a second time, to the same bits, or the few that the
// head's own blocks do not reach. What cannot be had that way is left out (zeros): then the head guesses a little
// worse, and what it writes is not published.
//
// A guess behind a guess is of the head's own row. Such rows lie behind those that are the text's, and are written
// over when the target's are there.
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "backend/kv_storage.h"
#include "engine/draft/draft_batch.h"
#include "engine/draft/drafter.h"
#include "engine/draft/guess_sampler.h"
#include "engine/draft/pass_costs.h"
#include "engine/schedule/policy_registry.h"
#include "kv/cache.h"
#include "model/batch.h"
#include "model/model.h"

namespace kvasir {

class HeadDrafter final : public Drafter {
 public:
  // All outlive this. `policy` is of this model.
  struct Parts {
    Backend& backend;
    Model& head;
    KvCache& cache;
    KvStorage& storage;
    std::shared_ptr<const ActivePolicy> policy;
    std::string_view name;
    std::vector<TokenId> tokens;  // see DraftHead
    std::int64_t context = 0;     // the longest text
    int rows = 0;                 // of a step of the target, at most
  };
  explicit HeadDrafter(Parts parts);
  ~HeadDrafter() override;

  std::string_view name() const override { return p_.name; }
  void propose(std::span<const DraftAsk> asks) override;
  bool runs_passes() const override { return true; }
  double pass_seconds(int sequences) const override { return costs_.known() ? costs_.seconds(sequences) : 0; }
  double catch_up_seconds(const Sequence& sequence, const DrafterState* state) const override;

  bool follows() const override { return !followers_.empty(); }
  void follow(Sequence& sequence, std::unique_ptr<DrafterState>& state, int spare_rows) override;
  void tap(std::span<const ScheduledTokens> scheduled, Batch& batch) override;
  void computed(const Sequence& sequence, DrafterState& state, std::span<const std::int32_t> path) override;
  void finished(const Sequence& sequence) override;

 private:
  struct Follower;
  struct Row {
    Follower* follower = nullptr;
    const DraftAsk* ask = nullptr;         // who wants a guess behind it; null: nobody
    std::span<const TokenId> tokens = {};  // one behind the rows' own
    std::int64_t start = 0;                // the first of them
  };

  int width() const { return p_.head.config().draft.features(p_.head.config().hidden); }
  bool open(Sequence& sequence, Follower& follower, int spare_rows);
  bool may_compute_again(const Sequence& sequence) const;
  void write_pending(std::span<const DraftAsk> asks);
  bool list_pending(std::span<const DraftAsk> asks);
  void run_pass(int given_width);
  void guess(Matrix logits);
  void written();
  void list_guessed();

  Parts p_;
  GuessSampler sampler_;
  PassCosts costs_;
  std::vector<Follower*> followers_;
  std::int64_t pending_rows_ = 0;  // of all
  std::vector<Buffer> taps_;       // [rows][hidden] each
  Buffer given_;                   // [rows][width]
  Buffer own_;                     // [rows][hidden]
  // Of a pass; kept between passes.
  std::vector<PassRows> pass_;
  Batch batch_;
  std::vector<Row> rows_;
  std::vector<Row> next_;
  std::vector<float> given_rows_;
  std::vector<GuessSampler::Row> guessed_;
};

}  // namespace kvasir
