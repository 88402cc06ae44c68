#include "text/model_builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "text/byte_level.h"
#include "text/pieces.h"
#include "text/utf8.h"

namespace kvasir {
namespace {

constexpr size_t kMostPieceText = size_t{32} << 20;  // bytes of all pieces: each may be a node of a trie

class ModelBuilder {
 public:
  ModelBuilder(const TokenizerSpec& spec, const TokenizerData& data) : spec_(spec), data_(data) {}

  WordModel build() const {
    switch (spec_.model) {
      case ModelKind::kBpe:
        return Bpe(merges(), alphabet());
      case ModelKind::kUnigram:
        return unigram();
      case ModelKind::kWordPiece:
        return WordPiece(pieces(), {needed_unknown(), spec_.continuing_prefix, spec_.most_characters});
      case ModelKind::kWordLevel:
        return WordLevel(pieces(), needed_unknown());
      case ModelKind::kGreedy:
        return Greedy(pieces(), unknown().value_or(-1));
    }
    fail("the tokenizer's model is of no kind");
  }

 private:
  [[noreturn]] void fail(std::string what) const {
    fail_input(std::move(what), data_.where, "the file is damaged or was edited; download it again");
  }

  bool is_special(TokenId id) const { return data_.tokens[static_cast<size_t>(id)].special; }

  std::optional<TokenId> unknown() const {
    if (!spec_.unknown_token) return std::nullopt;
    if (const auto found = data_.by_spelling.find(*spec_.unknown_token); found != data_.by_spelling.end())
      return found->second;
    if (const auto added = data_.by_content.find(*spec_.unknown_token); added != data_.by_content.end())
      return added->second;
    return std::nullopt;
  }

  TokenId needed_unknown() const {
    const std::optional<TokenId> found = unknown();
    if (!found) fail("the model needs an unknown token, and names none of its vocabulary");
    return *found;
  }

  MergeTable merges() const {
    MergeTable table(spec_.merges.size());
    for (const auto& [left, right, rank] : spec_.merges) {
      if (!right.starts_with(spec_.continuing_prefix))
        fail(fmt::format("the merge of '{}' and '{}' lacks the prefix of what continues a word", left, right));
      const TokenId result = merge_part(left + right.substr(spec_.continuing_prefix.size()));
      if (is_special(result)) continue;
      table.insert(merge_part(left), merge_part(right), {rank, result});
    }
    return table;
  }

  TokenId merge_part(const std::string& spelled) const {
    const auto found = data_.by_spelling.find(spelled);
    if (found == data_.by_spelling.end())
      fail(fmt::format("a merge names '{}', which is not in the vocabulary", spelled));
    return found->second;
  }

  std::string spelled_byte(unsigned char byte) const {
    if (spec_.spelling == Spelling::kPieces) return byte_piece(byte);
    std::string spelled;
    append_utf8(spelled, byte_to_char(byte));
    return spelled;
  }

  std::array<TokenId, 256> bytes() const {
    std::array<TokenId, 256> bytes;
    bytes.fill(-1);
    const bool has_bytes = spec_.spelling == Spelling::kByteLevel || spec_.byte_fallback;
    for (unsigned byte = 0; has_bytes && byte < 256; ++byte) {
      const auto found = data_.by_spelling.find(spelled_byte(static_cast<unsigned char>(byte)));
      if (found != data_.by_spelling.end()) bytes[byte] = found->second;
    }
    return bytes;
  }

  Bpe::Alphabet alphabet() const {
    Bpe::Alphabet alphabet;
    alphabet.bytes = bytes();
    if (spec_.spelling == Spelling::kPieces) {
      alphabet.characters.emplace();
      alphabet.affixes = {spec_.continuing_prefix, spec_.word_suffix};
      for (int place = 0; place < Bpe::kPlaces; ++place)
        alphabet.characters->at(static_cast<size_t>(place)) = characters(alphabet.affixes, place);
    }
    alphabet.unknown = unknown();
    alphabet.fuse_unknown = spec_.fuse_unknown;
    return alphabet;
  }

  std::unordered_map<char32_t, TokenId> characters(const Bpe::Affixes& affixes, int place) const {
    const std::string_view prefix = affixes.before(place);
    const std::string_view suffix = affixes.after(place);
    std::unordered_map<char32_t, TokenId> characters;
    for (const auto& [spelled, id] : data_.by_spelling) {
      std::string_view inner = spelled;
      if (!inner.starts_with(prefix)) continue;
      inner.remove_prefix(prefix.size());
      if (inner.size() <= suffix.size() || !inner.ends_with(suffix)) continue;
      inner.remove_suffix(suffix.size());
      const Utf8Char first = utf8_at(inner, 0);
      const bool one = first.kind == Utf8Char::Kind::kWhole && static_cast<size_t>(first.size) == inner.size();
      if (one) characters.emplace(first.code, id);
    }
    return characters;
  }

  // All that text may become.
  TokenTexts pieces() const {
    TokenTexts pieces;
    size_t text = 0;
    for (const auto& [spelled, id] : data_.by_spelling) {
      if (is_special(id)) continue;
      if (!spec_.bytes_are_text && byte_of_piece(spelled)) continue;
      if (spelled.size() > kMaxAddedTokenBytes) fail(fmt::format("the token {} has {} bytes", id, spelled.size()));
      text += spelled.size();
      pieces.emplace_back(spelled, id);
    }
    if (text > kMostPieceText) fail("the vocabulary has too much text");
    return pieces;
  }

  Unigram unigram() const {
    std::vector<double> by_id(data_.tokens.size());
    for (size_t i = 0; i < spec_.vocab.size(); ++i) {
      if (!std::isfinite(spec_.scores[i])) fail("a score is not a number");
      by_id[static_cast<size_t>(spec_.vocab[i].second)] = spec_.scores[i];
    }
    std::vector<Unigram::Piece> scored;
    for (const auto& [spelled, id] : pieces()) scored.push_back({spelled, id, by_id[static_cast<size_t>(id)]});
    return Unigram(scored, {needed_unknown(), spec_.unknown_score, bytes()});
  }

  const TokenizerSpec& spec_;
  const TokenizerData& data_;
};

}  // namespace

WordModel build_model(const TokenizerSpec& spec, const TokenizerData& data) {
  return ModelBuilder(spec, data).build();
}

}  // namespace kvasir
