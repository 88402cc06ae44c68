#include "text/tokenizer_json.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/json_reader.h"
#include "text/tokenizer_parts.h"

namespace kvasir {
namespace {

constexpr JsonFileKind kTokenizerFile{kMaxJsonBytes, "use a tokenizer.json of a supported model"};

TokenId id_from(const JsonReader& value) { return static_cast<TokenId>(value.integer({0, kMaxVocab - 1})); }

void refuse_text(const JsonReader& model, std::string_view key) {
  const std::optional<JsonReader> field = model.find(key);
  if (field && !field->text().empty()) field->fail("is not supported", "byte-level and SentencePiece BPE have none");
}

void read_vocab(const JsonReader& vocab, TokenizerSpec& spec) {
  spec.vocab.reserve(vocab.members().size());
  for (const auto [spelled, id] : vocab.members()) spec.vocab.emplace_back(spelled, id_from(id));
  if (spec.vocab.size() > static_cast<size_t>(kMaxVocab)) vocab.fail("has too many entries");
}

// "a b" or ["a", "b"].
TokenizerSpec::Merge merge_from(const JsonReader& value, size_t rank) {
  if (value.is_text()) {
    const std::string_view text = value.text();
    const size_t space = text.find(' ');
    if (space == std::string_view::npos || text.find(' ', space + 1) != std::string_view::npos) {
      value.fail("is not two tokens with a space between them");
    }
    return {std::string(text.substr(0, space)), std::string(text.substr(space + 1)), static_cast<std::int32_t>(rank)};
  }
  std::vector<std::string> parts;
  for (const JsonReader part : value.items()) parts.emplace_back(part.text());
  if (parts.size() != 2) value.fail("is not two tokens");
  return {std::move(parts[0]), std::move(parts[1]), static_cast<std::int32_t>(rank)};
}

// First of all: in the rest of another model's file the errors would be beside the point.
void check_type(const JsonReader& model) {
  const std::optional<JsonReader> type = model.find("type");
  if (type && type->text() != "BPE") {
    type->fail(fmt::format("is '{}', which is not supported", type->text()), "only BPE models are");
  }
}

void read_model(const JsonReader& model, TokenizerSpec& spec) {
  if (model.find("dropout")) model.fail("has dropout", "set it to null: tokens must not be random");
  refuse_text(model, "continuing_subword_prefix");
  refuse_text(model, "end_of_word_suffix");
  spec.ignore_merges = model.flag_or("ignore_merges", false);
  spec.fuse_unknown = model.flag_or("fuse_unk", false);
  if (const auto unknown = model.find("unk_token"); unknown && !unknown->text().empty()) {
    spec.unknown_token = std::string(unknown->text());
  }
  read_vocab(model.get("vocab"), spec);
  const JsonReader merges = model.get("merges");
  spec.merges.reserve(merges.items().size());
  for (const JsonReader merge : merges.items()) spec.merges.push_back(merge_from(merge, spec.merges.size()));
}

void read_added(const JsonReader& list, TokenizerSpec& spec) {
  for (const JsonReader entry : list.items()) {
    AddedToken token;
    token.id = id_from(entry.get("id"));
    const JsonReader content = entry.get("content");
    token.content = std::string(content.text());
    if (token.content.size() > kMaxAddedTokenBytes) content.fail("is too long");
    token.special = entry.flag_or("special", false);
    token.single_word = entry.flag_or("single_word", false);
    token.lstrip = entry.flag_or("lstrip", false);
    token.rstrip = entry.flag_or("rstrip", false);
    token.normalized = entry.flag_or("normalized", !token.special);
    spec.added.push_back(std::move(token));
    if (spec.added.size() > static_cast<size_t>(kMaxVocab)) list.fail("has too many entries");
  }
}

std::optional<std::string> token_text(const JsonReader& config, std::string_view key) {
  const std::optional<JsonReader> field = config.find(key);
  if (!field) return std::nullopt;
  return std::string(field->is_object() ? field->get("content").text() : field->text());
}

// A string, or a list of {"name", "template"}.
std::optional<std::string> template_from(const JsonReader& config) {
  const std::optional<JsonReader> field = config.find("chat_template");
  if (!field) return std::nullopt;
  if (field->is_text()) return std::string(field->text());
  for (const JsonReader entry : field->items()) {
    if (entry.get("name").text() == "default") return std::string(entry.get("template").text());
  }
  return std::nullopt;
}

}  // namespace

TokenizerSpec parse_tokenizer_json(std::string_view json, const std::string& where) {
  const JsonDocument document(json, where, kTokenizerFile);
  const JsonReader root = document.root();
  const JsonReader model = root.get("model");
  check_type(model);
  TokenizerSpec spec;
  if (const auto added = root.find("added_tokens")) read_added(*added, spec);
  if (const auto normalizer = root.find("normalizer")) spec.normalizers = read_normalizer(*normalizer);
  const std::optional<JsonReader> pretokenizer = root.find("pre_tokenizer");
  const std::optional<JsonReader> decoder = root.find("decoder");
  const bool byte_level =
      (pretokenizer && has_part(*pretokenizer, "ByteLevel")) || (decoder && has_part(*decoder, "ByteLevel"));
  spec.byte_fallback = model.flag_or("byte_fallback", false);
  spec.spelling = byte_level && !spec.byte_fallback ? Spelling::kByteLevel : Spelling::kPieces;
  if (pretokenizer) {
    spec.pretokenizers = read_pretokenizer(*pretokenizer, spec.spelling);
  } else if (byte_level) {
    root.fail_inside("there is no pre_tokenizer", std::string(kSupported));
  }
  if (const auto processor = root.find("post_processor")) {
    Surroundings around = read_post_processor(*processor);
    spec.before = std::move(around.before);
    spec.after = std::move(around.after);
  }
  if (decoder) read_decoder(*decoder, spec);
  if (!decoder && spec.spelling == Spelling::kPieces) {
    root.fail_inside("there is neither a decoder nor ByteLevel", std::string(kSupported));
  }
  read_model(model, spec);
  return spec;
}

TokenizerConfig parse_tokenizer_config(std::string_view json, const std::string& where) {
  const JsonDocument document(json, where, kTokenizerFile);
  const JsonReader root = document.root();
  return {token_text(root, "bos_token"), token_text(root, "eos_token"), template_from(root)};
}

}  // namespace kvasir
