#include "text/tokenizer_json.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "text/json_reader.h"
#include "text/tokenizer_parts.h"

namespace kvasir {
namespace {

TokenId id_from(const JsonRef& value) {
  const std::int64_t id = value.integer();
  if (id < 0 || id >= kMaxVocab) value.fail(fmt::format("is {}: ids must be at least 0 and below {}", id, kMaxVocab));
  return static_cast<TokenId>(id);
}

void refuse_text(const JsonRef& model, std::string_view key) {
  const std::optional<JsonRef> field = model.find(key);
  if (field && !field->text().empty()) field->fail("is not supported", "byte-level and SentencePiece BPE have none");
}

void read_vocab(const JsonRef& vocab, TokenizerSpec& spec) {
  spec.vocab.reserve(vocab.object().size());
  size_t index = 0;
  for (const auto field : vocab.object()) {
    const JsonRef value = vocab.element(field.value, index++);
    spec.vocab.emplace_back(field.key, id_from(value));
  }
  if (spec.vocab.size() > static_cast<size_t>(kMaxVocab)) vocab.fail("has too many entries");
}

// "a b" or ["a", "b"].
TokenizerSpec::Merge merge_from(const JsonRef& value, size_t rank) {
  if (value.is_text()) {
    const std::string_view text = value.text();
    const size_t space = text.find(' ');
    if (space == std::string_view::npos || text.find(' ', space + 1) != std::string_view::npos) {
      value.fail("must be two tokens with a space between them");
    }
    return {std::string(text.substr(0, space)), std::string(text.substr(space + 1)), static_cast<std::int32_t>(rank)};
  }
  std::vector<std::string> parts;
  for (const auto part : value.array()) parts.emplace_back(value.element(part, parts.size()).text());
  if (parts.size() != 2) value.fail("must be two tokens");
  return {std::move(parts[0]), std::move(parts[1]), static_cast<std::int32_t>(rank)};
}

// First of all: in the rest of another model's file the errors would be beside the point.
void check_type(const JsonRef& model) {
  const std::optional<JsonRef> type = model.find("type");
  if (type && type->text() != "BPE") {
    type->fail(fmt::format("is '{}', which is not supported", type->text()), "only BPE models are");
  }
}

void read_model(const JsonRef& model, TokenizerSpec& spec) {
  if (model.find("dropout")) model.fail("has dropout", "set it to null: tokens must not be random");
  refuse_text(model, "continuing_subword_prefix");
  refuse_text(model, "end_of_word_suffix");
  spec.ignore_merges = model.flag_or("ignore_merges", false);
  spec.fuse_unknown = model.flag_or("fuse_unk", false);
  if (const auto unknown = model.find("unk_token"); unknown && !unknown->text().empty()) {
    spec.unknown_token = std::string(unknown->text());
  }
  read_vocab(model.get("vocab"), spec);
  const JsonRef merges = model.get("merges");
  spec.merges.reserve(merges.array().size());
  for (const auto merge : merges.array()) {
    const size_t rank = spec.merges.size();
    spec.merges.push_back(merge_from(merges.element(merge, rank), rank));
  }
}

void read_added(const JsonRef& list, TokenizerSpec& spec) {
  for (const auto value : list.array()) {
    const JsonRef entry = list.element(value, spec.added.size());
    AddedToken token;
    token.id = id_from(entry.get("id"));
    const JsonRef content = entry.get("content");
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

std::optional<std::string> token_text(const JsonRef& config, std::string_view key) {
  const std::optional<JsonRef> field = config.find(key);
  if (!field) return std::nullopt;
  return std::string(field->is_object() ? field->get("content").text() : field->text());
}

// A string, or a list of {"name", "template"}.
std::optional<std::string> template_from(const JsonRef& config) {
  const std::optional<JsonRef> field = config.find("chat_template");
  if (!field) return std::nullopt;
  if (field->is_text()) return std::string(field->text());
  size_t index = 0;
  for (const auto value : field->array()) {
    const JsonRef entry = field->element(value, index++);
    if (entry.get("name").text() == "default") return std::string(entry.get("template").text());
  }
  return std::nullopt;
}

void check_size(std::string_view json, const std::string& where) {
  if (json.size() > kMaxJsonBytes) {
    fail_input(fmt::format("has {} bytes, more than the {} that are read", json.size(), kMaxJsonBytes), where,
               "use a tokenizer.json of a supported model");
  }
}

}  // namespace

TokenizerSpec parse_tokenizer_json(std::string_view json, const std::string& where) {
  check_size(json, where);
  const JsonDocument document(json, where);
  const JsonRef root = document.root();
  const JsonRef model = root.get("model");
  check_type(model);
  TokenizerSpec spec;
  if (const auto added = root.find("added_tokens")) read_added(*added, spec);
  if (const auto normalizer = root.find("normalizer")) spec.normalizers = read_normalizer(*normalizer);
  spec.spelling = model.flag_or("byte_fallback", false) ? Spelling::kPieces : Spelling::kByteLevel;
  const bool pieces = spec.spelling == Spelling::kPieces;
  const std::optional<JsonRef> pretokenizer = root.find("pre_tokenizer");
  if (pretokenizer) {
    spec.pretokenizers = read_pretokenizer(*pretokenizer, spec.spelling);
  } else if (!pieces) {
    root.fail("there is no pre_tokenizer and no byte_fallback", std::string(kSupported));
  }
  if (const auto processor = root.find("post_processor")) {
    Surroundings around = read_post_processor(*processor);
    spec.before = std::move(around.before);
    spec.after = std::move(around.after);
  }
  const std::optional<JsonRef> decoder = root.find("decoder");
  if (decoder) spec.leading_spaces = read_decoder(*decoder, spec.spelling);
  if (!decoder && pieces) root.fail("there is byte_fallback and no decoder");
  read_model(model, spec);
  return spec;
}

TokenizerConfig parse_tokenizer_config(std::string_view json, const std::string& where) {
  check_size(json, where);
  const JsonDocument document(json, where);
  const JsonRef root = document.root();
  return {token_text(root, "bos_token"), token_text(root, "eos_token"), template_from(root)};
}

}  // namespace kvasir
