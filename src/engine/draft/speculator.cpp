#include "engine/draft/speculator.h"

#include <algorithm>
#include <utility>

#include "engine/draft/text_drafters.h"

namespace kvasir {
namespace {

constexpr std::int64_t kMostVerified = 64;   // tokens of a draft: more are hardly ever right
constexpr std::int64_t kMostRows = 512;      // of all drafts of a step
constexpr std::int64_t kTrial = 2;           // tokens of a model's draft that nobody knows the worth of
constexpr std::int64_t kLongestPause = 256;  // steps
constexpr std::int64_t kFirstPause = 8;
constexpr double kFarBehind = 4;                 // passes: a text that takes less is part of any draft
constexpr std::uint64_t kStepsPerPlainOne = 64;  // with drafts: so that it stays known what one without them takes
constexpr double kWorthTrying = 1.05;            // a model's estimate goes by averages
constexpr std::uint64_t kStepsPerLook = 4;       // while steps run ahead
constexpr std::array<int, 9> kModelLengths{1, 2, 3, 4, 5, 6, 8, 10, 12};

double sum_of_powers(double p, std::int64_t count) {
  double sum = 0;
  double power = 1;
  for (std::int64_t i = 0; i < count; ++i) sum += power *= p;
  return sum;
}

}  // namespace

Speculator::Speculator(const Parts& parts, SpeculationConfig config, std::unique_ptr<Drafter> model)
    : p_(parts), config_(std::move(config)), verify_(config_.verify) {
  for (const DrafterKind& kind : drafter_kinds()) {
    if (std::ranges::find(config_.drafters, kind.name) != config_.drafters.end()) own_.push_back(kind.make());
  }
  if (model != nullptr) own_.push_back(std::move(model));
  force(nullptr);
}

void Speculator::force(Drafter* drafter) {
  ++generation_;
  forced_ = drafter != nullptr;
  drafters_.clear();
  counts_.drafters.clear();
  if (drafter != nullptr) drafters_.push_back(drafter);
  for (const auto& one : own_) {
    if (drafter == nullptr) drafters_.push_back(one.get());
  }
  for (const Drafter* one : drafters_) counts_.drafters.push_back({{}, std::string(one->name())});
  verify_ = forced_ ? SpeculationConfig::Verify::kAll : config_.verify;
}

// Where rows are evicted by what queries looked at, are scored or are kept at a mark, none but the sequence's own are
// computed.
bool Speculator::may_draft(const Sequence& sequence) const {
  const Request& request = sequence.request;
  if (request.speculative.most == 0) return false;
  return !sequence.eviction && !request.score_from && sequence.forks.empty() && !sequence.has_pins_to_come();
}

void Speculator::open(Sequence& sequence) const {
  if (sequence.drafts != nullptr && sequence.drafts->generation == generation_) return;
  sequence.drafts = std::make_unique<SequenceDrafts>();
  SequenceDrafts& drafts = *sequence.drafts;
  drafts.generation = generation_;
  drafts.seen = std::ssize(sequence.tokens);
  const std::vector<std::string>& wanted = sequence.request.speculative.drafters;
  for (const Drafter* drafter : drafters_) {
    Track& track = drafts.tracks.emplace_back();
    track.allowed = wanted.empty() || std::ranges::find(wanted, drafter->name()) != wanted.end();
  }
}

// States are kept at ends of blocks, as without drafts: none goes past one.
std::int64_t Speculator::rows_to_state(const Sequence& sequence) const {
  if (!p_.cache.has_states(sequence.lease.policy())) return kMostVerified;
  const std::int64_t block = p_.cache.block_tokens();
  const std::int64_t rows = sequence.lease.length() % block + sequence.num_uncomputed_tokens();
  return std::max<std::int64_t>(block - rows, 0);
}

// A state has seen all rows before it, in one order: there a draft is a chain.
int Speculator::branches_of(const Sequence& sequence) const {
  if (p_.cache.has_states(sequence.lease.policy()) || sequence.num_uncomputed_tokens() != 1) return 1;
  return std::min(config_.branches, sequence.request.speculative.branches);
}

void Speculator::find_candidates() {
  candidates_.clear();
  outlook_ = {};
  p_.scheduler.each_to_change([this](Sequence& sequence) {
    if (!sequence.lease.valid() || sequence.finish != FinishReason::kNone || sequence.waits_for_mask()) return;
    sequence.draft.clear();
    const std::int64_t uncomputed = sequence.num_uncomputed_tokens();
    outlook_.rows += static_cast<int>(uncomputed);
    if (!sequence.decodes(p_.cache.block_tokens())) return;
    ++outlook_.decoding;
    if (!may_draft(sequence)) return;
    const std::int64_t most = std::min(
        {sequence.num_tokens_left() - 1, sequence.request.speculative.most, kMostVerified, rows_to_state(sequence)});
    if (most < 1) return;
    open(sequence);
    compare(sequence);
    sequence.drafts->chosen = -1;
    candidates_.push_back({&sequence, most, branches_of(sequence)});
  });
  outlook_.rows = std::min(outlook_.rows, p_.scheduler.config().max_batch_tokens);
  outlook_.most =
      static_cast<int>(std::min<std::int64_t>(kMostRows, p_.scheduler.config().max_batch_tokens - outlook_.decoding));
}

// A guess that still stands is asked for again only while drafts pay: then each token counts.
void Speculator::ask_texts(Ask how) {
  const std::int64_t share = kMostRows / std::max<std::int64_t>(std::ssize(candidates_), 1);
  const std::int64_t most = std::min(config_.most, std::max<std::int64_t>(share, 1));
  for (std::size_t i = 0; i < drafters_.size(); ++i) {
    if (drafters_[i]->runs_passes()) continue;
    whom_.clear();
    for (Candidate& one : candidates_) {
      const Track& track = one.sequence->drafts->tracks[i];
      if (track.allowed && (how == Ask::kAlways || track.guess.empty())) whom_.push_back(&one);
    }
    if (!whom_.empty()) ask(i, whom_, most);
    for (Candidate& one : candidates_) {
      const Track& track = one.sequence->drafts->tracks[i];
      const double promises = promises_of(track);
      if (!track.allowed || promises <= one.promises) continue;
      one.promises = promises;
      one.best = static_cast<int>(i);
    }
  }
}

void Speculator::plan_texts() {
  offers_.clear();
  offered_.clear();
  for (Candidate& one : candidates_) {
    if (one.best < 0) continue;
    const Track& track = one.sequence->drafts->tracks[static_cast<std::size_t>(one.best)];
    offers_.push_back({&track.guess, &track.acceptance});
    offered_.push_back(&one);
  }
  plan_.choose(offers_, outlook_, p_.costs.passes());
}

// Tokens per second with a draft of so many tokens from the model for each of these, beside what texts promise
// others.
double Speculator::model_rate(std::span<Candidate* const> whom, std::int64_t length) const {
  const std::size_t model = drafters_.size() - 1;
  double tokens = outlook_.decoding;
  std::int64_t rows = outlook_.rows;
  for (const Candidate* one : whom) {
    tokens += sum_of_powers(one->sequence->drafts->tracks[model].acceptance.overall(), std::min(length, one->most));
    rows += std::min(length, one->most);
  }
  const double passes = static_cast<double>(length) * drafters_[model]->pass_seconds(static_cast<int>(whom.size()));
  return tokens / (p_.costs.passes().seconds(static_cast<int>(rows)) + passes);
}

// How long the model's drafts had best be; 0: they do not pay.
std::int64_t Speculator::tokens_for_model(std::span<Candidate* const> whom) const {
  const DraftPlan::Choice& texts = plan_.last();
  double best = kWorthTrying * (texts.pays ? texts.tokens_per_second : texts.plain_tokens_per_second);
  std::int64_t tokens = 0;
  for (const int length : kModelLengths) {
    const double rate = model_rate(whom, length);
    if (rate <= best || length > config_.most) continue;
    best = rate;
    tokens = length;
  }
  return tokens;
}

double Speculator::catch_up_seconds(const Candidate& one) const {
  return drafters_.back()->catch_up_seconds(*one.sequence, one.sequence->drafts->tracks.back().state.get());
}

// Whether reading the sequence's text takes little beside what is left of its answer.
bool Speculator::worth_catching_up(const Candidate& one) const {
  constexpr double kLittle = 0.1;
  const double left = static_cast<double>(one.sequence->num_tokens_left()) * p_.costs.passes().seconds(1);
  return catch_up_seconds(one) < kLittle * left;
}

// For whom the model may be asked in this step.
void Speculator::list_for_model() {
  whom_.clear();
  for (Candidate& one : candidates_) {
    Track& track = one.sequence->drafts->tracks.back();
    const bool texts_promise_more =
        one.best >= 0 && one.promises >= sum_of_powers(track.acceptance.overall(), kTrial);
    if (!track.allowed || texts_promise_more) continue;
    if (track.pause > 0) {
      --track.pause;
    } else if (worth_catching_up(one)) {
      whom_.push_back(&one);
    } else {
      track.pause = track.next_pause;
    }
  }
}

// Of those for whom it is tried though it does not seem to pay, as many as there is credit for. All of them pause.
void Speculator::keep_affordable() {
  double cost = 0;
  std::erase_if(whom_, [&](Candidate* one) {
    Track& track = one->sequence->drafts->tracks.back();
    track.pause = track.next_pause;
    track.next_pause = std::min(2 * track.next_pause, kLongestPause);
    const double more = catch_up_seconds(*one) + static_cast<double>(kTrial) * drafters_.back()->pass_seconds(1);
    if (!balance_.may_spend(cost + more)) return true;
    cost += more;
    return false;
  });
}

// Of the time that it takes, what reading a text takes says nothing of guesses to come.
void Speculator::ask_model(std::int64_t tokens, double catch_up) {
  const std::size_t model = drafters_.size() - 1;
  const double began = p_.costs.now();
  ask(model, whom_, tokens);
  model_seconds_ = p_.costs.now() - began;
  if (model_is_to_pay_) {
    balance_.spend(std::min(catch_up, model_seconds_));
    model_seconds_ -= std::min(catch_up, model_seconds_);
  }
  for (Candidate* one : whom_) {
    const Track& track = one->sequence->drafts->tracks[model];
    balance_.guessed(track.guess.size());
    const double promises = promises_of(track);
    if (promises <= one->promises) continue;
    one->promises = promises;
    one->best = static_cast<int>(model);
  }
}

void Speculator::plan_model() {
  if (drafters_.empty() || !drafters_.back()->runs_passes()) return;
  list_for_model();
  if (whom_.empty()) return;
  const std::int64_t tokens = balance_.believed() ? tokens_for_model(whom_) : 0;
  model_is_to_pay_ = tokens > 0;
  double catch_up = 0;
  for (Candidate* one : whom_) {
    const double behind = catch_up_seconds(*one);
    if (behind > kFarBehind * drafters_.back()->pass_seconds(1)) catch_up += behind;
    if (model_is_to_pay_) one->sequence->drafts->tracks.back().next_pause = kFirstPause;
  }
  if (!model_is_to_pay_) keep_affordable();
  if (whom_.empty()) return;
  ask_model(model_is_to_pay_ ? tokens : kTrial, catch_up);
  plan_texts();  // and the model's
}

void Speculator::take_plan() {
  const DraftPlan::Choice& choice = plan_.last();
  pays_ = choice.pays;
  for (std::size_t i = 0; i < offered_.size(); ++i) {
    const std::uint64_t taken = choice.tokens[i];
    if (taken == 0) continue;
    Sequence& sequence = *offered_[i]->sequence;
    sequence.drafts->chosen = offered_[i]->best;
    sequence.draft = *offers_[i].draft;
    sequence.draft.keep_if([taken](std::int32_t token) { return (taken >> token & 1U) != 0; });
  }
}

// All that the first drafter says that says anything.
void Speculator::take_all() {
  for (std::size_t i = 0; i < drafters_.size(); ++i) {
    whom_.clear();
    for (Candidate& one : candidates_) {
      if (one.sequence->draft.empty() && one.sequence->drafts->tracks[i].allowed) whom_.push_back(&one);
    }
    if (whom_.empty()) return;
    ask(i, whom_, forced_ ? kMostVerified : config_.most);
    for (Candidate* one : whom_) {
      one->sequence->draft = one->sequence->drafts->tracks[i].guess;
      if (!one->sequence->draft.empty()) one->sequence->drafts->chosen = static_cast<int>(i);
    }
  }
}

void Speculator::propose() {
  if (drafters_.empty()) return;
  accepted_ = 0;
  drafted_ = 0;
  find_candidates();
  if (candidates_.empty()) return;
  const double began = p_.costs.now();
  if (verify_ == SpeculationConfig::Verify::kAll) {
    take_all();
  } else if (p_.costs.passes().known() && (!pays_ || ++paying_steps_ % kStepsPerPlainOne != 0)) {
    ask_texts(pays_ ? Ask::kAlways : Ask::kWhereNoneIsLeft);
    plan_texts();
    plan_model();
    take_plan();
  }
  drafting_seconds_ = p_.costs.now() - began;
  const double each = drafting_seconds_ / static_cast<double>(candidates_.size());
  for (const Candidate& one : candidates_) p_.scheduler.charge(one.sequence->request.tenant.id, each);
  p_.costs.spent_drafting(drafting_seconds_);
  counts_.drafting_seconds += drafting_seconds_;
}

bool Speculator::wants_to_draft() {
  if (drafters_.empty()) return false;
  if (verify_ == SpeculationConfig::Verify::kAll || drafters_.back()->follows()) return true;
  if (++asked_ % kStepsPerLook != 0) return pays_;
  find_candidates();
  if (candidates_.empty() || !p_.costs.passes().known()) return pays_ = false;
  ask_texts(Ask::kWhereNoneIsLeft);
  plan_texts();
  pays_ = plan_.last().pays;
  if (!drafters_.back()->runs_passes() || pays_) return pays_;
  for (const Candidate& one : candidates_) {
    Track& track = one.sequence->drafts->tracks.back();
    track.pause -= std::min<std::int64_t>(track.pause, kStepsPerLook);
    pays_ |= track.allowed && track.pause == 0 && balance_.may_spend(0);
  }
  return pays_;
}

void Speculator::verified(const ComputedRows& rows, const StepOutput& output) {
  look_at(rows, output);
  if (rows.draft.empty() || rows.sequence->drafts == nullptr) return;
  const int chosen = rows.sequence->drafts->chosen;
  if (chosen < 0 || chosen >= std::ssize(counts_.drafters)) return;
  const std::size_t chain = rows.draft.chain_length();
  const auto on_branches = std::ranges::count_if(
      output.path, [chain](std::int32_t row) { return static_cast<std::size_t>(row) >= chain; });
  const DraftCounts counts{1, std::ssize(rows.draft.tokens), output.verified(),
                           static_cast<std::int64_t>(rows.draft.size() - chain), on_branches};
  DrafterCounts& drafter = counts_.drafters[static_cast<std::size_t>(chosen)];
  drafter.add(counts);
  for (std::size_t i = 0; i < output.path.size(); ++i) {
    ++counts_.accepted_at[std::min(i, SpeculationCounts::kPositions - 1)];
  }
  rows.sequence->record.count_draft(drafter.name, counts);
  drafted_ += counts.proposed;
  accepted_ += counts.accepted;
  if (!drafters_[static_cast<std::size_t>(chosen)]->runs_passes()) return;
  model_drafted_ += counts.proposed;
  model_accepted_ += counts.accepted;
}

// What came of the step is booked: it took so much longer than a plain one.
void Speculator::settle(double plain_seconds, double more_seconds) {
  const double per_token = plain_seconds / std::max(outlook_.decoding, 1);
  counts_.saved_seconds += static_cast<double>(accepted_) * per_token - more_seconds;
  balance_.add_step(plain_seconds);
  const double asked = std::exchange(model_seconds_, 0);
  if (asked == 0) return;
  const double part =
      drafted_ == 0 ? 0 : static_cast<double>(model_drafted_) / static_cast<double>(drafted_);  // of the rows
  const double saved = static_cast<double>(model_accepted_) * per_token - part * more_seconds - asked;
  if (model_is_to_pay_) {
    balance_.book(saved);
  } else {
    balance_.spend(-saved);
  }
}

void Speculator::end_step() {
  if (drafters_.empty() || candidates_.empty()) return;
  counts_.saved_seconds -= std::exchange(drafting_seconds_, 0);
  if (p_.costs.passes().known()) {
    const double plain = p_.costs.passes().seconds(outlook_.rows);
    settle(plain, drafted_ > 0 ? p_.costs.elapsed_seconds() - plain : 0);
  }
  drafted_ = model_drafted_ = 0;
  accepted_ = model_accepted_ = 0;
}

void Speculator::finished(const Sequence& sequence) {
  const double began = p_.costs.now();
  for (Drafter* drafter : drafters_) drafter->finished(sequence);
  if (!drafters_.empty()) p_.scheduler.charge(sequence.request.tenant.id, p_.costs.now() - began);
}

std::size_t Speculator::text_bytes(std::uint32_t tenant) const {
  std::size_t bytes = 0;
  for (const auto& one : own_) {
    if (const auto* texts = dynamic_cast<const SuffixDrafter*>(one.get())) bytes += texts->bytes_of(tenant);
  }
  return bytes;
}

}  // namespace kvasir
