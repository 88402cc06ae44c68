// libkvasir: load a model, generate text, ask the cache what it did.
//
//     kvasir::Llm llm({.model = "models/tales"});
//     kvasir::Answer answer = llm.generate("Once upon a time", {.max_tokens = 64});
//     std::cout << answer.text << '\n' << answer.reuse << '\n';
//
// An Llm belongs to one thread at a time. Bad files, options and prompts throw kvasir::Error (kvasir/error.h) and
// change nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kvasir/error.h"

namespace kvasir {

struct LlmOptions {
  std::string model;  // a Hugging Face folder (config.json, model.safetensors, tokenizer.json), or a .gguf file
  std::string device = "cpu";         // "cpu", "cuda:0", "auto": cuda:0 if there is one; "ref": the oracle
  std::string isa = "auto";           // auto, scalar, avx2, avx512, avx512dot: the answer is the same with each
  std::string activations = "auto";   // auto: rows are rounded to bf16 where the weights are; f32: never
  std::string weights = "as-stored";  // int8, fp8: made so as they are loaded, on a GPU; half the memory of bf16
  int threads = 0;                    // 0: as many as cores
  std::int64_t context = 0;           // longest sequence, in tokens; 0: what the model was trained for
  std::string kv = "f16";             // the KV policy: "bf16", "k=f16, v=bf16", "f16, window=1024, sinks=4"
  std::string kv_basis;               // a file for policies with rank= or channels=; empty: the model's own, if any
  std::vector<std::string> kv_allow;  // policies besides `kv` that single requests may ask for; "any": all
  std::vector<std::string> kv_room_for;  // policies that nobody may ask for and the memory can hold all the same
  std::uint64_t kv_bytes = 0;    // memory for the cache; 0: four of the longest sequences, at most half the memory
  int block_tokens = 16;         // tokens in a block of the cache
  int max_batch_tokens = 0;      // tokens in a step, over all sequences; 0: as suits the device, 512 or 2048
  std::string eviction = "lru";  // lru, fifo, cost
  int state_budget = 4;          // of models with recurrent layers: states that a request leaves behind, 0 to 1024
  std::int64_t swap_bytes =
      -1;  // of host memory for paused requests; -1: as much as kv_bytes, at most an eighth of all
  // Who guesses tokens, which are verified several in a step: "off", "auto" (all that need no further files), or a
  // list of "ngram", "suffix" and "mtp" (the model's own head) or the folder of a draft model with the same
  // vocabulary, or of an EAGLE-3 head. The answer is the same with each.
  std::string draft = "off";
  int draft_tokens = 32;                   // in a draft, at most: 1 to 64
  int draft_tree = 1;                      // guesses of the same place in a draft, at most: 1 (a chain) to 4
  std::string generation_config = "auto";  // auto: answers are drawn as the model's generation_config.json asks; off
  bool reuse = true;                       // find prefixes that are already cached
  bool recompute = false;                  // no cache at all: every token recomputes everything. For measuring.
  std::string pooling;  // of embed(): mean, cls, last; empty: as the model's files say, and last of decoders
  std::function<void(int done, int all)> on_load;  // layers loaded
};

struct GenerateOptions {
  std::int64_t max_tokens = 256;
  bool ignore_eos = false;
  // Unset, these five are what the model's generation_config.json names, and off where it leaves them out; if it
  // names none of them, the temperature is 0.8 and the rest is off.
  std::optional<float> temperature;  // 0: greedy
  std::optional<int> top_k;
  std::optional<float> top_p;
  std::optional<float> min_p;
  std::optional<float> repetition_penalty;
  float frequency_penalty = 0.0F;
  float presence_penalty = 0.0F;
  std::vector<std::pair<std::int32_t, float>> logit_bias;
  std::uint64_t seed = 0;
  std::string kv;  // the KV policy, of those allowed; empty: LlmOptions::kv
};

struct Message {
  std::string role;  // "system", "user", "assistant"
  std::string content;
};

struct Answer {
  std::string text;
  std::vector<std::int32_t> tokens;
  std::string finish;   // "stop", "length", "cancelled" or, in a batch only, "failed"
  std::string failure;  // "failed": what went wrong. A single answer that fails throws it instead.
  std::int64_t prompt_tokens = 0;
  std::int64_t reused_tokens = 0;    // of the prompt, found in the cache
  std::string reuse;                 // why not more: one sentence
  std::int64_t computed_tokens = 0;  // rows the model ran
  std::int64_t draft_tokens = 0;     // of those: guessed …
  std::int64_t accepted_tokens = 0;  // … and right
  double first_token_seconds = 0;    // from the call to the first token
  double total_seconds = 0;
};

struct CacheInfo {
  std::int64_t blocks = 0;
  std::int64_t block_tokens = 0;
  std::int64_t block_bytes = 0;
  std::int64_t free_blocks = 0;    // hold nothing
  std::int64_t cached_blocks = 0;  // hold something that nobody is using, and may be found again or evicted
  std::int64_t queried_tokens = 0;
  std::int64_t hit_tokens = 0;
  std::int64_t evicted_blocks = 0;
};

struct ModelInfo {
  std::string description;  // "llama, 10 layers, 384 wide, 6 heads over 2 KV heads of 64"
  std::string backend;      // "cpu, avx512, 2 threads"
  std::string sampling;     // "temperature 0.7, top_p 0.9": what its generation_config.json names; empty: nothing
  std::uint64_t parameters = 0;
  std::uint64_t weight_bytes = 0;
  std::int64_t context = 0;
  std::int64_t kv_bytes_per_token = 0;
};

class Llm {
 public:
  // Called with each piece of text as it becomes certain; returning kStop ends the answer, throwing abandons it.
  enum class Next : std::uint8_t { kContinue, kStop };
  using OnText = std::function<Next(std::string_view piece)>;

  explicit Llm(const LlmOptions& options);
  ~Llm();
  Llm(Llm&&) noexcept;
  Llm& operator=(Llm&&) noexcept;

  // Continues a text. Special tokens in the prompt are read as such; the text's beginning (bos) is added.
  Answer generate(std::string_view prompt, const GenerateOptions& options, const OnText& on_text = {});

  // Answers the last message, in the model's own chat format. What is in the messages is never read as special
  // tokens.
  Answer chat(std::span<const Message> messages, const GenerateOptions& options, const OnText& on_text = {});

  // Many prompts in one continuous batch. Each answer is the same, to the bit, as if it had been alone.
  std::vector<Answer> generate_all(std::span<const std::string> prompts, const GenerateOptions& options);

  // Continues tokens as they are.
  Answer generate_tokens(std::span<const std::int32_t> tokens, const GenerateOptions& options,
                         const OnText& on_text = {});

  // A vector for each text, of as many numbers each. Nothing is looked up or kept in the cache. A vector is the same,
  // to the bit, whatever texts it is asked for with.
  std::vector<std::vector<float>> embed(std::span<const std::string> texts);

  // How well each document answers the query, as the model's files define a score: of a reranker. The same bits
  // whatever documents they are asked for with.
  std::vector<float> rerank(std::string_view query, std::span<const std::string> documents);

  // The options with every setting of the draw filled in, as an answer uses them.
  GenerateOptions resolved(GenerateOptions options) const;

  std::vector<std::int32_t> tokenize(std::string_view text) const;
  bool can_chat() const;
  ModelInfo model() const;
  CacheInfo cache() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kvasir
