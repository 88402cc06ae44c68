// OpenAI's responses: the answers, and those that were kept.
#include <fmt/format.h>

#include <limits>
#include <map>
#include <utility>

#include "server/api/api_error.h"
#include "server/api/parse_common.h"
#include "server/api/responses_parse.h"
#include "server/api/responses_writer.h"
#include "server/http/sse.h"
#include "server/service.h"

namespace kvasir {
namespace {

constexpr std::string_view kPath = "/v1/responses/";
constexpr std::string_view kInputItems = "/input_items";

[[noreturn]] void no_response(const std::string& id, const std::string& param, size_t kept) {
  throw ApiError(
      {.status = 404, .type = "not_found_error", .param = param, .code = "response_not_found"},
      fmt::format("there is no response '{}'; the last {} that were not sent with \"store\": false are kept "
                  "while there is room",
                  excerpt(id, 100), kept));
}

// What the store keeps was written here, of what a request within the limits said: its room is bounded there.
OrderedJson kept_json(const std::string& text) {
  constexpr std::int64_t kAny = std::numeric_limits<std::int64_t>::max();
  return OrderedJson(parse_json(text, {.depth = 96, .values = kAny, .containers = kAny}));
}

// A body that holds its whole conversation, for the marks in its texts.
Json with_items(const Json& body, const std::string& instructions, const OrderedJson& items) {
  Json out{{"instructions", instructions}, {"input", items}};
  for (const char* name : {"prompt_cache_options", "prompt_cache_retention"}) {
    if (body.contains(name)) out[name] = body[name];
  }
  return out;
}

// What a response put out is named by its id here, and stands there. Each response is read once, and each of its
// items may be named once: what a request holds is bounded by what is kept.
class NamedItems {
 public:
  NamedItems(const ResponseStore& store, std::uint32_t tenant) : store_(store), tenant_(tenant) {}

  OrderedJson take(const std::string& id, size_t index) {
    const std::string param = fmt::format("input[{}].id", index);
    if (++asked_ > kMost) bad_param(param, fmt::format("input names items by their ids; name at most {} so", kMost));
    const auto kept = store_.with_item(tenant_, id);
    if (!kept) {
      throw ApiError({.status = 404, .type = "not_found_error", .param = param, .code = "item_not_found"},
                     fmt::format("there is no item '{}' in the responses that are kept; send the item itself",
                                 excerpt(id, 100)));
    }
    const auto [at, is_new] = outputs_.try_emplace(kept->id);
    if (is_new) at->second = kept_json(kept->output);
    for (OrderedJson& item : at->second) {
      if (item.is_object() && item["id"] == id) return std::exchange(item, nullptr);
    }
    bad_param(param, fmt::format("input names the item '{}' twice", excerpt(id, 100)));
  }

 private:
  static constexpr size_t kMost = 4096;
  const ResponseStore& store_;
  std::uint32_t tenant_;
  size_t asked_ = 0;
  std::map<std::string, OrderedJson> outputs_;  // by response; null: was taken
};

std::vector<std::string> ids_of(const OrderedJson& items) {
  std::vector<std::string> out;
  for (const OrderedJson& item : items) out.push_back(item["id"].get<std::string>());
  return out;
}

}  // namespace

OrderedJson Service::conversation(const HttpRequest& request, ResponsesRequest& asked) const {
  const std::uint32_t tenant = caller_of(request)->id;
  NamedItems named(responses_, tenant);
  for (size_t i = 0; i < asked.items.size(); ++i) {
    OrderedJson& item = asked.items[i];
    if (item["type"] == "item_reference") item = named.take(item["id"].get<std::string>(), i);
  }
  if (asked.previous.empty()) return asked.items;
  const auto previous = responses_.find(tenant, asked.previous);
  if (!previous) no_response(asked.previous, "previous_response_id", options_.kept_responses.responses);
  OrderedJson items = kept_json(previous->items);
  const OrderedJson output = kept_json(previous->output);
  items.insert(items.end(), output.begin(), output.end());
  items.insert(items.end(), asked.items.begin(), asked.items.end());
  return items;
}

Response Service::openai_responses(const HttpRequest& request) {
  const Json body = parse_json(request.body);
  ResponsesRequest asked = parse_responses(body);
  const OrderedJson items = conversation(request, asked);
  asked.chat.messages = messages_of(asked.instructions, items);
  const Json whole = with_items(body, asked.instructions, items);
  const auto read_chat = [&](const Json& marked) {
    ChatRequest chat = asked.chat;
    chat.messages = messages_of(marked["instructions"], marked["input"]);
    return chat;
  };
  AnswerJob job = chat_job(request, asked.chat, {whole, openai_cache_breakpoints(whole, "input"), read_chat});
  set_head(job, "resp_");
  const SamplingParams sampling = sampling_of(asked.chat.options);
  asked.settings["temperature"] = as_written(sampling.temperature);
  asked.settings["top_p"] = as_written(sampling.top_p);
  ResponseFrame frame{std::move(asked.settings), nullptr, asked.seal};
  for (const Toolbox::Tool& tool : asked.chat.options.toolbox.tools) {
    if (!tool.space.empty()) frame.spaces[tool.name] = tool.space;
  }
  if (asked.store) {
    frame.keep = [this, tenant = caller_of(request)->id, items = to_text(items)](const OrderedJson& response) {
      responses_.add(tenant, {response["id"].get<std::string>(), to_text(response), items,
                              to_text(response["output"]), ids_of(response["output"])});
    };
  }
  return begin(
      request, std::move(job),
      {[&](AnswerHead head) { return responses_whole(std::move(head), std::move(frame)); },
       [&](AnswerHead head) { return responses_stream(std::move(head), std::move(frame)); }, kSseType, kSsePing});
}

Response Service::openai_input_tokens(const HttpRequest& request) {
  ResponsesRequest asked = parse_responses_count(parse_json(request.body));
  asked.chat.messages = messages_of(asked.instructions, conversation(request, asked));
  return json_response({{"object", "response.input_tokens"}, {"input_tokens", chat_tokens(asked.chat).size()}});
}

Response Service::kept_response(const HttpRequest& request) {
  std::string id = request.path.substr(kPath.size());
  const bool of_items = id.ends_with(kInputItems);
  if (of_items) id.resize(id.size() - kInputItems.size());
  const auto kept = responses_.find(caller_of(request)->id, id);
  if (!kept) no_response(id, "response_id", options_.kept_responses.responses);
  if (!of_items) {
    Response response;
    response.reply.body = kept->response;
    return response;
  }
  OrderedJson items = kept_json(kept->items);
  OrderedJson first = items.front()["id"];
  OrderedJson last = items.back()["id"];
  return json_response({{"object", "list"},
                        {"data", std::move(items)},
                        {"first_id", std::move(first)},
                        {"last_id", std::move(last)},
                        {"has_more", false}});
}

Response Service::drop_response(const HttpRequest& request) {
  const std::string id = request.path.substr(kPath.size());
  if (!responses_.remove(caller_of(request)->id, id))
    no_response(id, "response_id", options_.kept_responses.responses);
  return json_response({{"id", id}, {"object", "response"}, {"deleted", true}});
}

}  // namespace kvasir
