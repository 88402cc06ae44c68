// Text <-> tokens, as a Hugging Face tokenizer.json or a tokenizer.model of SentencePiece describes it. (gguf_vocab.h
// makes one of a GGUF file's vocabulary.)
//
// A Tokenizer is a value: copies share one immutable vocabulary, every method is const, and all of them may
// be called from several threads at once. Text is bytes: valid UTF-8 becomes the tokens that the Hugging Face library
// makes of it, and bytes that are not UTF-8 become tokens of their own, so that no input is refused or lost. (A
// vocabulary without tokens for bytes loses what it has no token for, as there: to its unknown token.)
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"

namespace kvasir {

struct GgufVocab;
struct TokenizerData;  // tokenizer_data.h: constant after loading

class Tokenizer {
 public:
  // Whether the text of a special token ("<|im_end|>") in the input becomes that token. kPlain is for what a
  // user typed: no merge and no word becomes a special token then either. Added tokens that are not special are found
  // in both.
  enum class Specials { kParse, kPlain };
  enum class SkipSpecials { kSkip, kKeep };

  struct TextPiece {
    std::string_view text;
    Specials specials = Specials::kPlain;
  };

  // Reads a file, or of a folder its tokenizer.json, or else its tokenizer.model (which T5 calls spiece.model), and
  // what lies beside it: tokenizer_config.json (bos_token, eos_token, chat_template; for a tokenizer.model also what
  // is added to it) and chat_template.jinja, which wins. Throws Error when a file is missing, damaged or of a kind
  // not supported here.
  static Tokenizer load(const std::filesystem::path& model_dir_or_file);

  // The same from the text of a tokenizer.json, or the bytes of a tokenizer.model, alone. `where` names it in errors.
  static Tokenizer from_json(std::string_view json, const std::string& where);
  static Tokenizer from_sentencepiece(std::string_view model, const std::string& where);

  // The tokens of the text itself: nothing is added before or after. Throws Error only for a text of 1 GiB or
  // more, or when the tokenizer's own pattern exceeds its matching limits.
  std::vector<TokenId> encode(std::string_view text, Specials specials) const;

  // The pieces as one text: merges cross their borders, but a special token is only found where every byte of
  // it belongs to kParse pieces.
  std::vector<TokenId> encode(std::span<const TextPiece> pieces) const;

  // encode() between what the post-processor puts before (bos) and after a text.
  std::vector<TokenId> encode_document(std::string_view text, Specials specials) const;
  std::vector<TokenId> as_document(std::vector<TokenId> tokens) const;

  // Two texts between what the post-processor puts around a pair, and the type of each token.
  struct Pair {
    std::vector<TokenId> tokens;
    std::vector<TokenId> types;
  };
  Pair as_pair(std::span<const TokenId> first, std::span<const TokenId> second) const;

  // The bytes a token stands for between others, which may be a part of a UTF-8 character. Empty for ids without a
  // token.
  std::string_view bytes_of(TokenId id) const;

  // The bytes of all tokens, one after the other, but for what the decoder does at the ends of a text: the inverse of
  // encode() where the tokenizer has no normalizer but the space that SentencePiece puts before a text. It may not be
  // valid UTF-8; Detokenizer makes text of it. Ids without a token are left out.
  std::string decode(std::span<const TokenId> tokens, SkipSpecials specials) const;

  // By the text of an added token, or by a vocabulary entry as tokenizer.json spells it ("Ġthe").
  std::optional<TokenId> id_of(std::string_view token_text) const;

  bool is_special(TokenId id) const;
  int vocab_size() const;  // the largest id + 1; ids below it may be without a token

  // What tokenizer_config.json says; nullopt when it does not. The chat template is source text, not yet
  // parsed.
  const std::optional<std::string>& bos_token() const;
  const std::optional<std::string>& eos_token() const;
  const std::optional<std::string>& chat_template() const;
  const std::string& chat_template_where() const;  // the file it came from, for errors

 private:
  friend class DecodeStream;
  friend Tokenizer make_tokenizer(const GgufVocab& vocab);
  explicit Tokenizer(std::shared_ptr<const TokenizerData> data) : data_(std::move(data)) {}

  std::shared_ptr<const TokenizerData> data_;
};

}  // namespace kvasir
