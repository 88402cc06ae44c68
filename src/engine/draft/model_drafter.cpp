#include "engine/draft/model_drafter.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "engine/sequence.h"

namespace kvasir {
namespace {

constexpr int kRowsAtOnce = 512;     // of texts that are caught up with: others wait for the pass
constexpr int kManyRowsOfText = 16;  // fewer say nothing of what a row costs

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

struct ModelDrafter::Follower final : DrafterState {
  explicit Follower(const Sequence& sequence) : sampler(draft_params(sequence.request.sampling), {}) {}

  bool let_go() override {
    written.clear();
    return std::exchange(lease, KvLease()).valid();
  }

  KvLease lease;
  std::vector<TokenId> written;  // guesses whose rows lie behind the lease's end
  Sampler sampler;
};

ModelDrafter::ModelDrafter(Parts parts) : p_(std::move(parts)), sampler_(p_.backend, {}, p_.vocab) {}
ModelDrafter::~ModelDrafter() = default;

ModelDrafter::Follower& ModelDrafter::follower_of(const DraftAsk& ask) {
  if (!ask.state) ask.state = std::make_unique<Follower>(ask.sequence);
  return static_cast<Follower&>(*ask.state);
}

double ModelDrafter::catch_up_seconds(const Sequence& sequence, const DrafterState* state) const {
  const auto* follower = static_cast<const Follower*>(state);
  const bool follows = follower != nullptr && follower->lease.valid();
  const auto tokens = static_cast<double>(std::ssize(sequence.tokens) - (follows ? follower->lease.length() : 0));
  return tokens * row_seconds_;
}

// Its lease has what the sequence has accepted of the last guesses, and room for the next. False: there is no room.
bool ModelDrafter::come_along(const DraftAsk& ask, Follower& follower) {
  const Sequence& sequence = ask.sequence;
  const std::span<const TokenId> tokens(sequence.tokens);
  if (!follower.lease.valid()) {
    OpenContext context = sequence.open_context();
    context.policy = p_.policy->id;
    follower.lease = p_.cache.open(tokens, context).lease;
    follower.written.clear();
  }
  const auto rest = tokens.subspan(static_cast<std::size_t>(follower.lease.length()));
  const auto right = std::ranges::mismatch(std::exchange(follower.written, {}), rest).in2 - rest.begin();
  // The newest token is computed again: its logits are wanted.
  const auto accepted = std::min<std::ptrdiff_t>(right, std::ssize(rest) - 1);
  if (accepted > 0) p_.cache.commit(follower.lease, rest.first(static_cast<std::size_t>(accepted)));
  const std::int64_t wanted = std::ssize(tokens) - follower.lease.length() + ask.most;
  if (p_.cache.reserve(follower.lease, wanted)) return true;
  follower.let_go();
  return false;
}

void ModelDrafter::list_uncomputed(std::span<const DraftAsk> asks) {
  rows_.clear();
  std::int64_t left = std::min(kRowsAtOnce, p_.model.max_rows());
  for (const DraftAsk& ask : asks) {
    if (left == 0) return;
    if (ask.most < 1 || std::ssize(ask.sequence.tokens) + ask.most > p_.context) continue;
    Follower& follower = follower_of(ask);
    if (!come_along(ask, follower)) continue;
    const Position start = follower.lease.length();
    const std::span<const TokenId> rest = std::span(ask.sequence.tokens).subspan(static_cast<std::size_t>(start));
    const std::int64_t count = std::min<std::int64_t>(std::ssize(rest), left);
    left -= count;
    rows_.push_back({&ask, &follower, rest.first(static_cast<std::size_t>(count)), start, count == std::ssize(rest)});
  }
}

void ModelDrafter::run_pass() {
  const auto began = std::chrono::steady_clock::now();
  pass_.clear();
  for (const Row& row : rows_) pass_.push_back({&row.follower->lease, row.tokens, row.start, row.completes});
  build_draft_batch(pass_, p_.cache, p_.storage, batch_);
  guess(p_.model.forward(batch_, p_.storage));
  const double seconds = seconds_since(began);
  if (batch_.rows() == std::ssize(batch_.logit_rows)) costs_.measure(batch_.rows(), seconds);
  if (batch_.rows() >= kManyRowsOfText) row_seconds_ = seconds / batch_.rows();
}

void ModelDrafter::guess(Matrix logits) {
  guessed_.clear();
  for (const Row& row : rows_) {
    const Position position = std::ssize(row.ask->sequence.tokens) + std::ssize(row.ask->draft.tokens);
    if (row.completes) guessed_.push_back({&row.follower->sampler, position, row.ask->branches});
  }
  const std::span<const std::vector<Guess>> guesses = sampler_.sample(logits, guessed_);
  std::size_t at = 0;
  for (const Row& row : rows_) {
    if (row.completes) sampler_.add(guesses[at++], row.ask->draft);
  }
}

// Those that go on: each with its newest guess.
void ModelDrafter::list_guessed() {
  next_.clear();
  for (Row& row : rows_) {
    const Draft& draft = row.ask->draft;
    if (!row.completes || std::ssize(draft.tokens) >= row.ask->most) continue;
    const auto guesses = static_cast<std::size_t>(row.start) + row.tokens.size() - row.ask->sequence.tokens.size();
    if (draft.tokens.size() <= guesses || draft.confidence.back() < kLeastConfidence) continue;
    row.follower->written.push_back(draft.tokens.back());
    next_.push_back({row.ask, row.follower, std::span(draft.tokens).last(1),
                     row.start + static_cast<Position>(row.tokens.size()), true});
  }
  std::swap(rows_, next_);
}

void ModelDrafter::propose(std::span<const DraftAsk> asks) {
  for (const DraftAsk& ask : asks) {  // spans of them stay where they are
    ask.draft.tokens.reserve(static_cast<std::size_t>(std::max<std::int64_t>(ask.most, 0)));
  }
  list_uncomputed(asks);
  if (rows_.empty()) return;
  run_pass();
  for (const Row& row : rows_) p_.cache.commit(row.follower->lease, row.tokens);
  for (list_guessed(); !rows_.empty(); list_guessed()) run_pass();
  sampler_.add_branches();
}

}  // namespace kvasir
