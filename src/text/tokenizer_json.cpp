#include "text/tokenizer_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>

#include "base/json_reader.h"
#include "text/tokenizer_parts.h"

namespace kvasir {
namespace {

constexpr JsonFileKind kTokenizerFile{kMaxJsonBytes, "use a tokenizer.json of a supported model"};

TokenId id_from(const JsonReader& value) { return static_cast<TokenId>(value.integer({0, kMaxVocab - 1})); }

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

ModelKind kind_of(const JsonReader& model) {
  const std::optional<JsonReader> type = model.find("type");
  if (!type || type->text() == "BPE") return ModelKind::kBpe;
  if (type->text() == "Unigram") return ModelKind::kUnigram;
  if (type->text() == "WordPiece") return ModelKind::kWordPiece;
  if (type->text() == "WordLevel") return ModelKind::kWordLevel;
  type->fail(fmt::format("is '{}', which is not supported", type->text()), std::string(kSupported));
}

void read_bpe(const JsonReader& model, TokenizerSpec& spec) {
  if (model.find("dropout")) model.fail("has dropout", "set it to null: tokens must not be random");
  if (model.flag_or("ignore_merges", false)) spec.whole_words = TokenizerSpec::WholeWords::kTake;
  spec.fuse_unknown = model.flag_or("fuse_unk", false);
  spec.byte_fallback = model.flag_or("byte_fallback", false);
  spec.continuing_prefix = std::string(model.text_or("continuing_subword_prefix", ""));
  spec.word_suffix = std::string(model.text_or("end_of_word_suffix", ""));
  if (const auto unknown = model.find("unk_token"); unknown && !unknown->text().empty()) {
    spec.unknown_token = std::string(unknown->text());
  }
  read_vocab(model.get("vocab"), spec);
  const JsonReader merges = model.get("merges");
  spec.merges.reserve(merges.items().size());
  for (const JsonReader merge : merges.items()) spec.merges.push_back(merge_from(merge, spec.merges.size()));
}

// [["piece", score], …], by id.
void read_unigram(const JsonReader& model, TokenizerSpec& spec) {
  constexpr double kUnknownPenalty = 10;  // the library's, below the worst score
  const JsonReader vocab = model.get("vocab");
  if (vocab.items().size() > static_cast<size_t>(kMaxVocab)) vocab.fail("has too many entries");
  spec.byte_fallback = model.flag_or("byte_fallback", false);
  double worst = std::numeric_limits<double>::infinity();
  for (const JsonReader entry : vocab.items()) {
    std::vector<JsonReader> pair;
    for (const JsonReader item : entry.items()) pair.push_back(item);
    if (pair.size() != 2) entry.fail("is not a piece and its score");
    spec.vocab.emplace_back(pair[0].text(), static_cast<TokenId>(spec.vocab.size()));
    spec.scores.push_back(pair[1].number());
    worst = std::min(worst, spec.scores.back());
  }
  if (spec.vocab.empty()) vocab.fail("is empty");
  spec.unknown_score = worst - kUnknownPenalty;
  const auto unknown =
      static_cast<size_t>(model.get("unk_id").integer({0, static_cast<std::int64_t>(spec.vocab.size()) - 1}));
  spec.unknown_token = spec.vocab[unknown].first;
}

void read_words(const JsonReader& model, TokenizerSpec& spec) {
  read_vocab(model.get("vocab"), spec);
  const bool word_piece = spec.model == ModelKind::kWordPiece;
  spec.unknown_token = std::string(model.text_or("unk_token", word_piece ? "[UNK]" : "<unk>"));
  if (!word_piece) return;
  spec.continuing_prefix = std::string(model.text_or("continuing_subword_prefix", "##"));
  const auto most = model.find("max_input_chars_per_word");
  spec.most_characters = most ? static_cast<size_t>(most->integer({0, INT32_MAX})) : 100;
}

void read_model(const JsonReader& model, TokenizerSpec& spec) {
  if (spec.model == ModelKind::kBpe) return read_bpe(model, spec);
  if (spec.model == ModelKind::kUnigram) return read_unigram(model, spec);
  read_words(model, spec);
}

// Bytes go to the model as they are where that is all that ByteLevel does.
Spelling spelling_of(const TokenizerSpec& spec, const std::optional<JsonReader>& pretokenizer) {
  const bool plain = spec.model == ModelKind::kBpe && !spec.byte_fallback && spec.continuing_prefix.empty() &&
                     spec.word_suffix.empty();
  const bool spelled = std::ranges::any_of(
      spec.normalizers, [](const NormalizerStep& step) { return std::holds_alternative<SpellBytesStep>(step); });
  const bool bytes = plain && !spelled && pretokenizer && ends_in_byte_level(*pretokenizer);
  return bytes ? Spelling::kByteLevel : Spelling::kPieces;
}

AddedToken added_from(const JsonReader& entry, TokenId id) {
  AddedToken token;
  token.id = id;
  const JsonReader content = entry.get("content");
  token.content = std::string(content.text());
  if (token.content.size() > kMaxAddedTokenBytes) content.fail("is too long");
  token.special = entry.flag_or("special", false);
  token.single_word = entry.flag_or("single_word", false);
  token.lstrip = entry.flag_or("lstrip", false);
  token.rstrip = entry.flag_or("rstrip", false);
  token.normalized = entry.flag_or("normalized", !token.special);
  return token;
}

void read_added(const JsonReader& list, TokenizerSpec& spec) {
  if (list.items().size() > static_cast<size_t>(kMaxVocab)) list.fail("has too many entries");
  for (const JsonReader entry : list.items()) spec.added.push_back(added_from(entry, id_from(entry.get("id"))));
}

// {"32000": {"content": "<mask>", …}, …}
std::vector<AddedToken> configured_tokens(const JsonReader& config) {
  std::vector<AddedToken> added;
  const std::optional<JsonReader> list = config.find("added_tokens_decoder");
  if (!list) return added;
  if (list->members().size() > static_cast<size_t>(kMaxVocab)) list->fail("has too many entries");
  for (const auto [key, entry] : list->members()) {
    TokenId id = -1;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (error != std::errc() || end != key.data() + key.size() || id < 0 || id >= kMaxVocab)
      list->fail(fmt::format("has the key '{}', which is no id", key.substr(0, 40)));
    added.push_back(added_from(entry, id));
  }
  return added;
}

std::optional<bool> flag_if(const JsonReader& config, std::string_view key) {
  const std::optional<JsonReader> field = config.find(key);
  return field ? std::optional<bool>(field->flag()) : std::nullopt;
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
  TokenizerSpec spec;
  spec.model =
      kind_of(model);  // first of all: in the rest of another model's file the errors would be beside the point
  if (const auto added = root.find("added_tokens")) read_added(*added, spec);
  if (const auto normalizer = root.find("normalizer")) spec.normalizers = read_normalizer(*normalizer);
  read_model(model, spec);
  const std::optional<JsonReader> pretokenizer = root.find("pre_tokenizer");
  spec.spelling = spelling_of(spec, pretokenizer);
  if (pretokenizer) spec.pretokenizers = read_pretokenizer(*pretokenizer, spec.spelling);
  if (const auto processor = root.find("post_processor")) {
    Surroundings around = read_post_processor(*processor);
    spec.before = std::move(around.before);
    spec.after = std::move(around.after);
    spec.pair = std::move(around.pair);
  }
  if (const auto decoder = root.find("decoder")) {
    spec.decoder = read_decoder(*decoder);
  } else if (spec.spelling == Spelling::kByteLevel) {
    spec.decoder = {ByteLevelDecode{}};
  } else {
    spec.decoder = {JoinDecode{}};
  }
  return spec;
}

TokenizerConfig parse_tokenizer_config(std::string_view json, const std::string& where) {
  const JsonDocument document(json, where, kTokenizerFile);
  const JsonReader root = document.root();
  return {token_text(root, "bos_token"),  token_text(root, "eos_token"),  template_from(root),
          flag_if(root, "add_bos_token"), flag_if(root, "add_eos_token"), configured_tokens(root)};
}

}  // namespace kvasir
