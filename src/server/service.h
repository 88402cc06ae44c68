// Every route, without sockets: an HttpRequest in, a Response out.
//
// handle() may be called from several threads. It parses, renders and tokenizes, which may take a while; then the
// answer grows in the Response's Work.
#pragma once

#include <atomic>
#include <cstdint>
#include <ctime>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "api/loaded_model.h"
#include "engine/engine_thread.h"
#include "eval/canary.h"
#include "server/access/admission.h"
#include "server/access/tenants.h"
#include "server/answer/answer_work.h"
#include "server/answer/call_or_form.h"
#include "server/answer/embed_work.h"
#include "server/answer/prompt_map.h"
#include "server/answer/reasoning_prompt.h"
#include "server/answer/response_format.h"
#include "server/answer/system_prompt.h"
#include "server/answer/tool_prompt.h"
#include "server/api/api_types.h"
#include "server/http/http_types.h"
#include "server/live/live_feed.h"
#include "server/live/plan_question.h"
#include "server/memory_return.h"
#include "server/metrics.h"
#include "server/page/page.h"
#include "server/records.h"
#include "server/response_store.h"

namespace kvasir {

struct EmbedRequest;
struct RerankRequest;
struct ResponsesRequest;

struct ServiceOptions {
  std::string model_name = "kvasir";
  std::int64_t max_queued = 1024;                       // requests beyond those that can run at once
  std::optional<std::int64_t> max_queued_per_tenant{};  // nullopt: half of the places with keys, all without
  Records::Limits kept_records{};                       // of each tenant
  ResponseStore::Limits kept_responses{};
  PromptPrints::Limits kept_prints{};
  std::optional<KeysFile> keys{};  // nullopt: anyone may ask
  enum class MetricsFor { kKeys, kAnyone };
  CanaryConfig canary{};                       // needs room in the engine for canary_policies()
  MetricsFor metrics_for = MetricsFor::kKeys;  // with keys: an operator's sees all, another its own tenant's
  std::string tool_format{};                   // of tool_formats(); empty: as the chat template says
  std::string reasoning_format{};              // of reasoning_formats(), or "none"; empty: as the chat template says
  enum class BlockTexts { kToOwner, kToNobody };
  BlockTexts block_texts = BlockTexts::kToOwner;  // what the page shows of a cached block
  Planner planner{};                              // empty: the page has none
};

class Service {
 public:
  Service(LoadedModel& model, ServiceOptions options);  // the model outlives this

  // Where a request is handled: health at once, and apart what waits for the engine.
  static Lane lane(const HttpRequest& request);

  // Whether a path asks how the server is, or for the page itself: neither needs a key.
  static bool is_health(std::string_view path);
  static constexpr std::string_view kLivePath = "/health/live";  // … or only that it is

  // Sets request.caller and request.tenant from request.key. A reply: the request is turned away. Quick, and needs no
  // body.
  std::optional<HttpReply> identify(HttpRequest& request) const;

  // Never throws for what a client did. A request nobody identified is served only where no key is needed.
  Response handle(const HttpRequest& request);

  // Keys as they are from now on; what already runs goes on. Waits for the engine's next step.
  void set_keys(const KeysFile& keys);

  // Hears of every pause, on the engine's thread.
  void on_pause(OnPreemption listener);

  // Hears of what a request asked for and did not get, on handlers' threads. Set before anybody asks.
  using OnNote = std::function<void(const std::string& request, const std::string& what)>;
  void on_note(OnNote listener) { on_note_ = std::move(listener); }

  // Hears of every step of the engine that failed, on the engine's thread.
  void on_failure(std::function<void(const std::string& why)> listener) { engine_.on_failure(std::move(listener)); }
  bool failing() const { return engine_.failing(); }  // the last one that had something to do

  // Hears of every policy that the canary found too far off, on the engine's thread.
  void on_verdict(Canary::OnVerdict listener);

  Metrics& metrics() { return metrics_; }
  EngineNumbers engine_numbers();
  std::int64_t in_flight() const { return admission_.taken(); }  // requests that the engine has not let go of

  void end_live_streams() { feed_.end(); }  // and those to come: the server drains

 private:
  class Aftermath;
  using Tokens = std::vector<TokenId>;
  using Handler = Response (Service::*)(const HttpRequest&);
  struct Route {
    enum class Match { kExact, kBelow };  // kBelow: the path is the beginning, and a name follows
    const char* method;
    std::string_view path;
    Handler handler;
    Match match = Match::kExact;
    Lane lane = Lane::kHandlers;

    bool fits(std::string_view asked) const {
      return match == Match::kExact ? asked == path : asked.size() > path.size() && asked.starts_with(path);
    }
  };
  // A way to read a chat out of a body, to be gone a second time with marks in its texts.
  struct ChatSource {
    const Json& body;
    std::vector<CacheBreakpoint> breakpoints;
    std::function<ChatRequest(const Json& body)> read;
  };
  // How what the model thinks goes together with the form that its answer is held to.
  enum class Thoughts {
    kUnread,     // the answer is all text: a completion, or one held to its form from its first token on
    kFree,       // they may come, and nothing is held
    kMayBefore,  // they may come, and then the form
    kBefore,     // the prompt has opened them: the form comes behind
  };
  struct RenderedChat {
    std::vector<Piece> pieces;
    Thoughts thoughts = Thoughts::kUnread;
    AnswerBegins begins = AnswerBegins::kBefore;
  };
  // What is to be answered.
  struct AnswerJob {
    std::vector<Tokens> prompts;
    PromptMap map;  // of a chat's only prompt
    Thoughts thoughts = Thoughts::kUnread;
    AnswerBegins begins = AnswerBegins::kBefore;
    AnswerOptions options;
    AnswerHead head;
    std::optional<PromptPrint> print{};  // of a chat's prompt
  };
  // How an API sends an answer: whole, or as a stream that is kept alive by heartbeats.
  struct WireFormat {
    using MakeWriter = std::function<std::unique_ptr<AnswerWriter>(AnswerHead head)>;
    MakeWriter whole;
    MakeWriter stream;
    std::string_view stream_type{};
    std::string_view heartbeat{};
  };

  static constexpr size_t kMostListed = size_t{1} << 17;  // tokens, where the context is smaller

  static std::span<const Route> routes();
  bool needs_key(std::string_view path) const;
  // Whoever identify() found, or everybody where no keys are asked for. Throws ApiError (401).
  std::shared_ptr<const Caller> caller_of(const HttpRequest& request) const;
  void set_shares();
  std::vector<TenantNumbers> tenant_numbers();
  Response dispatch(const HttpRequest& request);

  void check_text(size_t bytes, const std::string& param, size_t slack = 1) const;  // before it is tokenized
  void check_tokens(size_t count, const std::string& param) const;  // before they are listed one by one
  Tokens chat_tokens(const ChatRequest& chat) const;
  Tokens chat_tokens(std::span<const Piece> pieces) const;
  RenderedChat render_chat(const ChatRequest& chat) const;
  RenderOptions render_options(const ChatRequest& chat) const;
  void open_answer(const AnswerOptions& options, RenderedChat& chat) const;
  std::vector<Piece> render(const ChatRequest& chat) const { return render_chat(chat).pieces; }
  void plan_next_turn(const ChatRequest& chat, const RenderedPrompt& rendered, PromptMap& map) const;
  AnswerJob chat_job(const HttpRequest& request, ChatRequest chat, const ChatSource& source) const;
  Tokens prompt_tokens(const Prompt& prompt) const;
  std::optional<ToolReading> tool_reading(const HttpRequest& request, const Toolbox& toolbox) const;
  AnswerReading answer_reading(const HttpRequest& request, const AnswerJob& job) const;
  std::shared_ptr<const TokenConstraint> constraint_of(const AnswerJob& job);
  std::shared_ptr<const CallMarks> call_marks();
  SamplingParams sampling_of(const AnswerOptions& options) const;
  Request engine_request(const AnswerOptions& options) const;
  std::vector<Admission::Ticket> admit(std::int64_t count, const Caller& caller);
  std::vector<ChoiceRequest> choices(AnswerJob& job, const Caller& caller);
  Response begin(const HttpRequest& request, AnswerJob job, const WireFormat& wire);
  std::optional<CacheDiagnosis> diagnose(const AnswerJob& job, const Caller& caller) const;
  void set_head(AnswerJob& job, const char* id_prefix) const;

  static WireFormat openai_wire(OpenAiKind kind);
  std::string echo_of(const Prompt& prompt, const Tokens& tokens) const;
  Response openai_chat(const HttpRequest& request);
  Response openai_completion(const HttpRequest& request);
  Response openai_responses(const HttpRequest& request);
  Response openai_input_tokens(const HttpRequest& request);
  Response kept_response(const HttpRequest& request);
  Response drop_response(const HttpRequest& request);
  OrderedJson conversation(const HttpRequest& request, ResponsesRequest& asked) const;  // settles its references
  Response anthropic_messages(const HttpRequest& request);
  Response anthropic_count(const HttpRequest& request);
  Response ollama_chat(const HttpRequest& request);
  Response ollama_generate(const HttpRequest& request);
  using ReadOllama = std::function<std::variant<ChatRequest, CompletionRequest>(const Json& body)>;
  Response ollama_answer(const HttpRequest& request, OllamaKind kind, const ReadOllama& read);
  Response ollama_load(OllamaKind kind, const Json& body) const;
  OrderedJson ollama_card() const;
  Response ollama_tags(const HttpRequest& request);
  Response ollama_ps(const HttpRequest& request);
  Response ollama_show(const HttpRequest& request);
  Response ollama_version(const HttpRequest& request);

  void check_generates() const;
  Tokens embed_tokens(const EmbedRequest& asked, size_t index) const;
  Response embed(const HttpRequest& request, const EmbedRequest& asked, WriteVectors write);
  Response openai_embeddings(const HttpRequest& request);
  Response ollama_embed(const HttpRequest& request);
  Response ollama_embeddings(const HttpRequest& request);
  EmbedQueue::Text rerank_pair(const RerankRequest& asked, size_t index) const;
  Response rerank(const HttpRequest& request);

  Response tokenize(const HttpRequest& request);
  Response detokenize_tokens(const HttpRequest& request);
  Response apply_template(const HttpRequest& request);

  Response health(const HttpRequest& request);
  Response models(const HttpRequest& request);
  Response model_by_name(const HttpRequest& request);
  Response props(const HttpRequest& request);
  Response slots(const HttpRequest& request);
  Response metrics_page(const HttpRequest& request);
  Response request_record(const HttpRequest& request);

  Response page(const HttpRequest& request);
  OrderedJson live_hello(const Caller& caller) const;
  OrderedJson live_numbers(const Caller& caller);
  Response live(const HttpRequest& request);
  Response block_by_key(const HttpRequest& request);
  Response running_blocks(const HttpRequest& request);
  Response plan_choices(const HttpRequest& request);
  Response plan(const HttpRequest& request);
  OrderedJson model_card() const;

  LoadedModel& model_;
  ServiceOptions options_;
  std::time_t started_ = std::time(nullptr);
  Metrics metrics_;
  MemoryReturn memory_;
  Records records_;
  ResponseStore responses_;
  PromptPrints prints_;
  LiveRequests live_;
  Admission admission_;
  Tenants tenants_;
  size_t longest_token_;  // in bytes
  ResponseFormats formats_;
  ToolDialect tool_dialect_;
  std::once_flag call_marks_once_;
  std::shared_ptr<const CallMarks> call_marks_;  // made when first asked for
  ReasoningDialect reasoning_;
  SystemTurns system_turns_;  // of the chat template
  OnNote on_note_;
  Canary::OnVerdict on_verdict_;  // of the engine's thread, as
  Canary canary_;                 // this
  EmbedQueue embeddings_;         // works on the engine's thread
  EngineThread engine_;           // last but one: what it still tells goes to nobody once this is destroyed
  LiveFeed feed_;                 // asks all of these
};

// A reply with this JSON.
Response json_response(const OrderedJson& json);

}  // namespace kvasir
