#include "server/answer/generation.h"

#include <algorithm>
#include <utility>

#include "server/metrics.h"

namespace kvasir {
namespace {

double seconds_between(std::chrono::steady_clock::time_point from, std::chrono::steady_clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

// Of the prompt's first `tokens`.
std::int64_t written_tokens(const ReuseReport& reuse, std::int64_t tokens, std::int64_t block_tokens) {
  // Where nothing is published, nothing can be found again.
  if (reuse.stop == ReuseStop::kOff || reuse.stop == ReuseStop::kPrivate) return 0;
  if (reuse.source_tokens > 0) return reuse.source_tokens - reuse.reused_tokens;  // all or nothing
  const std::int64_t in_full_blocks = tokens / block_tokens * block_tokens;
  return std::max<std::int64_t>(0, in_full_blocks - reuse.reused_tokens);
}

}  // namespace

std::int64_t kept_for_an_hour(const Request& request) {
  std::int64_t tokens = 0;
  for (const Breakpoint& one : request.breakpoints) {
    if (one.keep >= std::chrono::hours(1)) tokens = std::max(tokens, one.tokens);
  }
  return tokens;
}

Generation::Generation(Context context, std::vector<ChoiceRequest> choices) : context_(std::move(context)) {
  choices_.reserve(choices.size());
  for (ChoiceRequest& choice : choices) choices_.emplace_back(context_.tokenizer, std::move(choice));
  open_ = choices_.size();
  try {
    for (size_t i = 0; i < choices_.size(); ++i) {
      if (!choices_[i].request.prompt_owner) submit(i);
    }
  } catch (...) {
    cancel();
    throw;
  }
}

Generation::~Generation() {
  queue_->close();
  cancel();
}

OnUpdate Generation::listener(size_t index) {
  return [queue = queue_, engine = &context_.engine, index,
          ticket = std::exchange(choices_[index].request.ticket, nullptr), told = std::optional<size_t>(),
          given_up = false](const Update& update) mutable {
    const RequestRecord& record = *update.record;
    TokenEvent event{.choice = index, .token = update.token, .finish = update.finish, .at = Clock::now()};
    event.counts = {record.computed_tokens, record.preemptions, record.steps};
    for (const DraftRecord& one : record.drafts) {
      event.counts.draft_tokens += one.proposed;
      event.counts.accepted_tokens += one.accepted;
    }
    // Its lists are long after many chunks and pauses: they do not travel with every token.
    const size_t length = record.chunks.size() + record.pauses.size();
    if (told != length || update.finish != FinishReason::kNone) event.record = record;
    told = length;
    if (update.logprobs != nullptr) event.logprobs = *update.logprobs;
    if (given_up && update.finish == FinishReason::kCancelled) {
      event.finish = FinishReason::kFailed;
      event.record->failure = "the answer was given up: its client reads too slowly";
    }
    if (queue->push(std::move(event)) || given_up || update.finish != FinishReason::kNone) return;
    given_up = true;
    engine->cancel(update.id);
  };
}

// The owner of a prompt and its siblings go as branches of one request.
void Generation::submit(size_t prompt_owner) {
  std::vector<size_t> members{prompt_owner};
  std::vector<Branch> branches;
  for (size_t i = prompt_owner + 1; i < choices_.size(); ++i) {
    if (choices_[i].request.prompt_owner != prompt_owner) continue;
    members.push_back(i);
    branches.push_back({choices_[i].request.request.sampling.seed, listener(i)});
  }
  const std::vector<RequestId> ids = context_.engine.submit(std::move(choices_[prompt_owner].request.request),
                                                            listener(prompt_owner), std::move(branches));
  for (size_t i = 0; i < members.size(); ++i) {
    choices_[members[i]].id = ids[i];
    context_.live.add(ids[i], {context_.request_id, members[i]});
  }
}

void Generation::cancel() {
  for (Choice& choice : choices_) {
    if (choice.finish != FinishReason::kNone) continue;
    if (choice.id) context_.engine.cancel(*choice.id);
    end(choice, FinishReason::kCancelled);
  }
}

void Generation::end(Choice& choice, FinishReason finish) {
  choice.finish = finish;
  --open_;
  if (choice.id) context_.live.remove(*choice.id);
}

std::vector<Generation::Event> Generation::take() {
  std::vector<Event> out;
  for (const TokenEvent& token : queue_->take()) {
    if (choices_[token.choice].finish != FinishReason::kNone) continue;  // it went on a little after its end
    Event event = read(token);
    event.token = token.token >= 0;
    if (!event.piece.empty() || event.ending || event.token) out.push_back(std::move(event));
  }
  return out;
}

Generation::Event Generation::read(const TokenEvent& event) {
  Choice& choice = choices_[event.choice];
  if (event.record) choice.record = *event.record;
  choice.record.computed_tokens = event.counts.computed_tokens;
  choice.record.preemptions = event.counts.preemptions;
  choice.record.steps = event.counts.steps;
  choice.draft_tokens = event.counts.draft_tokens;
  choice.accepted_tokens = event.counts.accepted_tokens;
  note_time(choice, event.at);
  Event out{event.choice, {}, {}, false};
  if (event.token >= 0) read_token(choice, event, out.piece);
  if (event.finish != FinishReason::kNone) {
    out.piece.text += choice.stops.push(choice.detokenizer.finish());
    if (!choice.stops.matched()) out.piece.text += choice.stops.finish();
  }
  const bool whole = event.finish != FinishReason::kNone && !choice.stops.matched();
  out.piece.tokens = whole ? choice.pending.take_all() : choice.pending.take(out.piece.text);
  if (choice.stops.matched()) {
    if (event.finish == FinishReason::kNone) context_.engine.cancel(*choice.id);
    end(choice, FinishReason::kStop);
    out.ending = Ending{FinishReason::kStop, *choice.stops.matched()};
  } else if (event.finish != FinishReason::kNone) {
    end(choice, event.finish);
    out.ending = Ending{event.finish, {}, choice.record.failure, choice.record.fault};
  }
  return out;
}

void Generation::read_token(Choice& choice, const TokenEvent& event, AnswerPiece& out) const {
  ++choice.tokens;
  const bool visible =
      std::ranges::find(choice.request.visible_specials, event.token) != choice.request.visible_specials.end();
  const std::string text = visible ? choice.detokenizer.finish().append(context_.tokenizer.bytes_of(event.token))
                                   : choice.detokenizer.push(event.token);
  // What the least number of tokens says is given out at once: a stop string lies behind it or nowhere.
  out.text = choice.tokens <= choice.min_tokens ? text : choice.stops.push(text);
  if (event.logprobs) choice.pending.push(describe_token(context_.tokenizer, event.token, *event.logprobs), text);
}

void Generation::note_time(Choice& choice, Clock::time_point at) {
  seconds_ = seconds_between(start_, at);
  if (first_token_seconds_ == 0) first_token_seconds_ = seconds_;
  if (choice.tokens == 0) {
    if (!choice.request.prompt_owner) context_.metrics.first_token(seconds_);
  } else {
    context_.metrics.next_token(seconds_between(choice.last_token, at));
  }
  choice.last_token = at;
}

std::span<const TokenId> Generation::prompt(size_t choice) const {
  return choices_[choices_[choice].request.prompt_owner.value_or(choice)].prompt;
}

Totals Generation::totals() const {
  Totals totals;
  for (const Choice& choice : choices_) {
    totals.answer_tokens += choice.tokens;
    totals.computed_tokens += choice.record.computed_tokens;
    totals.preemptions += choice.record.preemptions;
    totals.steps += choice.record.steps;
    totals.draft_tokens += choice.draft_tokens;
    totals.accepted_tokens += choice.accepted_tokens;
    if (choice.request.prompt_owner) continue;
    totals.prompt_tokens += static_cast<std::int64_t>(choice.prompt.size());
    const ReuseReport reuse = choice.record.reuse.of_prompt();
    totals.reused_tokens += reuse.reused_tokens;
    totals.written_tokens += written_tokens(reuse, reuse.prompt_tokens, context_.block_tokens);
    totals.hour_tokens +=
        written_tokens(reuse, std::min(choice.hour_tokens, reuse.prompt_tokens), context_.block_tokens);
  }
  totals.first_token_seconds = first_token_seconds_;
  totals.seconds = seconds_;
  return totals;
}

}  // namespace kvasir
