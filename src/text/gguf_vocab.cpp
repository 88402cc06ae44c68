#include "text/gguf_vocab.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>
#include <unordered_map>

#include "base/error.h"
#include "text/byte_level.h"
#include "text/gguf_pretokenizer.h"
#include "text/pieces.h"
#include "text/score_merges.h"
#include "text/tokenizer_data.h"
#include "text/tokenizer_parts.h"
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

// RWKV writes bytes that are no text as "\\x0a", and so on.
std::string unescape_rwkv(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '\\' || at + 1 == text.size()) {
      out += text[at];
      continue;
    }
    const char kind = text[++at];
    unsigned char byte = 0;
    const bool hex =
        kind == 'x' && at + 2 < text.size() &&
        std::from_chars(text.data() + at + 1, text.data() + at + 3, byte, 16).ptr == text.data() + at + 3;
    if (hex) at += 2;
    out += hex ? static_cast<char>(byte) : kind == 't' ? '\t' : kind == 'n' ? '\n' : kind == 'r' ? '\r' : kind;
  }
  return out;
}

// A vocabulary on its way to a TokenizerSpec.
class Reader {
 public:
  explicit Reader(const GgufVocab& vocab) : vocab_(vocab), phi3_(is_phi3(vocab.name)) {}

  TokenizerSpec read() {
    check_counts();
    const Model* model = std::ranges::find(kModels, vocab_.model, &Model::name);
    if (model == kModels.end()) {
      fail(fmt::format("the tokenizer model '{}' is not supported", vocab_.model.substr(0, 100)),
           "supported are 'gpt2', 'llama', 'gemma4', 't5', 'bert' and 'rwkv'");
    }
    spec_.model = model->kind;
    eos_ = id_of(vocab_.eos_token_id, "eos", model->eos);
    // What nobody uses may name a token that is not there.
    if (in_vocabulary(vocab_.bos_token_id)) bos_ = id_of(vocab_.bos_token_id, "bos", model->bos);
    if (model->unknown != kNone || in_vocabulary(vocab_.unknown_token_id))
      unknown_ = id_of(vocab_.unknown_token_id, "unknown", model->unknown);
    spec_.spelling = vocab_.model == "gpt2" ? Spelling::kByteLevel : Spelling::kPieces;
    if (vocab_.model == "bert") separator_ = id_of(vocab_.seperator_token_id, "separator", 102);
    read_tokens();
    (this->*model->read)();
    return std::move(spec_);
  }

  std::optional<std::string> bos() const { return text_of(bos_); }
  std::optional<std::string> eos() const { return text_of(eos_); }

 private:
  // What goes with tokenizer.ggml.model.
  struct Model {
    std::string_view name;
    ModelKind kind;
    TokenId bos, eos, unknown;  // unless the file says otherwise
    void (Reader::*read)();
  };
  static const std::array<Model, 6> kModels;

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
           id == separator_ || ends_an_answer(vocab_.tokens[static_cast<size_t>(id)]);
  }

  // Of several tokens with one text the last is the one that text becomes, as in llama.cpp.
  void read_tokens() {
    const bool greedy = spec_.model == ModelKind::kGreedy;
    std::unordered_map<std::string, TokenId> last;
    last.reserve(vocab_.tokens.size());
    const auto text_at = [&](size_t i) { return greedy ? unescape_rwkv(vocab_.tokens[i]) : vocab_.tokens[i]; };
    for (size_t i = 0; i < vocab_.tokens.size(); ++i) last[text_at(i)] = static_cast<TokenId>(i);
    for (size_t i = 0; i < vocab_.tokens.size(); ++i) {
      const auto id = static_cast<TokenId>(i);
      const std::string text = text_at(i);
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
    if (spec_.model == ModelKind::kGreedy) return std::string(text);
    if (spec_.spelling == Spelling::kByteLevel) return unspell_bytes(text).value_or(std::string(text));
    const std::optional<unsigned char> byte = byte_of_piece(text);
    return byte ? std::string(1, static_cast<char>(*byte)) : unmark_spaces(text);
  }

  void read_byte_level() {
    GgufPretokenizer pretokenizer = gguf_pretokenizer(vocab_.pre, vocab_.where);
    spec_.pretokenizers = std::move(pretokenizer.steps);
    if (pretokenizer.ignore_merges) spec_.whole_words = TokenizerSpec::WholeWords::kTake;
    spec_.decoder = {ByteLevelDecode{}};
    read_merges();
    surround(pretokenizer.add_bos ? BosByCustom::kAdded : BosByCustom::kLeftOut);
    pair_texts(vocab_.pre == "modern-bert" ? Separated::kOnceTyped : Separated::kTwice);
  }

  // A part may begin with a space of its own, never end with one.
  void read_merges() {
    spec_.merges.reserve(vocab_.merges.size());
    for (const std::string& merge : vocab_.merges) {
      const size_t space = merge.find(' ', 1);
      if (space == std::string::npos) fail(fmt::format("the merge '{}' must be two tokens", merge.substr(0, 100)));
      spec_.merges.push_back(
          {merge.substr(0, space), merge.substr(space + 1), static_cast<std::int32_t>(spec_.merges.size())});
    }
  }

  void read_sentencepiece() {
    if (vocab_.scores.empty()) fail("the vocabulary has no scores");
    const bool prefix = vocab_.add_space_prefix.value_or(true);
    if (prefix) spec_.normalizers.emplace_back(PrependStep{std::string(kSpaceMark)});
    spec_.normalizers.emplace_back(ReplaceStep{" ", std::string(kSpaceMark)});
    spec_.decoder = pieces_decoder(prefix ? 1 : 0);
    if (unknown_ != kNone) spec_.unknown_token = vocab_.tokens[static_cast<size_t>(unknown_)];
    spec_.fuse_unknown = true;
    spec_.merges = merges_by_score(spec_.vocab, vocab_.scores, vocab_.where);
    surround(BosByCustom::kAdded);
  }

  static std::vector<DecodeStep> pieces_decoder(int leading_spaces) {
    return {ReplaceDecode{std::string(kSpaceMark), " "}, ByteFallbackDecode{}, FuseDecode{},
            StripDecode{" ", leading_spaces, 0}};
  }

  // Its merges cannot name line feeds, so rows of these are tokens as they are.
  void read_gemma4() {
    spec_.normalizers.emplace_back(ReplaceStep{" ", std::string(kSpaceMark)});
    spec_.pretokenizers.emplace_back(SplitStep{Regex("[^\\n]+|[\\n]+", vocab_.where)});
    spec_.decoder = pieces_decoder(0);
    spec_.whole_words = TokenizerSpec::WholeWords::kLineFeeds;
    spec_.fuse_unknown = true;
    if (unknown_ != kNone) spec_.unknown_token = vocab_.tokens[static_cast<size_t>(unknown_)];
    read_merges();
    if (bos_ == kNone) fail("there is no bos token");
    spec_.before.push_back(bos_);
    if (vocab_.add_eos_token.value_or(false) && eos_ != kNone) spec_.after.push_back(eos_);
  }

  void read_unigram() {
    constexpr double kUnknownPenalty = 10;  // below the worst score
    if (vocab_.scores.empty()) fail("the vocabulary has no scores");
    need_unknown();
    double worst = std::numeric_limits<double>::infinity();
    for (const auto& [text, id] : spec_.vocab) {
      const float score = vocab_.scores[static_cast<size_t>(id)];
      spec_.scores.push_back(score);
      if (type_of(id) == GgufVocab::kNormal) worst = std::min<double>(worst, score);
    }
    spec_.unknown_score = (std::isfinite(worst) ? worst : 0) - kUnknownPenalty;
    spec_.byte_fallback = false;
    spec_.bytes_are_text = false;
    if (!vocab_.precompiled_charsmap.empty()) {
      spec_.normalizers.emplace_back(
          CharsmapStep{std::make_shared<const Charsmap>(vocab_.precompiled_charsmap, vocab_.where),
                       CharsmapStep::Unit::kLongest,
                       {}});
    }
    using Spaces = SpaceMarksStep;
    const bool merged = vocab_.remove_extra_whitespaces.value_or(false);
    const bool prefix = vocab_.add_space_prefix.value_or(false);
    spec_.normalizers.emplace_back(
        Spaces{merged ? Spaces::Prefix::kText : (prefix ? Spaces::Prefix::kWord : Spaces::Prefix::kNever),
               merged ? Spaces::Extra::kRemove : Spaces::Extra::kKeep, Spaces::OwnMarks::kText});
    spec_.decoder = pieces_decoder(1);
    around({vocab_.add_bos_token.value_or(false) ? bos_ : kNone, vocab_.add_eos_token.value_or(true) ? eos_ : kNone});
    pair_texts(Separated::kTwice);
  }

  // Words begin with a mark here, and what continues them has none.
  void read_word_piece() {
    need_unknown();
    const bool lowercase = vocab_.lowercase.value_or(true);
    spec_.normalizers.emplace_back(CleanTextStep{CleanTextStep::Both::kSpace});
    if (vocab_.strip_accents.value_or(lowercase)) {
      spec_.normalizers.emplace_back(NormalForm::kNfd);
      spec_.normalizers.emplace_back(StripAccentsStep{Accents::kAll});
    }
    spec_.normalizers.emplace_back(SpaceChineseStep{});
    if (lowercase) spec_.normalizers.emplace_back(LowercaseStep{});
    spec_.pretokenizers = bert_splits(vocab_.where);
    spec_.pretokenizers.emplace_back(WordPrefixStep{std::string(kSpaceMark)});
    spec_.byte_fallback = false;
    spec_.bytes_are_text = false;
    spec_.decoder = pieces_decoder(1);
    const bool separated = vocab_.add_sep_token.value_or(true) || vocab_.add_eos_token.value_or(false);
    around({vocab_.add_bos_token.value_or(true) ? bos_ : kNone, separated ? separator_ : kNone});
    pair_texts(Separated::kOnceTyped);
  }

  void read_rwkv() {
    if (unknown_ != kNone) spec_.unknown_token = vocab_.tokens[static_cast<size_t>(unknown_)];
    spec_.byte_fallback = false;
    spec_.decoder = {FuseDecode{}};
    around(
        {vocab_.add_bos_token.value_or(false) ? bos_ : kNone, vocab_.add_eos_token.value_or(false) ? eos_ : kNone});
  }

  void need_unknown() {
    if (unknown_ == kNone) fail("the vocabulary has no unknown token");
    spec_.unknown_token = vocab_.tokens[static_cast<size_t>(unknown_)];
  }

  // Where both ends of a text have a token.
  void pair_texts(Separated how) {
    if (spec_.before.size() == 1 && spec_.after.size() == 1)
      spec_.pair = separated_pair(spec_.before.front(), spec_.after.front(), how);
  }

  void around(std::pair<TokenId, TokenId> ends) {
    if (ends.first != kNone) spec_.before.push_back(ends.first);
    if (ends.second != kNone) spec_.after.push_back(ends.second);
  }

  enum class BosByCustom { kAdded, kLeftOut };  // where the file does not say

  void surround(BosByCustom custom) {
    const bool named = bos_ != kNone || vocab_.bos_token_id;
    const bool bos = vocab_.add_bos_token.value_or(custom == BosByCustom::kAdded && named);
    const bool eos = vocab_.add_eos_token.value_or(false);
    if ((bos && !named) || (eos && eos_ == kNone)) fail("add_bos_token or add_eos_token is set without its id");
    if (bos) spec_.before.push_back(id_of(vocab_.bos_token_id, "bos", bos_));
    if (eos) spec_.after.push_back(eos_);
  }

  const GgufVocab& vocab_;
  bool phi3_;
  TokenizerSpec spec_;
  TokenId bos_ = kNone, eos_ = kNone, unknown_ = kNone, separator_ = kNone;
};

const std::array<Reader::Model, 6> Reader::kModels{{
    {"gpt2", ModelKind::kBpe, kNone, kNone, kNone, &Reader::read_byte_level},
    {"llama", ModelKind::kBpe, 1, 2, 0, &Reader::read_sentencepiece},
    {"gemma4", ModelKind::kBpe, kNone, kNone, kNone, &Reader::read_gemma4},
    {"t5", ModelKind::kUnigram, kNone, 1, 2, &Reader::read_unigram},
    {"bert", ModelKind::kWordPiece, 101, kNone, 100, &Reader::read_word_piece},
    {"rwkv", ModelKind::kGreedy, kNone, kNone, kNone, &Reader::read_rwkv},
}};

}  // namespace

Tokenizer make_tokenizer(const GgufVocab& vocab) {
  Reader reader(vocab);
  std::shared_ptr<TokenizerData> data = build_tokenizer(reader.read(), vocab.where);
  data->config = {reader.bos(), reader.eos(), vocab.chat_template, {}, {}, {}};
  data->chat_template_where = vocab.where + ": tokenizer.chat_template";
  return Tokenizer(std::move(data));
}

}  // namespace kvasir
