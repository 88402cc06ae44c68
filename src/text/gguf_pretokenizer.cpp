#include "text/gguf_pretokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>

#include "base/error.h"

namespace kvasir {
namespace {

using Patterns = std::span<const std::string_view>;

// What llama.cpp uses for these names, and where it notes that a model's own tokenizer.json has another pattern, that
// one; "default" is llama.cpp's alone. Each cuts what the one before it left.
constexpr std::string_view kGpt2 = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen35 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+)"
    R"(|\s+(?!\S)|\s+)";
constexpr std::string_view kTekken =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
    R"(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kGpt4o =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kSeedCoder =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kBailing =
    R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)";
constexpr std::string_view kDeepseek3 =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+)"
    R"(| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kJais2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+)"
    R"(|\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S))"
    R"(|\s{1,2}(?!\S)|\s{1})";
constexpr std::string_view kExaoneMoe =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?)"
    R"(|\s*[\r\n]|\s+(?!\S)|\s+)";
constexpr std::string_view kMiniCpm5 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kYoutuLetters =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
// Korean, marks of Chinese and Japanese, Bopomofo, and Chinese with the two syllabaries.
constexpr std::string_view kYoutuScripts =
    R"([\x{AC00}-\x{D7A3}\x{3131}-\x{318E}]+|[\x{FF01}\x{2026}\x{201C}\x{201D}\x{2018}\x{2019}\x{2014}\x{FF1A}\x{FF1B})"
    R"(\x{FF0C}\x{3001}-\x{303F}\x{FE30}-\x{FE4F}]+|[\x{3105}-\x{312F}]+|[\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)";
// Digits in groups of three, counted from the end of the row.
constexpr std::string_view kDigitsFromTheEnd = R"(\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N})))";
constexpr std::string_view kAfmoeScripts =
    R"([\x{4E00}-\x{9FFF}\x{3400}-\x{4DBF}\x{F900}-\x{FAFF}\x{3040}-\x{309F}\x{30A0}-\x{30FF}\x{FF65}-\x{FF9F})"
    R"(\x{2F00}-\x{2FDF}\x{E40}-\x{E7F}\x{E80}-\x{EFF}\x{1780}-\x{17FF}\x{1000}-\x{109F}\x{AA60}-\x{AA7F})"
    R"(\x{A9E0}-\x{A9FF}\x{AC00}-\x{D7AF}\x{1100}-\x{11FF}]+)";
// What Kimi K2's own tokenizer has: gpt-4o's, but that Chinese is words of its own.
constexpr std::string_view kKimi =
    R"(\p{Han}+)"
    R"(|[^\r\n\p{L}\p{N}]?(?:(?!\p{Han})[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])*(?:(?!\p{Han})[\p{Ll}\p{Lm}\p{Lo}\p{M}])+)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|[^\r\n\p{L}\p{N}]?(?:(?!\p{Han})[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])+(?:(?!\p{Han})[\p{Ll}\p{Lm}\p{Lo}\p{M}])*)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kBloom = R"( ?[^(\s|.,!?…。，、।۔،)]+)";
constexpr std::string_view kAsian = R"([\x{4E00}-\x{9FA5}\x{800}-\x{4E00}\x{AC00}-\x{D7FF}]+)";
// Letters with case, as Unicode had them when DeepSeek LLM was made.
constexpr std::string_view kDeepseekLetters =
    R"(\s?[A-Za-z)"
    R"(\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC}-\x{1BF}\x{1C4}-\x{293}\x{295}-\x{2AF}\x{370}-\x{373})"
    R"(\x{376}\x{377}\x{37B}-\x{37D}\x{37F}\x{386}\x{388}-\x{38A}\x{38C}\x{38E}-\x{3A1}\x{3A3}-\x{3F5})"
    R"(\x{3F7}-\x{481}\x{48A}-\x{52F}\x{531}-\x{556}\x{10A0}-\x{10C5}\x{13A0}-\x{13F5}\x{13F8}-\x{13FD})"
    R"(\x{1C90}-\x{1CBA}\x{1CBD}-\x{1CBF}\x{1D00}-\x{1D2B}\x{1D6B}-\x{1D77}\x{1D79}-\x{1D9A}\x{1E00}-\x{1F15})"
    R"(\x{1F18}-\x{1F1D}\x{1F20}-\x{1F45}\x{1F48}-\x{1F4D}\x{1F50}-\x{1F57}\x{1F59}\x{1F5B}\x{1F5D})"
    R"(\x{1F5F}-\x{1F7D}\x{1F80}-\x{1FB4}\x{1FB6}-\x{1FBC}\x{1FBE}\x{1FC2}-\x{1FC4}\x{1FC6}-\x{1FCC})"
    R"(\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB}\x{1FE0}-\x{1FEC}\x{1FF2}-\x{1FF4}\x{1FF6}-\x{1FFC}\x{2102}\x{2107})"
    R"(\x{210A}-\x{2113}\x{2115}\x{2119}-\x{211D}\x{2124}\x{2126}\x{2128}\x{212A}-\x{212D}\x{212F}-\x{2134}\x{2139})"
    R"(\x{213C}-\x{213F}\x{2145}-\x{2149}\x{214E}\x{2183}\x{2184}\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4})"
    R"(\x{2CEB}-\x{2CEE}\x{2CF2}\x{2CF3}\x{A640}-\x{A66D}\x{A680}-\x{A69B}\x{A722}-\x{A76F}\x{A771}-\x{A787})"
    R"(\x{A78B}-\x{A78E}\x{AB70}-\x{ABBF}\x{FB00}-\x{FB06}\x{FB13}-\x{FB17}\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A})"
    R"(\x{10400}-\x{1044F}\x{104B0}-\x{104D3}\x{104D8}-\x{104FB}\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2})"
    R"(\x{118A0}-\x{118DF}\x{1E900}-\x{1E943})"
    R"(]+)";

constexpr std::array<std::string_view, 1> kGpt2Steps{kGpt2};
constexpr std::array<std::string_view, 2> kDigitsThenGpt2{R"(\p{N})", kGpt2};
constexpr std::array<std::string_view, 1> kLlama3Steps{kLlama3};
constexpr std::array<std::string_view, 1> kQwen2Steps{kQwen2};
constexpr std::array<std::string_view, 1> kQwen35Steps{kQwen35};
constexpr std::array<std::string_view, 1> kTekkenSteps{kTekken};
constexpr std::array<std::string_view, 1> kGpt4oSteps{kGpt4o};
constexpr std::array<std::string_view, 1> kSeedCoderSteps{kSeedCoder};
constexpr std::array<std::string_view, 1> kBailingSteps{kBailing};
constexpr std::array<std::string_view, 1> kBloomSteps{kBloom};
constexpr std::array<std::string_view, 2> kVikingSteps{kBloom, R"(\p{N})"};
constexpr std::array<std::string_view, 3> kFalconSteps{R"([\p{P}$+<=>\^~|`]+)", kGpt2, "[0-9][0-9][0-9]"};
constexpr std::array<std::string_view, 4> kDefaultSteps{R"([\p{P}$+<=>\^~|]+)", kGpt2, R"(\p{N}+)",
                                                        "[0-9][0-9][0-9]"};
constexpr std::array<std::string_view, 6> kDeepseekLlmSteps{
    R"([\r\n])",
    kDeepseekLetters,
    R"(\s?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3000}-\x{3002}]+)",
    R"(\s+$)",
    kAsian,
    R"(\p{N}+)"};
constexpr std::array<std::string_view, 5> kDeepseekCoderSteps{R"([\r\n])", R"(\s?\p{L}+)", R"(\s?\p{P}+)", kAsian,
                                                              R"(\p{N})"};
constexpr std::array<std::string_view, 3> kDeepseek3Steps{
    R"(\p{N}{1,3})", R"([\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)", kDeepseek3};

constexpr std::array<std::string_view, 1> kJais2Steps{kJais2};
constexpr std::array<std::string_view, 1> kExaoneMoeSteps{kExaoneMoe};
constexpr std::array<std::string_view, 2> kMiniCpm5Steps{R"(\p{N}{1,3})", kMiniCpm5};
constexpr std::array<std::string_view, 2> kYoutuSteps{kYoutuScripts, kYoutuLetters};
constexpr std::array<std::string_view, 2> kTinyAyaSteps{kDigitsFromTheEnd, kGpt4o};
constexpr std::array<std::string_view, 2> kSuperBpeSteps{R"(\p{N}+)", kDigitsFromTheEnd};
constexpr std::array<std::string_view, 3> kAfmoeSteps{kDigitsFromTheEnd, kAfmoeScripts, kDeepseek3};
constexpr std::array<std::string_view, 2> kLagunaSteps{R"([^\n]+|[\n]+)", kQwen2};
constexpr std::array<std::string_view, 1> kKimiSteps{kKimi};
constexpr std::array<std::string_view, 6> kChameleonSteps{
    "<sentinel:[0-9]+>",       "(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z",
    R"([\t\n]|    |  )",       R"(\p{N})",
    R"([\p{P}!-/:-@\[-`{-~])", R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S))"};

struct Known {
  std::string_view name;
  Patterns patterns;
  bool ignore_merges = false;
  bool add_bos = false;
};

constexpr bool kWholeWords = true;
constexpr bool kBos = true;

constexpr std::array kKnown = std::to_array<Known>({
    {"default", kDefaultSteps},
    {"gpt-2", kGpt2Steps},
    {"phi-2", kGpt2Steps},
    {"mpt", kGpt2Steps},
    {"olmo", kGpt2Steps},
    {"jais", kGpt2Steps},
    {"gigachat", kGpt2Steps},
    {"mellum", kGpt2Steps},
    {"a.x-4.0", kGpt2Steps},
    {"trillion", kGpt2Steps},
    {"granite-docling", kGpt2Steps},
    {"exaone4", kGpt2Steps},
    {"starcoder", kDigitsThenGpt2},
    {"refact", kDigitsThenGpt2},
    {"command-r", kDigitsThenGpt2},
    {"smollm", kDigitsThenGpt2},
    {"codeshell", kDigitsThenGpt2},
    {"exaone", kDigitsThenGpt2},
    {"minerva-7b", kDigitsThenGpt2},
    {"mellum2", kDigitsThenGpt2},
    {"llama3", kLlama3Steps, kWholeWords, kBos},
    {"llama-v3", kLlama3Steps, kWholeWords, kBos},
    {"llama-bpe", kLlama3Steps, kWholeWords, kBos},
    {"falcon3", kLlama3Steps, kWholeWords, kBos},
    {"falcon-h1", kLlama3Steps, kWholeWords, kBos},
    {"pixtral", kLlama3Steps, kWholeWords, kBos},
    {"midm-2.0", kLlama3Steps, kWholeWords, kBos},
    {"lfm2", kLlama3Steps, kWholeWords, kBos},
    {"dbrx", kLlama3Steps},
    {"smaug-bpe", kLlama3Steps},
    {"glm4", kLlama3Steps},
    {"chatglm-bpe", kLlama3Steps},
    {"qwen2", kQwen2Steps},
    {"deepseek-r1-qwen", kQwen2Steps},
    {"kormo", kQwen2Steps},
    {"f2llmv2", kQwen2Steps},
    {"megrez", kQwen2Steps},
    {"stablelm2", kQwen2Steps},
    {"hunyuan", kQwen2Steps},
    {"solar-open", kQwen2Steps},
    {"grok-2", kQwen2Steps},
    {"qwen35", kQwen35Steps},
    {"tekken", kTekkenSteps, kWholeWords, kBos},
    {"gpt-4o", kGpt4oSteps},
    {"llama4", kGpt4oSteps},
    {"kanana2", kGpt4oSteps},
    {"minimax-m2", kGpt4oSteps},
    {"seed-coder", kSeedCoderSteps},
    {"bailingmoe", kBailingSteps},
    {"bailingmoe2", kBailingSteps},
    {"llada-moe", kBailingSteps},
    {"bloom", kBloomSteps},
    {"poro-chat", kBloomSteps},
    {"gpt3-finnish", kBloomSteps},
    {"viking", kVikingSteps},
    {"falcon", kFalconSteps},
    {"deepseek-llm", kDeepseekLlmSteps},
    {"deepseek-coder", kDeepseekCoderSteps},
    {"deepseek-v3", kDeepseek3Steps},
    {"hunyuan-dense", kDeepseek3Steps},
    {"joyai-llm", kDeepseek3Steps},
    {"jina-v1-en", kGpt2Steps},
    {"jina-v2-code", kGpt2Steps},
    {"jina-v2-de", kGpt2Steps},
    {"jina-v2-es", kGpt2Steps},
    {"jina-de", kGpt2Steps},
    {"jina-es", kGpt2Steps},
    {"roberta-bpe", kGpt2Steps},
    {"modern-bert", kGpt2Steps},
    {"jina-v5-nano", kLlama3Steps, kWholeWords, kBos},
    {"talkie", kGpt4oSteps},
    {"granite-embed-multi-97m", kGpt4oSteps, kWholeWords},
    {"jais-2", kJais2Steps},
    {"exaone-moe", kExaoneMoeSteps},
    {"minicpm5", kMiniCpm5Steps, kWholeWords},
    {"youtu", kYoutuSteps, kWholeWords},
    {"tiny_aya", kTinyAyaSteps},
    {"cohere2moe", kTinyAyaSteps},
    {"superbpe", kSuperBpeSteps},
    {"afmoe", kAfmoeSteps},
    {"laguna", kLagunaSteps},
    {"kimi-k2", kKimiSteps},
    {"chameleon", kChameleonSteps, !kWholeWords, kBos},
});

}  // namespace

std::vector<std::string_view> known_gguf_pretokenizers() {
  std::vector<std::string_view> names;
  names.reserve(std::size(kKnown));
  for (const Known& known : kKnown) names.push_back(known.name);
  return names;
}

GgufPretokenizer gguf_pretokenizer(std::string_view name, const std::string& where) {
  const auto* known = std::ranges::find(kKnown, name.empty() ? "default" : name, &Known::name);
  if (known == kKnown.end()) {
    fail_input(
        fmt::format("the pre-tokenizer '{}' is not known", name.substr(0, 100)), where,
        fmt::format("use the model's tokenizer.json, or one of {}", fmt::join(known_gguf_pretokenizers(), ", ")));
  }
  GgufPretokenizer out{{}, known->ignore_merges, known->add_bos};
  for (const std::string_view pattern : known->patterns) out.steps.emplace_back(SplitStep{Regex(pattern, where)});
  return out;
}

std::string_view gguf_pretokenizer_name(const std::vector<Pretokenizer::Step>& steps, bool ignore_merges) {
  const auto same = [](const Pretokenizer::Step& step, std::string_view pattern) {
    const auto* split = std::get_if<SplitStep>(&step);
    return split != nullptr && split->behavior == SplitBehavior::kIsolated &&
           split->matches == SplitStep::Matches::kPattern && split->pattern.pattern() == pattern;
  };
  for (const Known& known : kKnown) {
    if (known.ignore_merges == ignore_merges && std::ranges::equal(steps, known.patterns, same)) return known.name;
  }
  return "";
}

}  // namespace kvasir
