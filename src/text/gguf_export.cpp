#include "text/gguf_export.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "base/error.h"
#include "base/mmap_file.h"
#include "text/gguf_pretokenizer.h"
#include "text/pieces.h"
#include "text/tokenizer_json.h"

namespace kvasir {
namespace {

class Exporter {
 public:
  Exporter(const TokenizerSpec& spec, const std::string& where) : spec_(spec) { out_.where = where; }

  GgufVocab run(int size) {
    read_tokens(size);
    if (spec_.spelling == Spelling::kPieces) {
      read_pieces();
    } else {
      read_byte_level();
    }
    out_.bos_token_id = only(spec_.before, "before");
    out_.eos_token_id = only(spec_.after, "after");
    out_.add_bos_token = out_.bos_token_id.has_value();
    out_.add_eos_token = out_.eos_token_id.has_value();
    return std::move(out_);
  }

 private:
  [[noreturn]] void fail(std::string what) const {
    fail_input(std::move(what), out_.where, "use the folder as it is, or another tokenizer");
  }

  void read_byte_level() {
    if (!spec_.normalizers.empty()) fail("GGUF has no place for the normalizer of byte-level BPE");
    out_.model = "gpt2";
    out_.pre = pretokenizer();
    for (const TokenizerSpec::Merge& merge : spec_.merges) out_.merges.push_back(merge.left + ' ' + merge.right);
  }

  // SentencePiece's merges were made of scores, and become scores again. Each token's merges come together, and no
  // token that two others spell is without one: else what they say cannot be said with scores.
  void read_pieces() {
    out_.model = "llama";
    out_.add_space_prefix = puts_space_first();
    if (!spec_.byte_fallback) fail("GGUF has no place for pieces without byte_fallback");
    if (spec_.ignore_merges) fail("GGUF has no place for ignore_merges with byte_fallback");
    std::unordered_map<std::string, float> scores;
    std::string last;
    for (const TokenizerSpec::Merge& merge : spec_.merges) {
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
      if (text == spec_.unknown_token) {
        out_.unknown_token_id = id;
        out_.token_type[static_cast<size_t>(id)] = GgufVocab::kUnknown;
      }
    }
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
      const auto* replace = std::get_if<ReplaceStep>(&step);
      return replace != nullptr && replace->pattern == " " && replace->content == kSpaceMark;
    };
    const auto& steps = spec_.normalizers;
    const bool prepends = !steps.empty() && std::holds_alternative<PrependStep>(steps.front()) &&
                          std::get<PrependStep>(steps.front()).text == kSpaceMark;
    if (!spec_.pretokenizers.empty() || steps.size() != (prepends ? 2 : 1) || !marks_spaces(steps.back())) {
      fail("GGUF has no place for what this tokenizer does with spaces");
    }
    return prepends;
  }

  std::string pretokenizer() const {
    // Without merges every byte is a token, wherever the words end.
    if (spec_.merges.empty() && !spec_.ignore_merges) return "gpt-2";
    const std::string_view name = gguf_pretokenizer_name(spec_.pretokenizers, spec_.ignore_merges);
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
  const std::filesystem::path file = folder / "tokenizer.json";
  const TokenizerSpec spec = parse_tokenizer_json(MmapFile(file).text(), file.string());
  GgufVocab vocab = Exporter(spec, file.string()).run(size);
  const Tokenizer tokenizer = Tokenizer::load(folder);
  name_token(tokenizer.bos_token(), vocab, vocab.bos_token_id);
  name_token(tokenizer.eos_token(), vocab, vocab.eos_token_id);
  vocab.chat_template = tokenizer.chat_template();
  return vocab;
}

}  // namespace kvasir
