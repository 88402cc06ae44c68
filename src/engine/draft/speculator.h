// Speculative decoding: who guesses, how many tokens of it are verified, and what came of it.
//
// Before each step every drafter that costs nothing guesses for every sequence that answers. A guess is compared with
// the tokens that come whether it was verified or not, so that it is known how often a drafter is right in a sequence
// before a single row is spent on it. The plan (draft_plan.h) then verifies as many tokens as pay by what steps of so
// many rows were measured to take: none where nothing pays, and then a step is as it is without drafters. A draft
// model, whose guesses cost passes, is asked where it promises more than texts do. Where a drafter knows several ways
// to go on, its draft is a small tree: a branch is verified if it pays, like any other row.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/draft/draft_balance.h"
#include "engine/draft/draft_plan.h"
#include "engine/draft/drafter.h"
#include "engine/draft/drafters.h"
#include "engine/schedule/cost_meter.h"
#include "engine/schedule/scheduler.h"
#include "engine/step/in_flight_step.h"
#include "kv/cache.h"

namespace kvasir {

struct DrafterCounts : DraftCounts {
  std::string name;
};

struct SpeculationCounts {
  static constexpr std::size_t kPositions = 64;
  std::vector<DrafterCounts> drafters;
  std::array<std::int64_t, kPositions> accepted_at{};  // by place in the draft
  double drafting_seconds = 0;
  double saved_seconds =
      0;  // beside what the same tokens are estimated to have taken without drafts; may be negative
};

class Speculator {
 public:
  // All outlive this.
  struct Parts {
    Scheduler& scheduler;
    KvCache& cache;
    CostMeter& costs;
  };
  // `model`: of the drafter kModelDrafter; null where it is not in the config.
  Speculator(const Parts& parts, SpeculationConfig config, std::unique_ptr<Drafter> model);

  // From now on this one guesses, for all, and all that it says is verified. Null: those of the config again.
  void force(Drafter* drafter);

  // Before a step is scheduled: leaves a draft in each sequence for which one pays.
  void propose();
  // Whether the next step had drafts, if it were not ahead of its tokens: asked while nobody else waits for anything.
  bool wants_to_draft();
  // Around a step of the first model, of at most so many rows: for drafters that follow it.
  void follow(std::span<const ScheduledTokens> scheduled, int most_rows);
  void tap(std::span<const ScheduledTokens> scheduled, Batch& batch);
  // A step's rows of a sequence were accepted; then all of the step's.
  void verified(const ComputedRows& rows, const StepOutput& output);
  void end_step();
  void finished(const Sequence& sequence);

  const SpeculationCounts& counts() const { return counts_; }
  // Of the host's memory that a tenant's texts take.
  std::size_t text_bytes(std::uint32_t tenant) const;

 private:
  using Track = SequenceDrafts::Track;
  struct Candidate {
    Sequence* sequence = nullptr;
    std::int64_t most = 0;
    int branches = 1;
    int best = -1;        // of the drafters that cost nothing: whose guess promises most …
    double promises = 0;  // … and how many tokens
  };
  enum class Ask : std::uint8_t { kWhereNoneIsLeft, kAlways };

  void find_candidates();
  bool may_draft(const Sequence& sequence) const;
  bool may_follow(const Sequence& sequence) const;
  void look_at(const ComputedRows& rows, const StepOutput& output);
  std::int64_t rows_to_state(const Sequence& sequence) const;
  int branches_of(const Sequence& sequence) const;
  double promises_of(const Track& track);  // tokens
  void keep_likely(const Sequence& sequence, Track& track);
  void open(Sequence& sequence) const;
  static void compare(Sequence& sequence);
  void ask(std::size_t drafter, std::span<Candidate* const> whom, std::int64_t most);
  static void trim(const Sequence& sequence, Draft& draft);
  void ask_texts(Ask how);
  void plan_texts();
  void plan_model();
  void list_for_model();
  void keep_affordable();
  void ask_model(std::int64_t tokens, double catch_up);
  double catch_up_seconds(const Candidate& one) const;
  bool worth_catching_up(const Candidate& one) const;
  std::int64_t tokens_for_model(std::span<Candidate* const> whom) const;
  double model_rate(std::span<Candidate* const> whom, std::int64_t length) const;
  void take_all();
  void take_plan();
  void settle(double plain_seconds, double more_seconds);

  Parts p_;
  SpeculationConfig config_;
  std::vector<std::unique_ptr<Drafter>> own_;
  std::vector<Drafter*> drafters_;  // own_, or the one that was forced
  int generation_ = 0;
  bool forced_ = false;
  SpeculationConfig::Verify verify_;
  DraftPlan plan_;
  DraftBalance balance_;  // of who runs passes
  SpeculationCounts counts_;
  bool pays_ = false;  // the last plan
  std::uint64_t asked_ = 0;
  std::uint64_t paying_steps_ = 0;
  // Of the step that is planned; kept between steps.
  StepOutlook outlook_;
  std::vector<Candidate> candidates_;
  std::vector<Candidate*> whom_;
  std::vector<Candidate*> offered_;
  std::vector<DraftOffer> offers_;
  std::vector<double> reaches_;
  std::int64_t accepted_ = 0;  // of this step
  std::int64_t drafted_ = 0;
  double drafting_seconds_ = 0;
  // Of these what is of who runs passes:
  std::int64_t model_accepted_ = 0;
  std::int64_t model_drafted_ = 0;
  double model_seconds_ = 0;
  bool model_is_to_pay_ = false;  // by what is estimated; else it is a try
};

}  // namespace kvasir
