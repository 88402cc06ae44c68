#include "text/chat_template.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "text/jinja/evaluator.h"
#include "text/jinja/parser.h"
#include "text/jinja/runtime.h"

namespace kvasir {
namespace {

using jinja::MarkedString;
using jinja::Runtime;
using jinja::Value;
using Json = nlohmann::ordered_json;

constexpr size_t kLongestTemplate = size_t{1} << 20;

// Templates build special tokens from these ("<|" + role + "|>"), and an API takes no others.
bool is_known_role(std::string_view role) {
  static constexpr std::array<std::string_view, 8> kRoles{"system",    "user",     "assistant", "tool",
                                                          "developer", "function", "ipython",   "model"};
  return std::ranges::find(kRoles, role) != kRoles.end();
}

Value user_text(Runtime& runtime, const std::string& text) {
  return runtime.string(MarkedString(text, Origin::kUser));
}

// A value of the request. nlohmann's parser does not bound the nesting, so it is bounded here.
Value from_json(Runtime& runtime, const Json& json, int nesting = 0) {
  if (nesting >= jinja::kMaxNesting) runtime.fail("the request nests too deeply", "send flatter messages");
  switch (json.type()) {
    case Json::value_t::null:
      return Value::none();
    case Json::value_t::boolean:
      return Value::boolean(json.get<bool>());
    case Json::value_t::number_integer:
      return Value::integer(json.get<std::int64_t>());
    case Json::value_t::number_unsigned:
      if (json.get<std::uint64_t>() > INT64_MAX) return Value::real(json.get<double>());
      return Value::integer(json.get<std::int64_t>());
    case Json::value_t::number_float:
      return Value::real(json.get<double>());
    case Json::value_t::string:
      return user_text(runtime, json.get_ref<const std::string&>());
    case Json::value_t::array: {
      std::vector<Value> items;
      for (const Json& item : json) items.push_back(from_json(runtime, item, nesting + 1));
      return runtime.list(std::move(items));
    }
    case Json::value_t::object: {
      std::vector<std::pair<Value, Value>> items;
      for (const auto& [key, item] : json.items()) {
        items.emplace_back(user_text(runtime, key), from_json(runtime, item, nesting + 1));
      }
      return runtime.dict(items);
    }
    default:
      runtime.fail("the request holds a value that is no JSON");
  }
}

Value from_message(Runtime& runtime, const Json& message) {
  if (!message.is_object()) return from_json(runtime, message, 1);
  std::vector<std::pair<Value, Value>> items;
  for (const auto& [key, item] : message.items()) {
    const bool role = key == "role" && item.is_string() && is_known_role(item.get_ref<const std::string&>());
    items.emplace_back(user_text(runtime, key),
                       role ? Value::literal(item.get_ref<const std::string&>()) : from_json(runtime, item, 2));
  }
  return runtime.dict(items);
}

jinja::Variables variables_of(Runtime& runtime, const Json& messages, const RenderOptions& options) {
  std::vector<Value> list;
  for (const Json& message : messages) list.push_back(from_message(runtime, message));
  jinja::Variables variables{{"documents", Value::none()}};
  // Variables of the request come first, so that they cannot take the place of what follows.
  for (const auto& [name, value] : options.variables.items()) variables.emplace_back(name, from_json(runtime, value));
  variables.emplace_back("messages", runtime.list(std::move(list)));
  variables.emplace_back("tools", from_json(runtime, options.tools));
  variables.emplace_back("bos_token", Value::literal(options.bos_token));
  variables.emplace_back("eos_token", Value::literal(options.eos_token));
  variables.emplace_back("add_generation_prompt",
                         Value::boolean(options.generation_prompt == GenerationPrompt::kAdd));
  return variables;
}

std::vector<Piece> pieces_of(const MarkedString& text) {
  std::vector<Piece> pieces;
  size_t done = 0;
  const auto add = [&](size_t end, Origin origin) {
    if (done < end) pieces.push_back({text.text().substr(done, end - done), origin});
    done = end;
  };
  for (const TextRange& user : text.user()) {
    add(user.begin, Origin::kTemplate);
    add(user.end, Origin::kUser);
  }
  add(text.size(), Origin::kTemplate);
  return pieces;
}

}  // namespace

ChatTemplate::ChatTemplate(std::string_view source, std::string where) {
  if (source.size() > kLongestTemplate) {
    fail_input(fmt::format("a chat template of {} bytes is too long", source.size()), std::move(where));
  }
  template_ = std::make_shared<const jinja::Template>(jinja::parse(source, std::move(where)));
}

std::vector<Piece> ChatTemplate::render(const nlohmann::ordered_json& messages, const RenderOptions& options) const {
  Runtime runtime(template_->where, options.limits, options.now.value_or(std::time(nullptr)));
  if (!messages.is_array()) runtime.fail("the messages must be a list");
  return pieces_of(jinja::evaluate(*template_, runtime, variables_of(runtime, messages, options)));
}

std::vector<Piece> ChatTemplate::render(std::span<const ChatMessage> messages, const RenderOptions& options) const {
  Json list = Json::array();
  for (const ChatMessage& message : messages) list.push_back({{"role", message.role}, {"content", message.content}});
  return render(list, options);
}

std::vector<TokenId> encode_chat(const Tokenizer& tokenizer, std::span<const Piece> pieces) {
  std::vector<Tokenizer::TextPiece> texts;
  for (const Piece& piece : pieces) {
    const bool ours = piece.origin == Origin::kTemplate;
    texts.push_back({piece.text, ours ? Tokenizer::Specials::kParse : Tokenizer::Specials::kPlain});
  }
  return tokenizer.encode(texts);
}

std::string text_of(std::span<const Piece> pieces) {
  std::string out;
  for (const Piece& piece : pieces) out += piece.text;
  return out;
}

}  // namespace kvasir
