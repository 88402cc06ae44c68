#include "engine/step/token_acceptor.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/error.h"
#include "engine/step/failures.h"
#include "sample/logprobs.h"

namespace kvasir {
namespace {

std::span<float> logits_of(const ComputedRows& rows, size_t row) {
  const size_t vocab = rows.logits.size() / static_cast<size_t>(rows.logit_rows);
  return rows.logits.subspan(vocab * row, vocab);
}

// The row of the logits that the sequence's next token is sampled from; those of its draft follow.
size_t first_sampled(const ComputedRows& rows) {
  return static_cast<size_t>(rows.logit_rows) - 1 - rows.draft.size();
}

}  // namespace

StepOutput TokenAcceptor::accept(const ComputedRows& rows) {
  Sequence& sequence = *rows.sequence;
  StepOutput output{&sequence};
  path_.clear();
  show_scored(rows);
  if (!rows.completes) return output;
  if (!sequence.forks.empty()) {
    const std::span<const float> last = logits_of(rows, first_sampled(rows));
    sequence.fork_logits.assign(last.begin(), last.end());
  }
  const size_t before = sequence.tokens.size();
  sequence.logprobs.clear();
  try {
    accept_rows(rows);
  } catch (const Error& error) {
    fail_for(sequence, error);
  }
  output.tokens = std::span<const TokenId>(sequence.tokens).subspan(before);
  output.path = path_;
  return output;
}

// Rows of a prompt that is scored, but for the last: that one is shown when its token is sampled.
void TokenAcceptor::show_scored(const ComputedRows& rows) const {
  const Sequence& sequence = *rows.sequence;
  if (!listeners_.on_logits || rows.logits.empty() || sequence.finish != FinishReason::kNone) return;
  const size_t scored = rows.completes ? first_sampled(rows) : static_cast<size_t>(rows.logit_rows);
  if (scored == 0) return;
  const Position first = sequence.lease.length() + rows.rows - rows.logit_rows + 1;
  for (size_t i = 0; i < scored; ++i) {
    listeners_.on_logits(sequence.id, first + static_cast<Position>(i), logits_of(rows, i));
  }
}

// From the row of the sequence's newest token to that of the draft's token that was sampled there, and on.
void TokenAcceptor::accept_rows(const ComputedRows& rows) {
  Sequence& sequence = *rows.sequence;
  std::int32_t at = -1;
  while (sequence.finish == FinishReason::kNone) {
    std::optional<Sampled> sampled = sample(rows, static_cast<size_t>(at + 1));
    if (!sampled) return;
    const TokenId token = sampled->token;
    if (!append(sequence, *std::move(sampled)) || sequence.finish != FinishReason::kNone) return;
    at = rows.draft.find(at, token);
    if (at < 0) return;
    path_.push_back(at);
  }
}

// Nothing: the sequence waits for its mask.
std::optional<TokenAcceptor::Sampled> TokenAcceptor::sample(const ComputedRows& rows, size_t row) {
  Sequence& sequence = *rows.sequence;
  if (!rows.sampled.empty()) {
    if (rows.sampled[row] < 0) fail_on_logits();
    return Sampled{rows.sampled[row], {}};
  }
  const std::span<float> logits = logits_of(rows, first_sampled(rows) + row);
  if (!masks_.prepare(sequence, logits)) return std::nullopt;
  if (listeners_.on_logits) {
    listeners_.on_logits(sequence.id, static_cast<Position>(sequence.tokens.size()), logits);
  }
  return sample_on_host(sequence, logits);
}

// The next token, and its probabilities where they are asked for: of the model's own logits, before anything else.
TokenAcceptor::Sampled TokenAcceptor::sample_on_host(Sequence& sequence, std::span<float> logits) {
  const Request& request = sequence.request;
  std::optional<LogprobTable> table;
  std::vector<float> own;
  if (request.logprobs) {
    check_logits(logits);
    table.emplace(logits, *request.logprobs);
    own.assign(logits.begin(), logits.end());
  }
  // A form that is complete must end: it goes before the wish for more tokens.
  if (sequence.num_output_tokens() < request.min_tokens && !request.constraint) {
    for (const TokenId stop : request.stop_tokens) {
      if (stop >= 0 && static_cast<size_t>(stop) < logits.size())
        logits[static_cast<size_t>(stop)] = -std::numeric_limits<float>::infinity();
    }
  }
  Sampled out;
  out.token = sequence.sampler.sample(logits, static_cast<Position>(sequence.tokens.size()));
  if (table) out.logprobs = table->of(own[static_cast<size_t>(out.token)]);
  return out;
}

// False: the sequence ends without it.
bool TokenAcceptor::append(Sequence& sequence, Sampled sampled) {
  const std::vector<TokenId>& stops = sequence.request.stop_tokens;
  if (std::ranges::find(stops, sampled.token) != stops.end()) {
    sequence.finish = FinishReason::kStop;
    return false;
  }
  sequence.sampler.accept(sampled.token);
  if (sequence.sampler.constraint() != nullptr && sequence.sampler.constraint()->ended()) {
    sequence.finish = FinishReason::kStop;  // nothing may follow, whatever the request says of stop tokens
    return false;
  }
  sequence.tokens.push_back(sampled.token);
  if (sampled.logprobs) sequence.logprobs.push_back(*std::move(sampled.logprobs));
  if (sequence.num_tokens_left() <= 0) sequence.finish = FinishReason::kLength;
  return true;
}

}  // namespace kvasir
