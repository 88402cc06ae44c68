#include "server/responses_writer.h"

#include <ctime>

#include "server/logprobs_json.h"
#include "server/random_id.h"
#include "server/sse.h"

namespace kvasir {
namespace {

OrderedJson usage_of(const Totals& totals) {
  return {{"input_tokens", totals.prompt_tokens},
          {"input_tokens_details",
           {{"cached_tokens", totals.reused_tokens}, {"cache_write_tokens", totals.written_tokens}}},
          {"output_tokens", totals.answer_tokens},
          {"output_tokens_details", {{"reasoning_tokens", 0}}},
          {"total_tokens", totals.prompt_tokens + totals.answer_tokens}};
}

OrderedJson text_part(const std::string& text, OrderedJson logprobs) {
  return {{"type", "output_text"},
          {"text", text},
          {"annotations", OrderedJson::array()},
          {"logprobs", std::move(logprobs)}};
}

// The events of a stream tell tokens without their bytes.
OrderedJson without_bytes(OrderedJson logprobs) {
  for (OrderedJson& token : logprobs) {
    token.erase("bytes");
    for (OrderedJson& top : token["top_logprobs"]) top.erase("bytes");
  }
  return logprobs;
}

// The response as it grows, and the only message it holds.
class Draft {
 public:
  Draft(AnswerHead head, ResponseFrame frame) : head_(std::move(head)), frame_(std::move(frame)) {}

  const std::string& item_id() const { return item_id_; }
  const std::string& text() const { return text_; }
  const OrderedJson& logprobs() const { return logprobs_; }
  OrderedJson part() const { return text_part(text_, logprobs_); }
  void add(const AnswerPiece& piece) {
    text_ += piece.text;
    for (OrderedJson& token : logprob_list(piece.tokens)) logprobs_.push_back(std::move(token));
  }
  void end(const Ending& ending) { cut_ = ending.finish == FinishReason::kLength; }
  std::string_view status() const { return cut_ ? "incomplete" : "completed"; }

  OrderedJson message(std::string_view status, OrderedJson content) const {
    return {{"id", item_id_},
            {"type", "message"},
            {"status", status},
            {"role", "assistant"},
            {"content", std::move(content)}};
  }
  OrderedJson whole_message() const { return message(status(), OrderedJson::array({part()})); }

  OrderedJson response(std::string_view status, OrderedJson output) const {
    OrderedJson out{{"id", head_.id},
                    {"object", "response"},
                    {"created_at", head_.created},
                    {"status", status},
                    {"completed_at", nullptr},
                    {"error", nullptr},
                    {"incomplete_details", nullptr},
                    {"model", head_.model},
                    {"output", std::move(output)}};
    out.update(frame_.settings);
    return out;
  }

  // The finished one, which is kept if anybody does.
  OrderedJson finished(const AnswerReport& report) const {
    OrderedJson out = response(status(), OrderedJson::array({whole_message()}));
    if (cut_) {
      out["incomplete_details"] = {{"reason", "max_output_tokens"}};
    } else {
      out["completed_at"] = std::time(nullptr);
    }
    out["usage"] = usage_of(report.totals);
    if (frame_.keep) frame_.keep(out);
    if (!report.explanation.is_null()) out["kvasir"] = report.explanation;
    return out;
  }

  OrderedJson failed(const ApiError& error) const {
    OrderedJson out = response("failed", OrderedJson::array({message("incomplete", OrderedJson::array({part()}))}));
    out["error"] = {{"code", "server_error"}, {"message", error.message()}};
    return out;
  }

 private:
  AnswerHead head_;
  ResponseFrame frame_;
  std::string item_id_ = "msg_" + random_hex(96);
  std::string text_;
  OrderedJson logprobs_ = OrderedJson::array();
  bool cut_ = false;
};

class ResponsesStream : public AnswerWriter {
 public:
  ResponsesStream(AnswerHead head, ResponseFrame frame) : draft_(std::move(head), std::move(frame)) {}

  std::string begin(const AnswerReport&) override {
    const OrderedJson empty = draft_.response("in_progress", OrderedJson::array());
    std::string out = event("response.created", {{"response", empty}});
    out += event("response.in_progress", {{"response", empty}});
    out += event("response.output_item.added",
                 {{"output_index", 0}, {"item", draft_.message("in_progress", OrderedJson::array())}});
    return out += event("response.content_part.added", in_part({{"part", text_part("", OrderedJson::array())}}));
  }

  std::string text(size_t, const AnswerPiece& piece) override {
    draft_.add(piece);
    return event("response.output_text.delta",
                 in_part({{"delta", piece.text}, {"logprobs", without_bytes(logprob_list(piece.tokens))}}));
  }

  std::string end(size_t, const Ending& ending) override {
    draft_.end(ending);
    std::string out = event("response.output_text.done",
                            in_part({{"text", draft_.text()}, {"logprobs", without_bytes(draft_.logprobs())}}));
    out += event("response.content_part.done", in_part({{"part", draft_.part()}}));
    return out += event("response.output_item.done", {{"output_index", 0}, {"item", draft_.whole_message()}});
  }

  std::string finish(const AnswerReport& report) override {
    return event("response." + std::string(draft_.status()), {{"response", draft_.finished(report)}});
  }

  std::string fail(const ApiError& error) override {
    if (sequence_ > 0) return event("response.failed", {{"response", draft_.failed(error)}});
    const ApiError::Reply& reply = error.reply();
    const auto or_null = [](const std::string& text) {
      return text.empty() ? OrderedJson(nullptr) : OrderedJson(text);
    };
    return event("error",
                 {{"code", or_null(reply.code)}, {"message", error.message()}, {"param", or_null(reply.param)}});
  }

 private:
  OrderedJson in_part(const OrderedJson& more) const {
    OrderedJson out{{"item_id", draft_.item_id()}, {"output_index", 0}, {"content_index", 0}};
    out.update(more);
    return out;
  }

  std::string event(const std::string& type, const OrderedJson& more) {
    OrderedJson out{{"type", type}, {"sequence_number", sequence_++}};
    out.update(more);
    return sse_event(type, to_text(out));
  }

  Draft draft_;
  std::int64_t sequence_ = 0;  // of the next event
};

class ResponsesWhole : public AnswerWriter {
 public:
  ResponsesWhole(AnswerHead head, ResponseFrame frame) : draft_(std::move(head), std::move(frame)) {}

  std::string begin(const AnswerReport&) override { return {}; }
  std::string text(size_t, const AnswerPiece& piece) override {
    draft_.add(piece);
    return {};
  }
  std::string end(size_t, const Ending& ending) override {
    draft_.end(ending);
    return {};
  }
  std::string finish(const AnswerReport& report) override { return to_text(draft_.finished(report)); }
  std::string fail(const ApiError& error) override { return error_body(Dialect::kOpenAi, error); }

 private:
  Draft draft_;
};

}  // namespace

std::unique_ptr<AnswerWriter> responses_stream(AnswerHead head, ResponseFrame frame) {
  return std::make_unique<ResponsesStream>(std::move(head), std::move(frame));
}

std::unique_ptr<AnswerWriter> responses_whole(AnswerHead head, ResponseFrame frame) {
  return std::make_unique<ResponsesWhole>(std::move(head), std::move(frame));
}

}  // namespace kvasir
