#include "text/gguf_export.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "base/error.h"
#include "text/gguf_pretokenizer.h"
#include "text/pieces.h"
#include "text/tokenizer_source.h"

namespace kvasir {
namespace {

class Exporter {
 public:
  Exporter(const TokenizerSpec& spec, const std::string& where) : spec_(spec) { out_.where = where; }

  GgufVocab run(int size) {
    if (spec_.model == ModelKind::kWordLevel) fail("GGUF has no place for WordLevel");
    read_tokens(size);
    if (spec_.model == ModelKind::kUnigram) {
      read_unigram();
    } else if (spec_.model == ModelKind::kWordPiece) {
      read_word_piece();
    } else if (spec_.spelling == Spelling::kPieces) {
      read_pieces();
    } else {
      read_byte_level();
    }
    out_.bos_token_id = only(spec_.before, "before");
    out_.add_bos_token = out_.bos_token_id.has_value();
    const std::optional<std::int64_t> last = only(spec_.after, "after");
    if (spec_.model == ModelKind::kWordPiece) {
      out_.seperator_token_id = last;
      out_.add_sep_token = last.has_value();
    } else {
      out_.eos_token_id = last;
      out_.add_eos_token = last.has_value();
    }
    return std::move(out_);
  }

 private:
  [[noreturn]] void fail(std::string what) const {
    fail_input(std::move(what), out_.where, "use the folder as it is, or another tokenizer");
  }

  bool ignores_merges() const { return spec_.whole_words == TokenizerSpec::WholeWords::kTake; }

  void read_byte_level() {
    if (!spec_.normalizers.empty()) fail("GGUF has no place for the normalizer of byte-level BPE");
    out_.model = "gpt2";
    out_.pre = pretokenizer();
    for (const TokenizerSpec::Merge& merge : spec_.merges) out_.merges.push_back(merge.left + ' ' + merge.right);
  }

  void name_unknown() {
    for (const auto& [text, id] : spec_.vocab) {
      if (text == spec_.unknown_token) out_.unknown_token_id = id;
    }
    for (const AddedToken& added : spec_.added) {
      if (added.content == spec_.unknown_token) out_.unknown_token_id = added.id;
    }
    if (!out_.unknown_token_id) return;
    out_.token_type[static_cast<size_t>(*out_.unknown_token_id)] = GgufVocab::kUnknown;
  }

  // SentencePiece's own: a table, or none, and then marks for spaces.
  void read_unigram() {
    out_.model = "t5";
    if (spec_.byte_fallback) fail("GGUF has no place for unigram models with byte_fallback");
    const auto& steps = spec_.normalizers;
    const auto* table = steps.empty() ? nullptr : std::get_if<CharsmapStep>(&steps.front());
    const auto* spaces = steps.empty() ? nullptr : std::get_if<SpaceMarksStep>(&steps.back());
    const bool known = spaces != nullptr && spaces->prefix == SpaceMarksStep::Prefix::kText &&
                       spaces->extra == SpaceMarksStep::Extra::kRemove && steps.size() == (table != nullptr ? 2 : 1);
    if (!known || !spec_.pretokenizers.empty()) fail("GGUF has no place for what this tokenizer does with spaces");
    if (table != nullptr) out_.precompiled_charsmap = table->map->bytes();
    out_.add_space_prefix = out_.remove_extra_whitespaces = true;
    out_.scores.assign(out_.tokens.size(), 0);
    for (size_t i = 0; i < spec_.vocab.size(); ++i)
      out_.scores[static_cast<size_t>(spec_.vocab[i].second)] = static_cast<float>(spec_.scores[i]);
    name_unknown();
  }

  // What begins a word gets a mark, and what continues it loses its prefix.
  void read_word_piece() {
    out_.model = "bert";
    const bool lowercase = is_bert_normalizer();
    out_.lowercase = out_.strip_accents = lowercase;
    if (spec_.pretokenizers.size() != 2 || !same_splits(bert_splits(out_.where)))
      fail("GGUF has no place for a WordPiece whose pre-tokenizer is not BertPreTokenizer");
    if (spec_.continuing_prefix.empty()) fail("GGUF has no place for a WordPiece without a prefix");
    std::unordered_set<std::string_view> special;
    for (const AddedToken& added : spec_.added) special.insert(added.content);
    for (const auto& [text, id] : spec_.vocab) {
      if (special.contains(text)) continue;
      const bool continues = text.starts_with(spec_.continuing_prefix);
      std::string& token = out_.tokens[static_cast<size_t>(id)];
      token = continues ? text.substr(spec_.continuing_prefix.size()) : std::string(kSpaceMark) + text;
      if (token.empty()) fail(fmt::format("the token {} is a prefix and nothing more", id));
    }
    name_unknown();
  }

  bool same_splits(const std::vector<Pretokenizer::Step>& wanted) const {
    return std::ranges::equal(spec_.pretokenizers, wanted, [](const auto& a, const auto& b) {
      const auto* left = std::get_if<SplitStep>(&a);
      const auto* right = std::get_if<SplitStep>(&b);
      return left != nullptr && right != nullptr && left->pattern.pattern() == right->pattern.pattern() &&
             left->behavior == right->behavior && left->matches == right->matches;
    });
  }

  // Whether it makes letters small and takes accents away, all or nothing.
  bool is_bert_normalizer() const {
    const auto& steps = spec_.normalizers;
    const bool clean = steps.size() >= 2 && std::holds_alternative<CleanTextStep>(steps[0]) &&
                       std::holds_alternative<SpaceChineseStep>(steps[1]);
    const bool small = steps.size() == 5 && std::holds_alternative<StripAccentsStep>(steps[3]) &&
                       std::holds_alternative<LowercaseStep>(steps[4]);
    if (!clean || (steps.size() != 2 && !small)) fail("GGUF has no place for the normalizer of this WordPiece");
    return small;
  }

  // SentencePiece's merges were made of scores, and become scores again. Each token's merges come together, and no
  // token that two others spell is without one: else what they say cannot be said with scores.
  void read_pieces() {
    out_.model = "llama";
    out_.add_space_prefix = puts_space_first();
    if (!spec_.byte_fallback) fail("GGUF has no place for pieces without byte_fallback");
    if (!spec_.continuing_prefix.empty() || !spec_.word_suffix.empty())
      fail("GGUF has no place for prefixes and suffixes of BPE");
    if (ignores_merges()) fail("GGUF has no place for ignore_merges with byte_fallback");
    std::unordered_map<std::string, float> scores;
    std::string last;
    std::vector<TokenizerSpec::Merge> merges = spec_.merges;
    std::ranges::stable_sort(merges, {}, &TokenizerSpec::Merge::rank);
    for (const TokenizerSpec::Merge& merge : merges) {
      std::string made = merge.left + merge.right;
      if (made == last) continue;
      const auto next = -static_cast<float>(scores.size());
      if (!scores.emplace(made, next).second) fail("the merges are not in the order of scores");
      last = std::move(made);
    }
    const auto lowest = -static_cast<float>(scores.size());
    out_.scores.assign(out_.tokens.size(), lowest);
    for (const auto& [text, id] : spec_.vocab) {
      const auto found = scores.find(text);
      if (found != scores.end()) {
        out_.scores[static_cast<size_t>(id)] = found->second;
      } else if (byte_of_piece(text)) {
        out_.token_type[static_cast<size_t>(id)] = GgufVocab::kByte;
      }
    }
    name_unknown();
    check_spellings(scores);
  }

  void check_spellings(const std::unordered_map<std::string, float>& merged) const {
    std::unordered_set<std::string_view> plain;
    for (size_t i = 0; i < out_.tokens.size(); ++i) {
      if (out_.token_type[i] == GgufVocab::kNormal) plain.insert(out_.tokens[i]);
    }
    for (const std::string_view token : plain) {
      if (merged.contains(std::string(token))) continue;
      for (size_t cut = 1; cut < token.size(); ++cut) {
        if (plain.contains(token.substr(0, cut)) && plain.contains(token.substr(cut)))
          fail(fmt::format("two tokens spell '{}', and no merge says so", token));
      }
    }
  }

  // Whether a space comes before every text. Only the form that Llama 2 has is what readers of GGUF do.
  bool puts_space_first() const {
    const auto marks_spaces = [](const NormalizerStep& step) {
      if (const auto* spaces = std::get_if<SpaceMarksStep>(&step))
        return spaces->prefix == SpaceMarksStep::Prefix::kNever && spaces->extra == SpaceMarksStep::Extra::kKeep;
      const auto* replace = std::get_if<ReplaceStep>(&step);
      return replace != nullptr && replace->pattern == " " && replace->content == kSpaceMark;
    };
    const auto& steps = spec_.normalizers;
    const bool prepends = !steps.empty() && std::holds_alternative<PrependStep>(steps.front()) &&
                          std::get<PrependStep>(steps.front()).text == kSpaceMark;
    if (steps.empty() || !spec_.pretokenizers.empty() || steps.size() != (prepends ? 2 : 1) ||
        !marks_spaces(steps.back())) {
      fail("GGUF has no place for what this tokenizer does with spaces");
    }
    return prepends;
  }

  std::string pretokenizer() const {
    // Without merges every byte is a token, wherever the words end.
    if (spec_.merges.empty() && !ignores_merges()) return "gpt-2";
    const std::string_view name = gguf_pretokenizer_name(spec_.pretokenizers, ignores_merges());
    if (name.empty()) fail("GGUF has no name for this pre-tokenizer");
    return std::string(name);
  }

  void read_tokens(int size) {
    const auto count = static_cast<size_t>(size);
    out_.tokens.resize(count);
    out_.token_type.resize(count, GgufVocab::kUnused);
    const auto put = [&](const std::string& text, TokenId id, GgufVocab::Type type) {
      if (id < 0 || id >= size)
        fail(fmt::format("the token '{}' has the id {}, and the model has {}", text, id, size));
      out_.tokens[static_cast<size_t>(id)] = text;
      out_.token_type[static_cast<size_t>(id)] = type;
    };
    for (const auto& [text, id] : spec_.vocab) put(text, id, GgufVocab::kNormal);
    for (const AddedToken& added : spec_.added) {
      put(added.content, added.id, added.special ? GgufVocab::kControl : GgufVocab::kUserDefined);
    }
    for (size_t i = 0; i < count; ++i) {
      if (out_.tokens[i].empty()) out_.tokens[i] = fmt::format("[PAD{}]", i);
    }
  }

  std::optional<std::int64_t> only(const std::vector<TokenId>& added, std::string_view where) const {
    if (added.size() > 1) fail(fmt::format("the tokenizer puts {} tokens {} a text", added.size(), where));
    return added.empty() ? std::nullopt : std::optional<std::int64_t>(added.front());
  }

  const TokenizerSpec& spec_;
  GgufVocab out_;
};

// Where the post-processor does not name it.
void name_token(const std::optional<std::string>& text, const GgufVocab& vocab, std::optional<std::int64_t>& id) {
  if (id || !text) return;
  const auto found = std::ranges::find(vocab.tokens, *text);
  if (found != vocab.tokens.end()) id = found - vocab.tokens.begin();
}

}  // namespace

GgufVocab gguf_vocab_of(const std::filesystem::path& folder, int size) {
  const TokenizerSource source = read_tokenizer(folder);
  GgufVocab vocab = Exporter(source.spec, source.where).run(size);
  name_token(source.config.bos_token, vocab, vocab.bos_token_id);
  name_token(source.config.eos_token, vocab, vocab.eos_token_id);
  vocab.chat_template = source.config.chat_template;
  return vocab;
}

}  // namespace kvasir
