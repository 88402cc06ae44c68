#include "text/gguf_vocab.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <unordered_map>
#include <unordered_set>

#include "base/error.h"
#include "text/byte_level.h"
#include "text/gguf_pretokenizer.h"
#include "text/pieces.h"
#include "text/tokenizer_data.h"
#include "text/utf8.h"

namespace kvasir {
namespace {

constexpr TokenId kNone = -1;

// Files give some of these the wrong type, and what a user types must not end a turn.
bool ends_an_answer(std::string_view text) {
  static constexpr std::array<std::string_view, 15> kEnds{
      "</s>",          "<eos>",           "<|endoftext|>", "<|end_of_text|>",    "<|im_end|>",
      "<|eot_id|>",    "<|eom_id|>",      "<|end|>",       "<|return|>",         "<|call|>",
      "<end_of_turn>", "<|end_of_turn|>", "<EOT>",         "<end_of_utterance>", "<｜end▁of▁sentence｜>"};
  return std::ranges::find(kEnds, text) != kEnds.end();
}

bool is_phi3(std::string name) {
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return name.find("phi-3") != std::string::npos || name.find("phi3") != std::string::npos;
}

// A vocabulary on its way to a TokenizerSpec.
class Reader {
 public:
  explicit Reader(const GgufVocab& vocab) : vocab_(vocab), phi3_(is_phi3(vocab.name)) {}

  TokenizerSpec read() {
    check_counts();
    const bool pieces = vocab_.model == "llama";
    if (!pieces && vocab_.model != "gpt2") {
      fail(fmt::format("the tokenizer model '{}' is not supported", vocab_.model.substr(0, 100)),
           "supported are 'gpt2' and 'llama'");
    }
    eos_ = id_of(vocab_.eos_token_id, "eos", pieces ? 2 : kNone);
    // What nobody uses may name a token that is not there.
    if (in_vocabulary(vocab_.bos_token_id)) bos_ = id_of(vocab_.bos_token_id, "bos", pieces ? 1 : kNone);
    if (pieces || in_vocabulary(vocab_.unknown_token_id))
      unknown_ = id_of(vocab_.unknown_token_id, "unknown", pieces ? 0 : kNone);
    spec_.spelling = pieces ? Spelling::kPieces : Spelling::kByteLevel;
    read_tokens();
    if (pieces) {
      read_sentencepiece();
    } else {
      read_byte_level();
    }
    return std::move(spec_);
  }

  std::optional<std::string> bos() const { return text_of(bos_); }
  std::optional<std::string> eos() const { return text_of(eos_); }

 private:
  [[noreturn]] void fail(std::string what,
                         std::string fix = "the file is damaged; download or convert it again") const {
    fail_input(std::move(what), vocab_.where, std::move(fix));
  }

  void check_counts() const {
    const size_t count = vocab_.tokens.size();
    if (count == 0) fail("the vocabulary has no tokens");
    if (count > static_cast<size_t>(kMaxVocab)) {
      fail(fmt::format("the vocabulary has {} tokens, more than the {} that are read", count, kMaxVocab));
    }
    const auto check = [&](size_t size, std::string_view what) {
      if (size != 0 && size != count) fail(fmt::format("there are {} tokens and {} {}", count, size, what));
    };
    check(vocab_.scores.size(), "scores");
    check(vocab_.token_type.size(), "token types");
  }

  bool in_vocabulary(std::optional<std::int64_t> id) const {
    return !id || (*id >= 0 && *id < static_cast<std::int64_t>(vocab_.tokens.size()));
  }

  TokenId id_of(std::optional<std::int64_t> given, std::string_view name, TokenId custom) const {
    const auto count = static_cast<std::int64_t>(vocab_.tokens.size());
    if (!given) return custom < count ? custom : kNone;
    if (!in_vocabulary(given)) {
      fail(fmt::format("the {} token has the id {}, and there are {} tokens", name, *given, count));
    }
    return static_cast<TokenId>(*given);
  }

  std::optional<std::string> text_of(TokenId id) const {
    if (id == kNone) return std::nullopt;
    return vocab_.tokens[static_cast<size_t>(id)];
  }

  std::int32_t type_of(TokenId id) const {
    return vocab_.token_type.empty() ? GgufVocab::kNormal : vocab_.token_type[static_cast<size_t>(id)];
  }

  bool is_special(TokenId id) const {
    const std::int32_t type = type_of(id);
    return type == GgufVocab::kControl || type == GgufVocab::kUnknown || id == bos_ || id == eos_ || id == unknown_ ||
           ends_an_answer(vocab_.tokens[static_cast<size_t>(id)]);
  }

  // Of several tokens with one text the last is the one that text becomes, as in llama.cpp.
  void read_tokens() {
    std::unordered_map<std::string_view, TokenId> last;
    last.reserve(vocab_.tokens.size());
    for (size_t i = 0; i < vocab_.tokens.size(); ++i) last[vocab_.tokens[i]] = static_cast<TokenId>(i);
    for (size_t i = 0; i < vocab_.tokens.size(); ++i) {
      const auto id = static_cast<TokenId>(i);
      const std::string& text = vocab_.tokens[i];
      if (text.empty()) continue;
      if (last[text] == id) {
        read_token(text, id);
      } else {
        spec_.silent.push_back({is_special(id) ? text : bytes_of(text), id, is_special(id)});
      }
    }
  }

  void read_token(const std::string& text, TokenId id) {
    const bool user_defined = type_of(id) == GgufVocab::kUserDefined;
    if (is_special(id) || user_defined) {
      if (text.size() > kMaxAddedTokenBytes) fail(fmt::format("the token {} has {} bytes", id, text.size()));
      const bool strips = phi3_ && text != "<unk>" && text != "<s>" && text != "<|endoftext|>";
      spec_.added.push_back({.content = text, .id = id, .special = is_special(id), .rstrip = strips});
      return;
    }
    const bool lone_byte = spec_.spelling == Spelling::kByteLevel && type_of(id) == GgufVocab::kByte;
    if (const auto byte = byte_of_piece(text); lone_byte && byte) {
      spec_.silent.push_back({std::string(1, static_cast<char>(*byte)), id, false});
    } else {
      spec_.vocab.emplace_back(text, id);
    }
  }

  std::string bytes_of(std::string_view text) const {
    if (spec_.spelling == Spelling::kByteLevel) return unspell_bytes(text).value_or(std::string(text));
    const std::optional<unsigned char> byte = byte_of_piece(text);
    return byte ? std::string(1, static_cast<char>(*byte)) : unmark_spaces(text);
  }

  void read_byte_level() {
    GgufPretokenizer pretokenizer = gguf_pretokenizer(vocab_.pre, vocab_.where);
    spec_.pretokenizers = std::move(pretokenizer.steps);
    spec_.ignore_merges = pretokenizer.ignore_merges;
    // A part may begin with a space of its own, never end with one.
    spec_.merges.reserve(vocab_.merges.size());
    for (const std::string& merge : vocab_.merges) {
      const size_t space = merge.find(' ', 1);
      if (space == std::string::npos) fail(fmt::format("the merge '{}' must be two tokens", merge.substr(0, 100)));
      spec_.merges.push_back(
          {merge.substr(0, space), merge.substr(space + 1), static_cast<std::int32_t>(spec_.merges.size())});
    }
    surround(pretokenizer.add_bos);
  }

  void read_sentencepiece() {
    if (vocab_.scores.empty()) fail("the vocabulary has no scores");
    const bool prefix = vocab_.add_space_prefix.value_or(true);
    if (prefix) spec_.normalizers.emplace_back(PrependStep{std::string(kSpaceMark)});
    spec_.normalizers.emplace_back(ReplaceStep{" ", std::string(kSpaceMark)});
    spec_.leading_spaces = prefix ? 1 : 0;
    if (unknown_ != kNone) spec_.unknown_token = vocab_.tokens[static_cast<size_t>(unknown_)];
    spec_.fuse_unknown = true;
    merge_by_score();
    surround(true);
  }

  // SentencePiece merges any two neighbours that are a token together, the one of highest score first. Each token is
  // thus as many merges as there are ways to cut it in two tokens, all of the rank of its score. Bytes are no text.
  void merge_by_score() {
    std::unordered_set<std::string_view> pieces;
    pieces.reserve(spec_.vocab.size());
    for (const auto& [text, id] : spec_.vocab) {
      if (!byte_of_piece(text)) pieces.insert(text);
    }
    const std::vector<float> scores = distinct_scores();
    for (const auto& [text, id] : spec_.vocab) {
      if (!pieces.contains(text)) continue;
      if (text.size() > kMaxAddedTokenBytes) fail(fmt::format("the token {} has {} bytes", id, text.size()));
      const auto rank =
          std::ranges::lower_bound(scores, vocab_.scores[static_cast<size_t>(id)], std::greater<>()) - scores.begin();
      const std::string_view whole = text;
      for (size_t cut = 1; cut < whole.size(); ++cut) {
        if (!pieces.contains(whole.substr(0, cut)) || !pieces.contains(whole.substr(cut))) continue;
        spec_.merges.push_back(
            {std::string(whole.substr(0, cut)), std::string(whole.substr(cut)), static_cast<std::int32_t>(rank)});
      }
    }
  }

  std::vector<float> distinct_scores() const {
    std::vector<float> scores = vocab_.scores;
    if (std::ranges::any_of(scores, [](float score) { return std::isnan(score); })) fail("a score is not a number");
    std::ranges::sort(scores, std::greater<>());
    scores.erase(std::unique(scores.begin(), scores.end()), scores.end());
    return scores;
  }

  void surround(bool bos_by_custom) {
    const bool named = bos_ != kNone || vocab_.bos_token_id;
    const bool bos = vocab_.add_bos_token.value_or(bos_by_custom && named);
    const bool eos = vocab_.add_eos_token.value_or(false);
    if ((bos && !named) || (eos && eos_ == kNone)) fail("add_bos_token or add_eos_token is set without its id");
    if (bos) spec_.before.push_back(id_of(vocab_.bos_token_id, "bos", bos_));
    if (eos) spec_.after.push_back(eos_);
  }

  const GgufVocab& vocab_;
  bool phi3_;
  TokenizerSpec spec_;
  TokenId bos_ = kNone, eos_ = kNone, unknown_ = kNone;
};

}  // namespace

Tokenizer make_tokenizer(const GgufVocab& vocab) {
  Reader reader(vocab);
  std::shared_ptr<TokenizerData> data = build_tokenizer(reader.read(), vocab.where);
  data->config = {reader.bos(), reader.eos(), vocab.chat_template};
  data->chat_template_where = vocab.where + ": tokenizer.chat_template";
  return Tokenizer(std::move(data));
}

}  // namespace kvasir
