// A tokenizer from the vocabulary that a GGUF file carries in its tokenizer.* metadata.
//
// These models are known: "gpt2", byte-level BPE whose pre-tokenizer goes by a name; "llama", SentencePiece BPE,
// where the pair whose token has the highest score merges first; "gemma4", BPE of SentencePiece's pieces with a list
// of merges; "t5", SentencePiece unigram; "bert", WordPiece; and "rwkv", the longest token first. Reading the file is
// another's work: src/text knows no files of weights.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace kvasir {

// Fields are named after their keys: `pre` is tokenizer.ggml.pre. Nothing is checked before make_tokenizer().
struct GgufVocab {
  // The values of tokenizer.ggml.token_type.
  enum Type : std::int32_t {
    kUndefined = 0,
    kNormal = 1,
    kUnknown = 2,
    kControl = 3,      // found in text only where special tokens are parsed
    kUserDefined = 4,  // found in any text, before anything else
    kUnused = 5,
    kByte = 6,
  };

  std::string where;  // the file, for errors
  std::string name;  // general.name, or ""; Phi-3 is known by it: white space after its special tokens goes with them
  std::string model;
  std::string pre;  // "" when there is none
  std::vector<std::string> tokens;
  std::vector<float> scores;             // of each token; empty unless the model is "llama" or "t5"
  std::vector<std::int32_t> token_type;  // of each token, a Type; empty: all are normal
  std::vector<std::string> merges;   // "a b", the first merges first; empty unless the model is "gpt2" or "gemma4"
  std::string precompiled_charsmap;  // bytes, empty unless the model is "t5"

  // nullopt: the file does not say, and the model's or the pre-tokenizer's custom holds. For ids of "llama" that is
  // 1, 2 and 0; for those of "t5" none, 1 and 2; for those of "bert" 101, none and 100, and 102 as the separator.
  std::optional<std::int64_t> bos_token_id;
  std::optional<std::int64_t> eos_token_id;
  std::optional<std::int64_t> unknown_token_id;
  std::optional<bool> add_bos_token;
  std::optional<bool> add_eos_token;
  std::optional<std::int64_t> seperator_token_id;  // so spelled in GGUF
  std::optional<bool> add_sep_token;
  std::optional<bool> add_space_prefix;          // means nothing to "gpt2"
  std::optional<bool> remove_extra_whitespaces;  // means something to "t5"
  std::optional<bool> lowercase;                 // tokenizer.ggml.normalizer.lowercase, to "bert"
  std::optional<bool> strip_accents;             // likewise

  std::optional<std::string> chat_template;  // tokenizer.chat_template
};

// Tokens that are known to end an answer ("</s>", "<|im_end|>") are special, whatever type the file gives them.
//
// Gives the tokens that llama.cpp gives, but for these: the text of a control token never becomes that token by
// merging, added tokens are found from left to right, gpt-4o's and tekken's patterns know the cases of all
// scripts, and so does "bert", and bytes that are not UTF-8 stay what they are. Throws Error for a model or
// pre-tokenizer that is not known, naming those that are, and for counts, ids, scores or merges that contradict the
// tokens.
Tokenizer make_tokenizer(const GgufVocab& vocab);

}  // namespace kvasir
