#include "text/tokenizer_data.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/error.h"
#include "text/byte_level.h"
#include "text/model_builder.h"
#include "text/pieces.h"

namespace kvasir {
namespace {

constexpr size_t kTextBlock = size_t{1} << 20;
constexpr size_t kMostText = size_t{1} << 30;  // of all tokens, decoded: a decoder may make long texts of short ones

class Builder {
 public:
  Builder(TokenizerSpec spec, const std::string& where)
      : spec_(std::move(spec)), data_(std::make_shared<TokenizerData>()) {
    data_->where = where;
  }

  std::shared_ptr<TokenizerData> build() {
    size_table();
    data_->decoder.emplace(std::move(spec_.decoder));
    for (const auto& [spelled, id] : spec_.vocab) add_vocab(spelled, id);
    for (const auto& [bytes, id, special] : spec_.silent) {
      const std::string_view kept = keep(bytes);
      data_->tokens[static_cast<size_t>(id)] = {kept, kept, Decoder::Kind::kAdded, true, special};
    }
    for (const AddedToken& token : spec_.added) add_added(token);
    data_->model.emplace(build_model(spec_, *data_));
    data_->normalizers = spec_.normalizers;
    data_->pretokenizer.emplace(std::move(spec_.pretokenizers));
    split_added();
    data_->before = checked(spec_.before);
    data_->after = checked(spec_.after);
    data_->pair = checked_pair();
    return std::move(data_);
  }

 private:
  [[noreturn]] void fail(std::string what) const {
    fail_input(std::move(what), data_->where, "the file is damaged or was edited; download it again");
  }

  std::vector<PairPart> checked_pair() const {
    using enum PairPart::What;
    std::vector<PairPart> out = spec_.pair;
    for (const auto& [what, type] : {std::pair(kFirst, 0), std::pair(kSecond, 1)}) {
      if (!spec_.pair.empty()) break;
      for (const TokenId token : spec_.before) out.push_back({kToken, token, type});
      out.push_back({what, -1, type});
      for (const TokenId token : spec_.after) out.push_back({kToken, token, type});
    }
    for (const PairPart& part : out) {
      if (part.what == kToken) checked({part.token});
    }
    return out;
  }

  // Ids index a table, so a lone huge one must not make that table huge.
  void size_table() {
    TokenId last = -1;
    for (const auto& [spelled, id] : spec_.vocab) last = std::max(last, id);
    for (const auto& [bytes, id, special] : spec_.silent) last = std::max(last, id);
    for (const AddedToken& token : spec_.added) last = std::max(last, token.id);
    const size_t entries = spec_.vocab.size() + spec_.silent.size() + spec_.added.size();
    const auto size = static_cast<size_t>(last) + 1;  // 0 when there are no tokens
    if (size > 4 * entries + 65536) {
      fail(fmt::format("the id {} is far beyond the {} tokens there are", last, entries));
    }
    data_->tokens.resize(size);
    data_->by_spelling.reserve(spec_.vocab.size());
  }

  std::string_view keep(std::string_view text) {
    kept_ += text.size();
    if (kept_ > kMostText) fail("the decoder makes too long texts of the tokens");
    if (data_->texts.empty() || data_->texts.back().capacity() - data_->texts.back().size() < text.size()) {
      data_->texts.emplace_back().reserve(std::max(kTextBlock, text.size()));
    }
    std::string& block = data_->texts.back();
    const size_t at = block.size();
    block += text;
    return std::string_view(block).substr(at, text.size());
  }

  // A token's text among others; where that is as it is spelled, the same bytes.
  std::string_view decoded(std::string_view spelled, Decoder::Kind kind) {
    const std::string text = data_->decoder->text_of(spelled, kind, Decoder::Place::kMiddle);
    return text == spelled ? spelled : keep(text);
  }

  void add_vocab(std::string_view spelled, TokenId id) {
    TokenizerData::Token& token = data_->tokens[static_cast<size_t>(id)];
    if (token.exists) fail(fmt::format("two vocabulary entries have the id {}", id));
    const std::string_view kept = keep(spelled);
    if (!data_->by_spelling.emplace(kept, id).second) fail(fmt::format("the vocabulary has '{}' twice", spelled));
    token = {kept, decoded(kept, Decoder::Kind::kVocabulary), Decoder::Kind::kVocabulary, true, false};
    using Whole = TokenizerSpec::WholeWords;
    if (spec_.whole_words == Whole::kMerge) return;
    if (spec_.whole_words == Whole::kLineFeeds && spelled.find_first_not_of('\n') != std::string_view::npos) return;
    if (spec_.spelling == Spelling::kPieces) {
      if (!byte_of_piece(kept)) data_->by_word.emplace(kept, id);
    } else if (unspell_bytes(kept)) {
      data_->by_word.emplace(token.bytes, id);
    }
  }

  void add_added(const AddedToken& added) {
    if (added.content.empty()) return;
    TokenizerData::Token& token = data_->tokens[static_cast<size_t>(added.id)];
    const auto in_vocab = data_->by_spelling.find(added.content);
    const bool same = in_vocab != data_->by_spelling.end() && in_vocab->second == added.id;
    if (token.exists && !same)
      fail(fmt::format("the added token '{}' has the id {}, which is taken", added.content, added.id));
    if (in_vocab != data_->by_spelling.end() && !same) {
      fail(fmt::format("the added token '{}' has the id {}, but {} in the vocabulary", added.content, added.id,
                       in_vocab->second));
    }
    const std::string_view kept = keep(added.content);
    if (!data_->by_content.emplace(kept, added.id).second)
      fail(fmt::format("the token '{}' is added twice", added.content));
    if (added.special && same) data_->by_word.erase(spec_.spelling == Spelling::kPieces ? kept : token.bytes);
    token = {kept, decoded(kept, Decoder::Kind::kAdded), Decoder::Kind::kAdded, true, added.special};
  }

  // Tokens that are looked for in normalized text are normalized themselves.
  void split_added() {
    std::vector<AddedToken> raw;
    std::vector<AddedToken> normalized;
    for (AddedToken& token : spec_.added) {
      if (!token.normalized) {
        raw.push_back(std::move(token));
        continue;
      }
      MarkedRanges content{token.content, {}};
      if (!spec_.added_as_written) {
        for (const NormalizerStep& step : spec_.normalizers) normalize(step, content);
      }
      token.content = std::move(content.text);
      normalized.push_back(std::move(token));
    }
    data_->raw_added.emplace(std::move(raw));
    data_->normalized_added.emplace(std::move(normalized));
  }

  std::vector<TokenId> checked(std::vector<TokenId> ids) const {
    for (const TokenId id : ids) {
      const bool exists =
          static_cast<size_t>(id) < data_->tokens.size() && data_->tokens[static_cast<size_t>(id)].exists;
      if (!exists) fail(fmt::format("the post-processor adds the id {}, which is no token", id));
    }
    return ids;
  }

  TokenizerSpec spec_;
  std::shared_ptr<TokenizerData> data_;
  size_t kept_ = 0;  // bytes
};

}  // namespace

std::shared_ptr<TokenizerData> build_tokenizer(TokenizerSpec spec, const std::string& where) {
  return Builder(std::move(spec), where).build();
}

}  // namespace kvasir
