// One API request as text: one engine request for each choice, its tokens as they come turned into text, ended by
// stop strings.
//
// Siblings have the prompt of an earlier choice, its owner: they are branches of its engine request, which computes
// the prompt once.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/engine_thread.h"
#include "server/access/admission.h"
#include "server/answer/answer_tokens.h"
#include "server/answer/stop_strings.h"
#include "server/answer/token_queue.h"
#include "server/live_requests.h"
#include "text/detokenizer.h"

namespace kvasir {

class Metrics;

struct ChoiceRequest {
  Request request;
  std::shared_ptr<const StopPatterns> stop;  // of all choices
  std::vector<TokenId> visible_specials;     // special tokens whose text is part of the answer's
  std::optional<size_t> prompt_owner;        // an earlier choice with the same prompt
  Admission::Ticket ticket;
};

struct Ending {
  FinishReason finish = FinishReason::kNone;
  std::string stop_string{};  // kStop: the one that was met; empty: the model ended the text
  std::string failure{};      // kFailed
  RequestRecord::Fault fault = RequestRecord::Fault::kOurs;
  bool called = false;  // tools, as the writer heard
};

// What the choices cost and found so far; complete at the end.
struct Totals {
  std::int64_t prompt_tokens = 0;  // each prompt counted once, whatever its choices
  std::int64_t reused_tokens = 0;
  std::int64_t written_tokens = 0;  // of prompts: in full blocks that were not there before, to be found again
  std::int64_t hour_tokens = 0;     // of those written: before a breakpoint that keeps them for an hour or longer
  std::int64_t answer_tokens = 0;
  std::int64_t reasoning_tokens = 0;  // of those: as the answers' reader found
  std::int64_t draft_tokens = 0;      // that were verified …
  std::int64_t accepted_tokens = 0;   // … and right
  std::int64_t computed_tokens = 0;
  int preemptions = 0;
  int steps = 0;
  double first_token_seconds = 0;
  double seconds = 0;  // up to the newest token
};

// How many of its first tokens a request wants kept for an hour or longer.
std::int64_t kept_for_an_hour(const Request& request);

class Generation {
 public:
  struct Context {
    EngineThread& engine;
    Tokenizer tokenizer;
    Metrics& metrics;
    LiveRequests& live;
    int block_tokens;
    std::string request_id;  // x-request-id
  };
  struct Event {
    size_t choice = 0;
    AnswerPiece piece;             // may be empty
    std::optional<Ending> ending;  // the last event of this choice
    bool token = false;            // one came; its text may come later
  };

  // Submits. Throws Error, with nothing left running, when a request can never run.
  Generation(Context context, std::vector<ChoiceRequest> choices);
  ~Generation();  // cancels what still runs
  Generation(const Generation&) = delete;
  Generation& operator=(const Generation&) = delete;

  void on_event(std::function<void()> wake) { queue_->on_event(std::move(wake)); }
  std::vector<Event> take();  // what happened since, token by token
  bool done() const { return open_ == 0; }
  void cancel();

  size_t choices() const { return choices_.size(); }
  int block_tokens() const { return context_.block_tokens; }
  Totals totals() const;
  const RequestRecord& record(size_t choice) const { return choices_[choice].record; }
  std::optional<RequestId> task(size_t choice) const { return choices_[choice].id; }
  const ReuseReport& reuse(size_t choice) const { return choices_[choice].record.reuse; }
  std::span<const TokenId> prompt(size_t choice) const;
  FinishReason finish(size_t choice) const { return choices_[choice].finish; }

 private:
  using Clock = std::chrono::steady_clock;

  struct Choice {
    Choice(const Tokenizer& tokenizer, ChoiceRequest asked)
        : request(std::move(asked)),
          prompt(request.prompt_owner ? std::vector<TokenId>{} : request.request.prompt),
          min_tokens(request.request.min_tokens),
          hour_tokens(kept_for_an_hour(request.request)),
          detokenizer(tokenizer),
          stops(request.stop) {}

    ChoiceRequest request;
    std::vector<TokenId> prompt;  // empty: the prompt owner's
    std::int64_t min_tokens;
    std::int64_t hour_tokens;  // up to the last breakpoint that keeps them so long
    Detokenizer detokenizer;
    StopStrings stops;
    PendingTokens pending;        // stays empty unless probabilities are asked for
    std::optional<RequestId> id;  // nullopt: not submitted yet
    RequestRecord record;
    std::int64_t tokens = 0;
    std::int64_t draft_tokens = 0;
    std::int64_t accepted_tokens = 0;
    Clock::time_point last_token;
    FinishReason finish = FinishReason::kNone;
  };

  OnUpdate listener(size_t index);
  void submit(size_t prompt_owner);
  void note_time(Choice& choice, Clock::time_point at);
  Event read(const TokenEvent& event);
  void read_token(Choice& choice, const TokenEvent& event, AnswerPiece& out) const;
  void end(Choice& choice, FinishReason finish);

  Context context_;
  std::shared_ptr<TokenQueue> queue_ = std::make_shared<TokenQueue>();
  std::vector<Choice> choices_;
  size_t open_ = 0;
  Clock::time_point start_ = Clock::now();
  double first_token_seconds_ = 0;
  double seconds_ = 0;
};

}  // namespace kvasir
