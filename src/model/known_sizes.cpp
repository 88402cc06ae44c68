// Sizes as the models' makers publish them in config.json.
#include "model/known_sizes.h"

#include <array>

namespace kvasir {
namespace {

constexpr std::string_view kLlama = "llama";
constexpr std::string_view kMistral = "mistral";
constexpr std::string_view kQwen2 = "qwen2";
constexpr std::string_view kQwen3 = "qwen3";
constexpr std::string_view kQwen3Moe = "qwen3_moe";
constexpr std::string_view kMixtral = "mixtral";
constexpr std::string_view kOlmoe = "olmoe";
constexpr std::string_view kGemma2 = "gemma2";
constexpr std::string_view kGemma3 = "gemma3_text";
constexpr std::string_view kPhi3 = "phi3";
constexpr std::string_view kGpt2 = "gpt2";

using Row = KnownShape;

// clang-format off
constexpr std::array kRows{
    //  name                    family   layers hidden  ffn   heads kv  dim  vocab  context theta    tied
    Row{"tales",                kLlama,   10,   384,  1024,   6,   2,  64,   8192,   2048, 1e4, true},
    Row{"tales-draft",          kLlama,    2,   192,   512,   3,   1,  64,   8192,   2048, 1e4, true},
    Row{"llama-2-7b",           kLlama,   32,  4096, 11008,  32,  32, 128,  32000,   4096, 1e4, false, DType::kF16},
    Row{"llama-2-13b",          kLlama,   40,  5120, 13824,  40,  40, 128,  32000,   4096, 1e4, false, DType::kF16},
    Row{"llama-2-70b",          kLlama,   80,  8192, 28672,  64,   8, 128,  32000,   4096, 1e4, false, DType::kF16},
    Row{"llama-3-8b",           kLlama,   32,  4096, 14336,  32,   8, 128, 128256,   8192, 5e5},
    Row{"llama-3-70b",          kLlama,   80,  8192, 28672,  64,   8, 128, 128256,   8192, 5e5},
    Row{"llama-3.1-8b",         kLlama,   32,  4096, 14336,  32,   8, 128, 128256, 131072, 5e5, false, DType::kBF16, 8},
    Row{"llama-3.1-70b",        kLlama,   80,  8192, 28672,  64,   8, 128, 128256, 131072, 5e5, false, DType::kBF16, 8},
    Row{"llama-3.1-405b",       kLlama,  126, 16384, 53248, 128,   8, 128, 128256, 131072, 5e5, false, DType::kBF16, 8},
    Row{"llama-3.2-1b",         kLlama,   16,  2048,  8192,  32,   8,  64, 128256, 131072, 5e5, true, DType::kBF16, 32},
    Row{"llama-3.2-3b",         kLlama,   28,  3072,  8192,  24,   8, 128, 128256, 131072, 5e5, true, DType::kBF16, 32},
    Row{"llama-3.3-70b",        kLlama,   80,  8192, 28672,  64,   8, 128, 128256, 131072, 5e5, false, DType::kBF16, 8},
    Row{"tinyllama-1.1b",       kLlama,   22,  2048,  5632,  32,   4,  64,  32000,   2048, 1e4},
    Row{"smollm2-135m",         kLlama,   30,   576,  1536,   9,   3,  64,  49152,   8192, 1e5, true},
    Row{"smollm2-360m",         kLlama,   32,   960,  2560,  15,   5,  64,  49152,   8192, 1e5, true},
    Row{"smollm2-1.7b",         kLlama,   24,  2048,  8192,  32,  32,  64,  49152,   8192, 1.3e5, true},
    Row{"mistral-7b-v0.1",      kMistral, 32,  4096, 14336,  32,   8, 128,  32000,  32768, 1e4, false, DType::kBF16, 0, 4096},
    Row{"mistral-7b-v0.2",      kMistral, 32,  4096, 14336,  32,   8, 128,  32000,  32768, 1e6},
    Row{"mistral-7b-v0.3",      kMistral, 32,  4096, 14336,  32,   8, 128,  32768,  32768, 1e6},
    Row{"mistral-nemo-12b",     kMistral, 40,  5120, 14336,  32,   8, 128, 131072, 131072, 1e6},
    Row{"qwen2.5-0.5b",         kQwen2,   24,   896,  4864,  14,   2,  64, 151936,  32768, 1e6, true},
    Row{"qwen2.5-1.5b",         kQwen2,   28,  1536,  8960,  12,   2, 128, 151936,  32768, 1e6, true},
    Row{"qwen2.5-3b",           kQwen2,   36,  2048, 11008,  16,   2, 128, 151936,  32768, 1e6, true},
    Row{"qwen2.5-7b",           kQwen2,   28,  3584, 18944,  28,   4, 128, 152064, 131072, 1e6},
    Row{"qwen2.5-14b",          kQwen2,   48,  5120, 13824,  40,   8, 128, 152064, 131072, 1e6},
    Row{"qwen2.5-32b",          kQwen2,   64,  5120, 27648,  40,   8, 128, 152064, 131072, 1e6},
    Row{"qwen2.5-72b",          kQwen2,   80,  8192, 29568,  64,   8, 128, 152064, 131072, 1e6},
    Row{"qwen3-0.6b",           kQwen3,   28,  1024,  3072,  16,   8, 128, 151936,  40960, 1e6, true},
    Row{"qwen3-1.7b",           kQwen3,   28,  2048,  6144,  16,   8, 128, 151936,  40960, 1e6, true},
    Row{"qwen3-4b",             kQwen3,   36,  2560,  9728,  32,   8, 128, 151936,  40960, 1e6, true},
    Row{"qwen3-8b",             kQwen3,   36,  4096, 12288,  32,   8, 128, 151936,  40960, 1e6},
    Row{"qwen3-14b",            kQwen3,   40,  5120, 17408,  40,   8, 128, 151936,  40960, 1e6},
    Row{"qwen3-32b",            kQwen3,   64,  5120, 25600,  64,   8, 128, 151936,  40960, 1e6},
    Row{"qwen3-30b-a3b",        kQwen3Moe, 48, 2048,   768,  32,   4, 128, 151936,  40960, 1e6, false, DType::kBF16, 0, 0, 128, 8},
    Row{"mixtral-8x7b",         kMixtral, 32,  4096, 14336,  32,   8, 128,  32000,  32768, 1e6, false, DType::kBF16, 0, 0, 8, 2},
    Row{"olmoe-1b-7b",          kOlmoe,   16,  2048,  1024,  16,  16, 128,  50304,   4096, 1e4, false, DType::kBF16, 0, 0, 64, 8},
    Row{"gemma-2-2b",           kGemma2,  26,  2304,  9216,   8,   4, 256, 256000,   8192, 1e4, true, DType::kBF16, 0, 4096},
    Row{"gemma-2-9b",           kGemma2,  42,  3584, 14336,  16,   8, 256, 256000,   8192, 1e4, true, DType::kBF16, 0, 4096},
    Row{"gemma-2-27b",          kGemma2,  46,  4608, 36864,  32,  16, 128, 256000,   8192, 1e4, true, DType::kBF16, 0, 4096},
    Row{"gemma-3-1b",           kGemma3,  26,  1152,  6912,   4,   1, 256, 262144,  32768, 1e6, true, DType::kBF16, 0, 512},
    Row{"gemma-3-4b",           kGemma3,  34,  2560, 10240,   8,   4, 256, 262208, 131072, 1e6, true, DType::kBF16, 8, 1024},
    Row{"gemma-3-12b",          kGemma3,  48,  3840, 15360,  16,   8, 256, 262208, 131072, 1e6, true, DType::kBF16, 8, 1024},
    Row{"gemma-3-27b",          kGemma3,  62,  5376, 21504,  32,  16, 128, 262208, 131072, 1e6, true, DType::kBF16, 8, 1024},
    Row{"phi-3-mini-4k",        kPhi3,    32,  3072,  8192,  32,  32,  96,  32064,   4096, 1e4, false, DType::kBF16, 0, 2047},
    Row{"phi-3-mini-128k",      kPhi3,    32,  3072,  8192,  32,  32,  96,  32064, 131072, 1e4},
    Row{"gpt2",                 kGpt2,    12,   768,  3072,  12,  12,  64,  50257,   1024, 0, true, DType::kF32},
    Row{"gpt2-medium",          kGpt2,    24,  1024,  4096,  16,  16,  64,  50257,   1024, 0, true, DType::kF32},
    Row{"gpt2-large",           kGpt2,    36,  1280,  5120,  20,  20,  64,  50257,   1024, 0, true, DType::kF32},
    Row{"gpt2-xl",              kGpt2,    48,  1600,  6400,  25,  25,  64,  50257,   1024, 0, true, DType::kF32},
    Row{"llama-7b",             kLlama,   32,  4096, 11008,  32,  32, 128,  32000,   2048, 1e4, false, DType::kF16},
    Row{"llama-13b",            kLlama,   40,  5120, 13824,  40,  40, 128,  32000,   2048, 1e4, false, DType::kF16},
    Row{"llama-30b",            kLlama,   60,  6656, 17920,  52,  52, 128,  32000,   2048, 1e4, false, DType::kF16},
    Row{"llama-65b",            kLlama,   80,  8192, 22016,  64,  64, 128,  32000,   2048, 1e4, false, DType::kF16},
    Row{"codellama-7b",         kLlama,   32,  4096, 11008,  32,  32, 128,  32016,  16384, 1e6},
    Row{"codellama-13b",        kLlama,   40,  5120, 13824,  40,  40, 128,  32016,  16384, 1e6},
    Row{"codellama-34b",        kLlama,   48,  8192, 22016,  64,   8, 128,  32000,  16384, 1e6},
    Row{"codellama-70b",        kLlama,   80,  8192, 28672,  64,   8, 128,  32016,   4096, 1e4},
    Row{"open-llama-3b",        kLlama,   26,  3200,  8640,  32,  32, 100,  32000,   2048, 1e4, false, DType::kF16},
    Row{"yi-6b",                kLlama,   32,  4096, 11008,  32,   4, 128,  64000,   4096, 5e6},
    Row{"yi-9b",                kLlama,   48,  4096, 11008,  32,   4, 128,  64000,   4096, 1e4},
    Row{"yi-34b",               kLlama,   60,  7168, 20480,  56,   8, 128,  64000,   4096, 5e6},
    Row{"yi-1.5-6b",            kLlama,   32,  4096, 11008,  32,   4, 128,  64000,   4096, 5e6},
    Row{"yi-1.5-9b",            kLlama,   48,  4096, 11008,  32,   4, 128,  64000,   4096, 5e6},
    Row{"yi-1.5-34b",           kLlama,   60,  7168, 20480,  56,   8, 128,  64000,   4096, 5e6},
    Row{"deepseek-llm-7b",      kLlama,   30,  4096, 11008,  32,  32, 128, 102400,   4096, 1e4},
    Row{"deepseek-llm-67b",     kLlama,   95,  8192, 22016,  64,   8, 128, 102400,   4096, 1e4},
    Row{"deepseek-coder-1.3b",  kLlama,   24,  2048,  5504,  16,  16, 128,  32256,  16384, 1e5},
    Row{"deepseek-coder-6.7b",  kLlama,   32,  4096, 11008,  32,  32, 128,  32256,  16384, 1e5},
    Row{"deepseek-coder-33b",   kLlama,   62,  7168, 19200,  56,   8, 128,  32256,  16384, 1e5},
    Row{"deepseek-r1-distill-llama-8b", kLlama, 32, 4096, 14336, 32, 8, 128, 128256, 131072, 5e5, false, DType::kBF16, 8},
    Row{"deepseek-r1-distill-llama-70b", kLlama, 80, 8192, 28672, 64, 8, 128, 128256, 131072, 5e5, false, DType::kBF16, 8},
    Row{"solar-10.7b",          kLlama,   48,  4096, 14336,  32,   8, 128,  32000,   4096, 1e4, false, DType::kF16},
    Row{"falcon3-1b",           kLlama,   18,  2048,  8192,   8,   4, 256, 131072,   8192, 1000042},
    Row{"falcon3-3b",           kLlama,   22,  3072,  9216,  12,   4, 256, 131072,  32768, 1000042},
    Row{"falcon3-7b",           kLlama,   28,  3072, 23040,  12,   4, 256, 131072,  32768, 1000042},
    Row{"falcon3-10b",          kLlama,   40,  3072, 23040,  12,   4, 256, 131072,  32768, 1000042},
    Row{"smollm-135m",          kLlama,   30,   576,  1536,   9,   3,  64,  49152,   2048, 1e4, true},
    Row{"smollm-360m",          kLlama,   32,   960,  2560,  15,   5,  64,  49152,   2048, 1e4, true},
    Row{"smollm-1.7b",          kLlama,   24,  2048,  8192,  32,  32,  64,  49152,   2048, 1e4, true},
    Row{"codestral-22b",        kMistral, 56,  6144, 16384,  48,   8, 128,  32768,  32768, 1e6},
    Row{"mistral-small-22b",    kMistral, 56,  6144, 16384,  48,   8, 128,  32768, 131072, 1e6},
    Row{"mistral-small-24b",    kMistral, 40,  5120, 32768,  32,   8, 128, 131072,  32768, 1e8},
    Row{"devstral-small-24b",   kMistral, 40,  5120, 32768,  32,   8, 128, 131072, 131072, 1e9},
    Row{"mistral-large-123b",   kMistral, 88, 12288, 28672,  96,   8, 128,  32768, 131072, 1e6},
    Row{"qwen1.5-0.5b",         kQwen2,   24,  1024,  2816,  16,  16,  64, 151936,  32768, 1e6, true},
    Row{"qwen1.5-1.8b",         kQwen2,   24,  2048,  5504,  16,  16, 128, 151936,  32768, 1e6},
    Row{"qwen1.5-4b",           kQwen2,   40,  2560,  6912,  20,  20, 128, 151936,  32768, 5e6},
    Row{"qwen1.5-7b",           kQwen2,   32,  4096, 11008,  32,  32, 128, 151936,  32768, 1e6},
    Row{"qwen1.5-14b",          kQwen2,   40,  5120, 13696,  40,  40, 128, 152064,  32768, 1e6},
    Row{"qwen1.5-32b",          kQwen2,   64,  5120, 27392,  40,   8, 128, 152064,  32768, 1e6},
    Row{"qwen1.5-72b",          kQwen2,   80,  8192, 24576,  64,  64, 128, 152064,  32768, 1e6},
    Row{"qwen1.5-110b",         kQwen2,   80,  8192, 49152,  64,   8, 128, 152064,  32768, 1e6},
    Row{"qwen2-0.5b",           kQwen2,   24,   896,  4864,  14,   2,  64, 151936, 131072, 1e6, true},
    Row{"qwen2-1.5b",           kQwen2,   28,  1536,  8960,  12,   2, 128, 151936, 131072, 1e6, true},
    Row{"qwen2-7b",             kQwen2,   28,  3584, 18944,  28,   4, 128, 152064, 131072, 1e6},
    Row{"qwen2-72b",            kQwen2,   80,  8192, 29568,  64,   8, 128, 152064, 131072, 1e6},
    Row{"qwen2.5-coder-0.5b",   kQwen2,   24,   896,  4864,  14,   2,  64, 151936,  32768, 1e6, true},
    Row{"qwen2.5-coder-1.5b",   kQwen2,   28,  1536,  8960,  12,   2, 128, 151936,  32768, 1e6, true},
    Row{"qwen2.5-coder-3b",     kQwen2,   36,  2048, 11008,  16,   2, 128, 151936,  32768, 1e6, true},
    Row{"qwen2.5-coder-7b",     kQwen2,   28,  3584, 18944,  28,   4, 128, 152064,  32768, 1e6},
    Row{"qwen2.5-coder-14b",    kQwen2,   48,  5120, 13824,  40,   8, 128, 152064,  32768, 1e6},
    Row{"qwen2.5-coder-32b",    kQwen2,   64,  5120, 27648,  40,   8, 128, 152064,  32768, 1e6},
    Row{"qwen2.5-math-1.5b",    kQwen2,   28,  1536,  8960,  12,   2, 128, 151936,   4096, 1e4, true},
    Row{"qwen2.5-math-7b",      kQwen2,   28,  3584, 18944,  28,   4, 128, 152064,   4096, 1e4},
    Row{"qwq-32b",              kQwen2,   64,  5120, 27648,  40,   8, 128, 152064,  40960, 1e6},
    Row{"deepseek-r1-distill-qwen-1.5b", kQwen2, 28, 1536, 8960, 12, 2, 128, 151936, 131072, 1e4},
    Row{"deepseek-r1-distill-qwen-7b", kQwen2, 28, 3584, 18944, 28, 4, 128, 152064, 131072, 1e4},
    Row{"deepseek-r1-distill-qwen-14b", kQwen2, 48, 5120, 13824, 40, 8, 128, 152064, 131072, 1e6},
    Row{"deepseek-r1-distill-qwen-32b", kQwen2, 64, 5120, 27648, 40, 8, 128, 152064, 131072, 1e6},
    Row{"deepseek-r1-0528-qwen3-8b", kQwen3, 36, 4096, 12288, 32, 8, 128, 151936, 131072, 1e6},
    Row{"qwen3-4b-2507",        kQwen3,   36,  2560,  9728,  32,   8, 128, 151936, 262144, 5e6, true},
    Row{"qwen3-30b-a3b-2507",   kQwen3Moe, 48, 2048,   768,  32,   4, 128, 151936, 262144, 1e7, false, DType::kBF16, 0, 0, 128, 8},
    Row{"qwen3-coder-30b-a3b",  kQwen3Moe, 48, 2048,   768,  32,   4, 128, 151936, 262144, 1e7, false, DType::kBF16, 0, 0, 128, 8},
    Row{"qwen3-235b-a22b",      kQwen3Moe, 94, 4096,  1536,  64,   4, 128, 151936,  40960, 1e6, false, DType::kBF16, 0, 0, 128, 8},
    Row{"qwen3-235b-a22b-2507", kQwen3Moe, 94, 4096,  1536,  64,   4, 128, 151936, 262144, 5e6, false, DType::kBF16, 0, 0, 128, 8},
    Row{"qwen3-coder-480b-a35b", kQwen3Moe, 62, 6144, 2560,  96,   8, 128, 151936, 262144, 1e7, false, DType::kBF16, 0, 0, 160, 8},
    Row{"mixtral-8x22b",        kMixtral, 56,  6144, 16384,  48,   8, 128,  32768,  65536, 1e6, false, DType::kBF16, 0, 0, 8, 2},
    Row{"gemma-3-270m",         kGemma3,  18,   640,  2048,   4,   1, 256, 262144,  32768, 1e6, true, DType::kBF16, 0, 512},
    Row{"phi-3-medium-4k",      kPhi3,    40,  5120, 17920,  40,  10, 128,  32064,   4096, 1e4, false, DType::kBF16, 0, 2047},
    Row{"distilgpt2",           kGpt2,     6,   768,  3072,  12,  12,  64,  50257,   1024, 0, true, DType::kF32},
};
// clang-format on

}  // namespace

std::span<const KnownShape> known_sizes() { return kRows; }

}  // namespace kvasir
