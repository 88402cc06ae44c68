#include "api/gguf_tokenizer.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "text/gguf_export.h"

namespace kvasir {
namespace {

constexpr std::string_view kModel = "tokenizer.ggml.model";
constexpr std::string_view kTokens = "tokenizer.ggml.tokens";
constexpr std::string_view kMerges = "tokenizer.ggml.merges";
constexpr std::string_view kTemplate = "tokenizer.chat_template";
// GGUF has three kinds of tokens that end something; a model's end tokens are shared out to them.
constexpr std::array<std::string_view, 3> kEnds{"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                                "tokenizer.ggml.eom_token_id"};
constexpr const char* kNone = "no_vocab";  // what files without a tokenizer say

std::vector<std::string> copied(const GgufStrings* strings) {
  if (strings == nullptr) return {};
  return {strings->begin(), strings->end()};
}

template <class T>
std::vector<T> copied(const GgufNumbers* numbers) {
  std::vector<T> out;
  if (numbers == nullptr) return out;
  out.reserve(numbers->size());
  for (std::size_t i = 0; i < numbers->size(); ++i) {
    // Types are small numbers; one that is not names none of them.
    out.push_back(static_cast<T>(std::clamp(numbers->at(i), -1e9, 1e9)));
  }
  return out;
}

struct Keys {
  std::vector<GgufOutKey> out;

  void add(std::string_view key, GgufOutValue value) { out.push_back({std::string(key), std::move(value)}); }
  void add_if(std::string_view key, std::optional<bool> flag) {
    if (flag) add(key, *flag);
  }
  void add_id(std::string_view key, std::int64_t id) {
    if (id >= 0) add(key, static_cast<std::uint32_t>(id));
  }
};

std::optional<GgufVocab> vocab_of(const std::filesystem::path& model, int size) {
  if (const auto gguf = find_gguf(model)) {
    const GgufModel file(*gguf);
    if (file.text_if(kModel).value_or(kNone) == kNone) return std::nullopt;
    return read_gguf_vocab(file);
  }
  if (!std::filesystem::exists(model / "tokenizer.json") && !std::filesystem::exists(model / "tokenizer.model"))
    return std::nullopt;
  return gguf_vocab_of(model, size);
}

std::string text_or_nothing(std::optional<std::string_view> text) { return std::string(text.value_or("")); }

}  // namespace

GgufVocab read_gguf_vocab(const GgufModel& model) {
  GgufVocab vocab;
  vocab.where = model.where();
  vocab.name = text_or_nothing(model.text_if("general.name"));
  vocab.model = text_or_nothing(model.text_if(kModel));
  if (vocab.model.empty() || vocab.model == kNone) model.fail("the file has no tokenizer");
  vocab.pre = text_or_nothing(model.text_if("tokenizer.ggml.pre"));
  vocab.tokens = copied(model.strings_if(kTokens));
  vocab.merges = copied(model.strings_if(kMerges));
  if (vocab.model == "gpt2" && model.strings_if(kMerges) == nullptr) model.fail("tokenizer.ggml.merges is missing");
  if (vocab.model == "gemma4" && model.strings_if(kMerges) == nullptr) model.fail("tokenizer.ggml.merges is missing");
  if (vocab.model == "llama" || vocab.model == "t5")
    vocab.scores = copied<float>(model.numbers_if("tokenizer.ggml.scores"));
  vocab.token_type = copied<std::int32_t>(model.numbers_if("tokenizer.ggml.token_type"));
  const auto id = [&](std::string_view key) { return model.integer_if(key, 0, UINT32_MAX); };
  vocab.bos_token_id = id("tokenizer.ggml.bos_token_id");
  vocab.eos_token_id = id("tokenizer.ggml.eos_token_id");
  vocab.unknown_token_id = id("tokenizer.ggml.unknown_token_id");
  vocab.add_bos_token = model.flag_if("tokenizer.ggml.add_bos_token");
  vocab.add_eos_token = model.flag_if("tokenizer.ggml.add_eos_token");
  vocab.add_space_prefix = model.flag_if("tokenizer.ggml.add_space_prefix");
  vocab.seperator_token_id = id("tokenizer.ggml.seperator_token_id");
  vocab.add_sep_token = model.flag_if("tokenizer.ggml.add_sep_token");
  vocab.remove_extra_whitespaces = model.flag_if("tokenizer.ggml.remove_extra_whitespaces");
  vocab.lowercase = model.flag_if("tokenizer.ggml.normalizer.lowercase");
  vocab.strip_accents = model.flag_if("tokenizer.ggml.normalizer.strip_accents");
  for (const std::int32_t byte : copied<std::int32_t>(model.numbers_if("tokenizer.ggml.precompiled_charsmap")))
    vocab.precompiled_charsmap += static_cast<char>(byte);
  if (const auto text = model.text_if(kTemplate)) vocab.chat_template = std::string(*text);
  return vocab;
}

Tokenizer load_tokenizer(const std::filesystem::path& model) {
  if (const auto gguf = find_gguf(model)) return make_tokenizer(read_gguf_vocab(GgufModel(*gguf)));
  return Tokenizer::load(model);
}

std::vector<GgufOutKey> gguf_tokenizer_keys(const std::filesystem::path& model, const ModelSpec& config) {
  const std::optional<GgufVocab> found = vocab_of(model, config.vocab);
  Keys keys;
  if (!found) {
    keys.add(kModel, std::string(kNone));
    return std::move(keys.out);
  }
  const GgufVocab& vocab = *found;
  keys.add(kModel, vocab.model);
  if (!vocab.pre.empty()) keys.add("tokenizer.ggml.pre", vocab.pre);
  keys.add(kTokens, vocab.tokens);
  if (!vocab.scores.empty()) keys.add("tokenizer.ggml.scores", vocab.scores);
  if (!vocab.token_type.empty()) keys.add("tokenizer.ggml.token_type", vocab.token_type);
  if (vocab.model == "gpt2" || vocab.model == "gemma4") keys.add(kMerges, vocab.merges);
  if (!vocab.precompiled_charsmap.empty()) {
    keys.add("tokenizer.ggml.precompiled_charsmap",
             std::vector<std::uint8_t>(vocab.precompiled_charsmap.begin(), vocab.precompiled_charsmap.end()));
  }
  keys.add_if("tokenizer.ggml.add_sep_token", vocab.add_sep_token);
  keys.add_if("tokenizer.ggml.remove_extra_whitespaces", vocab.remove_extra_whitespaces);
  keys.add_if("tokenizer.ggml.normalizer.lowercase", vocab.lowercase);
  keys.add_if("tokenizer.ggml.normalizer.strip_accents", vocab.strip_accents);
  keys.add_id("tokenizer.ggml.seperator_token_id", vocab.seperator_token_id.value_or(-1));
  keys.add_if("tokenizer.ggml.add_bos_token", vocab.add_bos_token);
  keys.add_if("tokenizer.ggml.add_eos_token", vocab.add_eos_token);
  keys.add_if("tokenizer.ggml.add_space_prefix", vocab.add_space_prefix);
  keys.add_id("tokenizer.ggml.unknown_token_id", vocab.unknown_token_id.value_or(-1));
  keys.add_id("tokenizer.ggml.bos_token_id", vocab.bos_token_id.value_or(config.bos));
  std::vector<std::int64_t> ends;
  if (vocab.eos_token_id) ends.push_back(*vocab.eos_token_id);
  for (const TokenId id : config.eos) {
    if (std::ranges::find(ends, id) == ends.end()) ends.push_back(id);
  }
  for (std::size_t i = 0; i < std::min(ends.size(), kEnds.size()); ++i) keys.add_id(kEnds[i], ends[i]);
  if (vocab.chat_template) keys.add(kTemplate, *vocab.chat_template);
  return std::move(keys.out);
}

}  // namespace kvasir
