#include "api/public_text.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/private_file.h"

namespace kvasir {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kLongestFile = 64 << 20;
constexpr const char* kShape = R"(write {"messages": [{"role": "system", "content": "…"}]})";

Json messages_of(const std::string& text, const std::string& where) {
  const Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded()) fail_input("the file is not JSON", where, kShape);
  if (!json.is_object() || json.size() != 1 || !json.contains("messages") || !json["messages"].is_array() ||
      json["messages"].empty()) {
    fail_input("there must be messages and nothing else", where, kShape);
  }
  for (const Json& message : json["messages"]) {
    const bool good = message.is_object() && message.contains("role") && message["role"].is_string() &&
                      message.contains("content") && message["content"].is_string();
    if (!good) fail_input("each message must have a role and a content, both of text", where, kShape);
  }
  return json["messages"];
}

// Without the assistant's turn: what a conversation goes on with is not known.
std::vector<TokenId> chat_beginning(const Json& messages, const Tokenizer& tokenizer, const ChatTemplate& chat) {
  RenderOptions options;
  options.generation_prompt = GenerationPrompt::kNone;
  options.bos_token = tokenizer.bos_token().value_or("");
  options.eos_token = tokenizer.eos_token().value_or("");
  return encode_chat(tokenizer, chat.render(messages, options));
}

}  // namespace

std::vector<TokenId> read_public_text(const std::filesystem::path& file, const Tokenizer& tokenizer,
                                      const ChatTemplate* chat) {
  const std::string text = read_small_file(file, kLongestFile);
  if (text.empty()) fail_input("the file is empty", file.string());
  if (file.extension() != ".json") return tokenizer.encode_document(text, Tokenizer::Specials::kParse);
  if (chat == nullptr) {
    fail_input("the model has no chat template to make a prompt of messages", file.string(), "give a text file");
  }
  return chat_beginning(messages_of(text, file.string()), tokenizer, *chat);
}

}  // namespace kvasir
