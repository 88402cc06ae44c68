#include "text/tokenizer_data.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/error.h"
#include "text/byte_level.h"
#include "text/pieces.h"
#include "text/utf8.h"

namespace kvasir {
namespace {

class Builder {
 public:
  Builder(TokenizerSpec spec, const std::string& where)
      : spec_(std::move(spec)), data_(std::make_shared<TokenizerData>()) {
    data_->where = where;
  }

  std::shared_ptr<TokenizerData> build() {
    size_table();
    for (const auto& [spelled, id] : spec_.vocab) add_vocab(spelled, id);
    for (const auto& [bytes, id, special] : spec_.silent)
      data_->tokens[static_cast<size_t>(id)] = {keep(bytes), true, special};
    for (const AddedToken& token : spec_.added) add_added(token);
    data_->bpe.emplace(merges(), alphabet());
    data_->ignore_merges = spec_.ignore_merges;
    data_->normalizers = spec_.normalizers;
    data_->pretokenizer.emplace(std::move(spec_.pretokenizers));
    split_added();
    data_->before = checked(spec_.before);
    data_->after = checked(spec_.after);
    data_->leading_spaces = spec_.leading_spaces;
    return std::move(data_);
  }

 private:
  [[noreturn]] void fail(std::string what) const {
    fail_input(std::move(what), data_->where, "the file is damaged or was edited; download it again");
  }

  // Ids index a table, so a lone huge one must not make that table huge.
  void size_table() {
    TokenId last = -1;
    size_t text = 0;
    for (const auto& [spelled, id] : spec_.vocab) {
      last = std::max(last, id);
      text += 2 * spelled.size();
    }
    for (const auto& [bytes, id, special] : spec_.silent) {
      last = std::max(last, id);
      text += bytes.size();
    }
    for (const AddedToken& token : spec_.added) {
      last = std::max(last, token.id);
      text += token.content.size();
    }
    const size_t entries = spec_.vocab.size() + spec_.silent.size() + spec_.added.size();
    const auto size = static_cast<size_t>(last) + 1;  // 0 when there are no tokens
    if (size > 4 * entries + 65536) {
      fail(fmt::format("the id {} is far beyond the {} tokens there are", last, entries));
    }
    data_->tokens.resize(size);
    data_->text_of_tokens.reserve(text);  // never grows again: views into it stay valid
    data_->by_spelling.reserve(spec_.vocab.size());
    if (spec_.ignore_merges) data_->by_word.reserve(spec_.vocab.size());
  }

  std::string_view keep(std::string_view text) {
    std::string& all = data_->text_of_tokens;
    CHECK(all.size() + text.size() <= all.capacity());
    const size_t at = all.size();
    all += text;
    return std::string_view(all).substr(at, text.size());
  }

  void add_vocab(std::string_view spelled, TokenId id) {
    TokenizerData::Token& token = data_->tokens[static_cast<size_t>(id)];
    if (token.exists) fail(fmt::format("two vocabulary entries have the id {}", id));
    const std::string_view kept = keep(spelled);
    if (!data_->by_spelling.emplace(kept, id).second) fail(fmt::format("the vocabulary has '{}' twice", spelled));
    token.exists = true;
    if (spec_.spelling == Spelling::kPieces) {
      const std::optional<unsigned char> byte = spec_.byte_pieces ? byte_of_piece(spelled) : std::nullopt;
      token.bytes = keep(byte ? std::string(1, static_cast<char>(*byte)) : unmark_spaces(spelled));
      if (spec_.ignore_merges && !byte) data_->by_word.emplace(kept, id);
      return;
    }
    // An entry with characters outside the alphabet stands for its own text, as it does in the Hugging Face
    // decoder.
    const std::optional<std::string> bytes = unspell_bytes(spelled);
    token.bytes = bytes ? keep(*bytes) : kept;
    if (bytes && spec_.ignore_merges) data_->by_word.emplace(token.bytes, id);
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
    token = {kept, true, added.special};
  }

  // Text never merges into a special token: what a user typed must not become one.
  MergeTable merges() const {
    MergeTable table(spec_.merges.size());
    for (const auto& [left, right, rank] : spec_.merges) {
      const TokenId result = merge_part(left + right);
      if (data_->tokens[static_cast<size_t>(result)].special) continue;
      table.insert(merge_part(left), merge_part(right), {rank, result});
    }
    return table;
  }

  TokenId merge_part(const std::string& spelled) const {
    const auto found = data_->by_spelling.find(spelled);
    if (found == data_->by_spelling.end())
      fail(fmt::format("a merge names '{}', which is not in the vocabulary", spelled));
    return found->second;
  }

  std::string spelled_byte(unsigned char byte) const {
    if (spec_.spelling == Spelling::kPieces) return byte_piece(byte);
    std::string spelled;
    append_utf8(spelled, byte_to_char(byte));
    return spelled;
  }

  Bpe::Alphabet alphabet() const {
    Bpe::Alphabet alphabet;
    alphabet.bytes.fill(-1);
    const bool has_bytes = spec_.spelling == Spelling::kByteLevel || spec_.byte_fallback;
    for (unsigned byte = 0; has_bytes && byte < 256; ++byte) {
      const auto found = data_->by_spelling.find(spelled_byte(static_cast<unsigned char>(byte)));
      if (found != data_->by_spelling.end()) alphabet.bytes[byte] = found->second;
    }
    if (spec_.spelling == Spelling::kPieces) alphabet.characters = characters();
    if (spec_.unknown_token) {
      const auto found = data_->by_spelling.find(*spec_.unknown_token);
      const auto added = data_->by_content.find(*spec_.unknown_token);
      if (added != data_->by_content.end()) alphabet.unknown = added->second;
      if (found != data_->by_spelling.end()) alphabet.unknown = found->second;
    }
    alphabet.fuse_unknown = spec_.fuse_unknown;
    return alphabet;
  }

  std::unordered_map<char32_t, TokenId> characters() const {
    std::unordered_map<char32_t, TokenId> characters;
    for (const auto& [spelled, id] : data_->by_spelling) {
      if (spelled.empty()) continue;
      const Utf8Char first = utf8_at(spelled, 0);
      const bool one = first.kind == Utf8Char::Kind::kWhole && static_cast<size_t>(first.size) == spelled.size();
      if (one) characters.emplace(first.code, id);
    }
    return characters;
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
      for (const NormalizerStep& step : spec_.normalizers) normalize(step, content);
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
};

}  // namespace

std::shared_ptr<TokenizerData> build_tokenizer(TokenizerSpec spec, const std::string& where) {
  return Builder(std::move(spec), where).build();
}

}  // namespace kvasir
