#include "engine/draft/head_drafter.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <limits>
#include <utility>

#include "engine/schedule/scheduler.h"
#include "engine/sequence.h"

namespace kvasir {
namespace {

constexpr std::int64_t kMostAgain = 32;      // tokens that a step computes again for a head
constexpr std::int64_t kMostMissing = 1024;  // rows that a head guesses without what the target made of them
constexpr std::int64_t kMostPending = 256;   // rows of all sequences that wait on the host for a pass
constexpr int kMostOpenings = 8;             // of a sequence that must let go again and again

// What a head's rows depend on but the tokens of its text: what stood before the sequence's, and its first token.
Key256 key_before(const Sequence& sequence) {
  const auto& first = sequence.tokens.front();
  const std::array<std::string_view, 1> parts{{{reinterpret_cast<const char*>(&first), sizeof first}}};
  return keyed_hash(sequence.request.prefix_key.value_or(Key256{}), parts);
}

std::span<std::byte> bytes_of(std::span<float> numbers) { return std::as_writable_bytes(numbers); }

}  // namespace

// INVARIANT: rows before `rows` are written, and what the target made of `pending` rows before `next` is in `given`;
// what is between the two is missing.
struct HeadDrafter::Follower final : DrafterState {
  Follower(HeadDrafter& drafter, const Sequence& followed)
      : owner(drafter), sequence(followed), sampler(draft_params(followed.request.sampling), {}) {}
  ~Follower() override { let_go(); }

  bool let_go() override {
    forget_pending();
    rows = 0;
    next = -1;
    std::erase(owner.followers_, this);
    return std::exchange(lease, KvLease()).valid();
  }
  void forget_pending() {
    owner.pending_rows_ -= std::exchange(pending, 0);
    given.clear();
  }
  // Where the target's batch had the row of a position, if the rows of a draft that were accepted end at `end`.
  std::int64_t row_of(Position position, Position end, std::span<const std::int32_t> path) const {
    const Position draft = end - std::ssize(path);
    const std::int64_t row = first_row + (std::min(position, draft) - first_position);
    return position < draft ? row : row + path[static_cast<std::size_t>(position - draft)];
  }
  // Rows that can be written: their tokens are known.
  std::int64_t writable() const {
    return std::max<std::int64_t>(std::min<std::int64_t>(next, std::ssize(sequence.tokens) - 1) - rows, 0);
  }

  HeadDrafter& owner;
  const Sequence& sequence;
  Sampler sampler;
  KvLease lease;          // of the text without its first token
  std::int64_t rows = 0;  // the lease's, and, where some are not as they should be, more behind its end
  bool exact = true;      // all of them are what the tokens say, and may be published
  Position next = -1;     // of the target's rows: the one that comes next; -1: it follows nobody
  std::int64_t pending = 0;
  std::vector<float> given;    // [pending][width]
  std::vector<float> own_row;  // [hidden], of the row behind which it guessed last
  int openings = 0;
  // Of the step that runs:
  int first_row = 0;            // in the target's batch …
  Position first_position = 0;  // … of this token
};

HeadDrafter::HeadDrafter(Parts parts) : p_(std::move(parts)), sampler_(p_.backend, p_.tokens) {
  const ModelSpec& spec = p_.head.config();
  const auto rows_of = [this](int rows, int cols) {
    return p_.backend.allocate(sizeof(float) * static_cast<std::size_t>(rows) * static_cast<std::size_t>(cols));
  };
  for (std::size_t i = 0; i < spec.draft.reads.size(); ++i) taps_.push_back(rows_of(p_.rows, spec.hidden));
  given_ = rows_of(p_.head.max_rows(), width());
  own_ = rows_of(p_.head.max_rows(), spec.hidden);
}

HeadDrafter::~HeadDrafter() = default;

double HeadDrafter::catch_up_seconds(const Sequence& /*sequence*/, const DrafterState* state) const {
  const auto* follower = static_cast<const Follower*>(state);
  const bool follows = follower != nullptr && follower->next >= 0;
  return follows ? 0 : std::numeric_limits<double>::infinity();
}

// A row that is computed again is written again, with the same bits: where rows are positions, and none is a state.
bool HeadDrafter::may_compute_again(const Sequence& sequence) const {
  if (p_.cache.has_states(sequence.lease.policy()) || !sequence.lease.source().empty()) return false;
  return std::ranges::all_of(p_.cache.groups_of(sequence.lease.policy()),
                             [this](std::size_t group) { return p_.cache.group_config(group).retention.full(); });
}

// Finds what it has of the text. False: too much is missing.
bool HeadDrafter::open(Sequence& sequence, Follower& follower, int spare_rows) {
  const Position start = sequence.lease.length();
  OpenContext context = sequence.open_context();
  context.policy = p_.policy->id;
  context.after = key_before(sequence);
  context.source = {};
  follower.lease = p_.cache.open(std::span(sequence.tokens).subspan(1), context).lease;
  follower.rows = follower.lease.length();
  const std::int64_t lacking = std::max<std::int64_t>(start - follower.rows, 0);
  const std::int64_t again = may_compute_again(sequence) ? std::min<std::int64_t>(spare_rows, kMostAgain) : 0;
  sequence.computed_again = lacking <= again ? lacking : std::min<std::int64_t>(again, 1);
  follower.next = start - sequence.computed_again;
  follower.exact = follower.next <= follower.rows;
  return follower.next - follower.rows <= kMostMissing;
}

void HeadDrafter::follow(Sequence& sequence, std::unique_ptr<DrafterState>& state, int spare_rows) {
  if (sequence.tokens.size() < 2) return;  // nothing follows its first token yet
  if (!state) state = std::make_unique<Follower>(*this, sequence);
  auto& follower = static_cast<Follower&>(*state);
  if (follower.next == sequence.lease.length()) return;
  follower.let_go();
  if (++follower.openings > kMostOpenings) return;
  if (open(sequence, follower, spare_rows)) {
    followers_.push_back(&follower);
    return;
  }
  sequence.computed_again = 0;
  follower.let_go();
}

void HeadDrafter::tap(std::span<const ScheduledTokens> scheduled, Batch& batch) {
  if (followers_.empty()) return;
  int first_row = 0;
  bool any = false;
  for (const ScheduledTokens& one : scheduled) {
    const Sequence* sequence = one.sequence;
    const auto found = std::ranges::find(followers_, sequence, [](const Follower* f) { return &f->sequence; });
    if (found != followers_.end()) {
      (*found)->first_row = first_row;
      (*found)->first_position = sequence->lease.length() - sequence->computed_again;
      any = true;
    }
    first_row += one.rows + static_cast<int>(sequence->computed_again);
  }
  if (!any) return;
  const DraftHeadSpec& draft = p_.head.config().draft;
  const int hidden = p_.head.config().hidden;
  for (std::size_t i = 0; i < taps_.size(); ++i) {
    batch.taps.push_back({draft.reads[i], {taps_[i].as<float>(), batch.rows(), hidden, hidden}});
  }
}

// What the target made of the rows that are the sequence's now, to the host: of what was guessed wrong nothing.
void HeadDrafter::computed(const Sequence& sequence, DrafterState& state, std::span<const std::int32_t> path) {
  auto& follower = static_cast<Follower&>(state);
  if (follower.next < 0 || !sequence.lease.valid()) return;
  const Position end = sequence.lease.length();
  const Position from = std::max<Position>(follower.next, follower.rows);
  follower.next = std::max(follower.next, end);
  if (from >= end) return;
  const auto hidden = static_cast<std::size_t>(p_.head.config().hidden);
  const auto count = static_cast<std::size_t>(end - from);
  const std::size_t before = follower.given.size();
  follower.given.resize(before + count * static_cast<std::size_t>(width()));
  const auto row_of = [&](std::size_t r) { return follower.row_of(from + static_cast<Position>(r), end, path); };
  for (std::size_t r = 0, next = 0; r < count; r = next) {  // rows that lie one after the other come together
    while (next < count && row_of(next) == row_of(r) + static_cast<std::int64_t>(next - r)) ++next;
    given_rows_.resize((next - r) * hidden);
    for (std::size_t i = 0; i < taps_.size(); ++i) {
      const float* tapped = taps_[i].as<float>() + row_of(r) * static_cast<std::int64_t>(hidden);
      p_.backend.download(bytes_of(given_rows_), reinterpret_cast<const std::byte*>(tapped));
      for (std::size_t k = r; k < next; ++k) {
        std::ranges::copy(
            std::span(given_rows_).subspan((k - r) * hidden, hidden),
            follower.given.begin() + static_cast<std::ptrdiff_t>(before + (k * taps_.size() + i) * hidden));
      }
    }
  }
  follower.pending += static_cast<std::int64_t>(count);
  pending_rows_ += static_cast<std::int64_t>(count);
  if (pending_rows_ >= kMostPending) write_pending({});
}

// Lists rows to be written, with what they are given: all of who is asked, which then guesses behind the last; of
// others all but that one, for which they may be asked yet. False: there are none.
bool HeadDrafter::list_pending(std::span<const DraftAsk> asks) {
  rows_.clear();
  given_rows_.clear();
  std::int64_t left = p_.head.max_rows();
  const auto numbers = static_cast<std::size_t>(width());
  for (std::size_t i = 0; i < followers_.size() && left > 0; ++i) {
    Follower& follower = *followers_[i];
    const auto ask = std::ranges::find(asks, &follower.sequence, [](const DraftAsk& one) { return &one.sequence; });
    const bool asked = ask != asks.end();
    if (!asks.empty() && !asked) continue;
    const std::int64_t all = follower.writable();
    const std::int64_t count = std::min(asked ? all : all - 1, left);
    if (count <= 0) continue;
    const std::int64_t guesses = asked ? ask->most : 0;
    const bool guesses_now = guesses > 0 && count == all;
    if (!p_.cache.reserve(follower.lease, follower.rows - follower.lease.length() + count + guesses)) {
      follower.let_go();
      --i;
      continue;
    }
    const std::span<const TokenId> tokens =
        std::span(follower.sequence.tokens)
            .subspan(static_cast<std::size_t>(follower.rows) + 1, static_cast<std::size_t>(count));
    rows_.push_back({&follower, guesses_now ? &*ask : nullptr, tokens, follower.rows});
    // What is missing is zeros.
    const std::int64_t missing = std::clamp<std::int64_t>(follower.next - follower.pending - follower.rows, 0, count);
    given_rows_.resize(given_rows_.size() + static_cast<std::size_t>(missing) * numbers);
    const auto here = static_cast<std::ptrdiff_t>(static_cast<std::size_t>(count - missing) * numbers);
    given_rows_.insert(given_rows_.end(), follower.given.begin(), follower.given.begin() + here);
    follower.given.erase(follower.given.begin(), follower.given.begin() + here);
    follower.pending -= count - missing;
    pending_rows_ -= count - missing;
    left -= count;
  }
  return !rows_.empty();
}

void HeadDrafter::run_pass(int given_width) {
  const auto began = std::chrono::steady_clock::now();
  pass_.clear();
  for (const Row& row : rows_) pass_.push_back({&row.follower->lease, row.tokens, row.start, row.ask != nullptr});
  build_draft_batch(pass_, p_.cache, p_.storage, batch_);
  const int hidden = p_.head.config().hidden;
  p_.backend.upload(given_.as<std::byte>(), std::as_bytes(std::span(given_rows_)));
  batch_.given = {given_.as<float>(), batch_.rows(), given_width, given_width};
  const DraftHeadSpec& draft = p_.head.config().draft;
  const bool normed = draft.feeds == DraftHeadSpec::Feeds::kNormed;
  batch_.taps = {{normed ? DraftHeadSpec::kNormedRows : p_.head.config().layer_count(),
                  {own_.as<float>(), batch_.rows(), hidden, hidden}}};
  guess(p_.head.forward(batch_, p_.storage));
  if (batch_.rows() == std::ssize(batch_.logit_rows)) {
    costs_.measure(batch_.rows(), std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count());
  }
}

void HeadDrafter::guess(Matrix logits) {
  guessed_.clear();
  for (const Row& row : rows_) {
    if (row.ask == nullptr) continue;
    const Position position = std::ssize(row.ask->sequence.tokens) + std::ssize(row.ask->draft.tokens);
    guessed_.push_back({&row.follower->sampler, position, row.ask->branches});
  }
  const std::span<const std::vector<Guess>> guesses = sampler_.sample(logits, guessed_);
  const auto hidden = static_cast<std::size_t>(p_.head.config().hidden);
  std::size_t at = 0;
  for (const Row& row : rows_) {
    if (row.ask == nullptr) continue;
    const auto from = static_cast<std::size_t>(batch_.logit_rows[at]) * hidden;
    row.follower->own_row.resize(hidden);
    p_.backend.download(bytes_of(row.follower->own_row), own_.as<const std::byte>() + from * sizeof(float));
    sampler_.add(guesses[at++], row.ask->draft);
  }
}

// Rows of the text, which is known, are the lease's; of others there may be some that are not as they should be.
void HeadDrafter::written() {
  for (const Row& row : rows_) {
    row.follower->rows += std::ssize(row.tokens);
    if (row.follower->exact) p_.cache.commit(row.follower->lease, row.tokens);
  }
}

void HeadDrafter::write_pending(std::span<const DraftAsk> asks) {
  while (list_pending(asks)) {
    run_pass(width());
    written();
    if (std::ranges::any_of(rows_, [](const Row& row) { return row.ask != nullptr; })) return;  // they guessed
  }
}

// Those that go on: each with its newest guess, and with what the head made of the row before it.
void HeadDrafter::list_guessed() {
  next_.clear();
  given_rows_.clear();
  for (const Row& row : rows_) {
    if (row.ask == nullptr) continue;
    const Draft& draft = row.ask->draft;
    if (std::ssize(draft.tokens) >= row.ask->most) continue;
    const std::int64_t start = row.start + std::ssize(row.tokens);
    const std::int64_t guesses = start - row.follower->rows + 1;  // that it has, if this pass made one
    if (std::ssize(draft.tokens) < guesses || draft.confidence.back() < kLeastConfidence) continue;
    given_rows_.insert(given_rows_.end(), row.follower->own_row.begin(), row.follower->own_row.end());
    next_.push_back({row.follower, row.ask, std::span(draft.tokens).last(1), start});
  }
  std::swap(rows_, next_);
}

void HeadDrafter::propose(std::span<const DraftAsk> asks) {
  std::vector<DraftAsk> able;
  for (const DraftAsk& ask : asks) {
    if (ask.most < 1 || std::ssize(ask.sequence.tokens) + ask.most > p_.context) continue;
    ask.draft.tokens.reserve(static_cast<std::size_t>(ask.most));  // spans of them stay where they are
    able.push_back(ask);
  }
  if (able.empty()) return;
  write_pending(able);
  for (list_guessed(); !rows_.empty(); list_guessed()) run_pass(p_.head.config().hidden);
  sampler_.add_branches();
}

// What is still to be written is: the next text may go on from here.
void HeadDrafter::finished(const Sequence& sequence) {
  const auto found =
      std::ranges::find(followers_, &sequence, [](const Follower* follower) { return &follower->sequence; });
  if (found == followers_.end()) return;
  Draft none;
  std::unique_ptr<DrafterState> state;
  const std::array<DraftAsk, 1> ask{{{sequence, 0, none, state}}};
  write_pending(ask);
}

}  // namespace kvasir
