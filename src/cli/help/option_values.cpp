#include "cli/help/option_values.h"

#include <array>

namespace kvasir {
namespace {

constexpr auto kFile = ValueKind::kFile;
constexpr auto kFolder = ValueKind::kFolder;
constexpr auto kText = ValueKind::kText;
constexpr std::string_view kFormats = "f32 f16 bf16 fp8_e4m3 fp8_e5m2 int8 int4 int2";

constexpr OptionValue kValues[] = {
    {"", "--model", "MODEL", kFile, "tales tales-draft"},
    {"", "--device", "DEVICE", kText, "auto cpu cuda:0 ref"},
    {"", "--isa", "NAME", kText, "auto scalar avx2 avx512 avx512dot"},
    {"", "--activations", "TYPE", kText, "auto f32"},
    {"convert", "--weights", "TYPE", kText, "f32 f16 bf16 q8_0 q4_0 q4_k q6_k"},
    {"", "--weights", "TYPE", kText, "as-stored int8 fp8"},
    {"", "--pooling", "HOW", kText, "mean cls last"},
    {"", "--kv", "POLICY", kText, kFormats},
    {"", "--kv-allow", "POLICY", kText, "any f32 f16 bf16 fp8_e4m3 fp8_e5m2 int8 int4 int2"},
    {"", "--versus", "POLICY", kText, kFormats},
    {"", "--kv-basis", "FILE", kFile},
    {"", "--kv-memory", "SIZE"},
    {"", "--swap-memory", "SIZE"},
    {"", "--memory", "SIZE"},
    {"", "--reserve", "SIZE"},
    {"", "--max-body", "SIZE"},
    {"", "--max-bodies-memory", "SIZE"},
    {"", "--eviction", "RULE", kText, "lru fifo cost"},
    {"", "--draft", "WHO", kFile, "auto off ngram suffix"},
    {"", "--draft-tokens", "N"},
    {"", "--draft-tree", "N"},
    {"", "--threads", "N"},
    {"", "--ctx-size", "TOKENS"},
    {"", "--block-size", "TOKENS"},
    {"", "--max-batch-tokens", "TOKENS"},
    {"", "--host", "ADDRESS", kText, "127.0.0.1 0.0.0.0 ::1"},
    {"", "--port", "PORT"},
    {"", "--alias", "NAME"},
    {"", "--keys", "FILE", kFile},
    {"", "--file", "FILE", kFile},
    {"", "--public-prefix", "FILE", kFile},
    {"", "--log-file", "FILE", kFile},
    {"", "--log-format", "FORMAT", kText, "text json"},
    {"", "--allow-host", "NAME"},
    {"", "--allow-origin", "ORIGIN"},
    {"", "--url", "URL", kText, "http://127.0.0.1:8080"},
    {"", "--api-key", "KEY"},
    {"", "--key", "KEY"},
    {"", "--text", "FILE", kFile},
    {"", "--judge-text", "FILE", kFile},
    {"", "--svg", "FILE", kFile},
    {"", "--resume", "FILE", kFile},
    {"synth", "--out", "FOLDER", kFolder},
    {"", "--out", "FILE", kFile},
    {"", "--config", "FILE", kFile},
    {"", "--gpu", "NAME"},
    {"", "--guaranteed", "SHARE"},
    {"", "--most", "SHARE"},
    {"", "--kv-canary", "SHARE"},
    {"", "--request-timeout", "SECONDS"},
    {"", "--idle-timeout", "SECONDS"},
    {"", "--drain-timeout", "SECONDS"},
    {"", "SHELL", "SHELL", kText, "bash zsh fish"},
};

// Few: what belongs to a machine or a person rather than to one call. No KVASIR_PORT: Kubernetes sets one of its own
// beside a service of that name.
constexpr OptionVariable kVariables[] = {
    {"--model", "KVASIR_MODEL"},       {"--device", "KVASIR_DEVICE"}, {"--threads", "KVASIR_THREADS"},
    {"--ctx-size", "KVASIR_CTX_SIZE"}, {"--kv", "KVASIR_KV"},         {"--kv-memory", "KVASIR_KV_MEMORY"},
    {"--keys", "KVASIR_KEYS"},         {"--url", "KVASIR_URL"},       {"--api-key", "KVASIR_API_KEY"},
};

constexpr OtherVariable kOthers[] = {
    {"keys", "XDG_CONFIG_HOME", "where kvasir/keys.json is, instead of ~/.config"},
    {"doctor", "XDG_CONFIG_HOME", "where kvasir/keys.json is, instead of ~/.config"},
    {"serve", "NOTIFY_SOCKET", "systemd's socket, which hears READY=1 when the model is loaded"},
};

constexpr ForeignOption kForeign[] = {
    {"--max-model-len", "--ctx-size"},
    {"--context-length", "--ctx-size"},
    {"--n-ctx", "--ctx-size"},
    {"--kv-cache-dtype", "--kv"},
    {"--cache-type-k", "--kv"},
    {"--cache-type-v", "--kv"},
    {"-ctk", "--kv"},
    {"-ctv", "--kv"},
    {"--mem-fraction-static", "--kv-memory"},
    {"--gpu-memory-utilization", "--kv-memory"},
    {"--kv-cache-memory-bytes", "--kv-memory"},
    {"--swap-space", "--swap-memory"},
    {"--cpu-offload-gb", "--swap-memory"},
    {"--served-model-name", "--alias"},
    {"--model-path", "--model"},
    {"--max-num-batched-tokens", "--max-batch-tokens"},
    {"--chunked-prefill-size", "--max-batch-tokens"},
    {"--ubatch-size", "--max-batch-tokens"},
    {"--api-key", "--keys"},
    {"--api-key-file", "--keys"},
    {"--n-predict", "--predict"},
    {"--max-tokens", "--predict"},
    {"--temperature", "--temp"},
    {"--repetition-penalty", "--repeat-penalty"},
    {"--system-prompt", "--system"},
    {"--speculative-config", "--draft"},
    {"--model-draft", "--draft"},
    {"--draft-max", "--draft-tokens"},
    {"--speculative-eagle-topk", "--draft-tree"},
    {"--page-size", "--block-size"},
    {"--timeout", "--request-timeout"},
    {"--quantization", "--weights"},
    {"--radix-eviction-policy", "--eviction"},
};

constexpr ExampleLine kExamples[] = {
    {"kvasir", "kvasir serve", "serve the shipped model, its page at http://127.0.0.1:8080"},
    {"kvasir", "kvasir run -p 'Once upon a time'", "go on with a text"},
    {"kvasir", "kvasir plan -m llama-3.1-8b --gpu h100", "what will fit, before it is downloaded"},
    {"kvasir serve", "kvasir serve", "the shipped model, on this machine only"},
    {"kvasir serve", "kvasir serve -m qwen3-8b-q4_k.gguf -c 32768 --kv int8", "a file, its cache in 8 bits"},
    {"kvasir serve", "kvasir serve --host 0.0.0.0 --keys keys.json", "for others, who need keys"},
    {"kvasir serve", "kvasir serve --kv f16 --kv-allow int4 --kv-canary 1%", "int4 for who asks, and watched"},
    {"kvasir top", "kvasir top", "the server of this machine"},
    {"kvasir top", "kvasir top --url http://gpu7:8080 --api-key kv-…", "another one, with an operator's key"},
    {"kvasir top", "kvasir top --once", "print what is, and end"},
    {"kvasir keys", "kvasir keys add alice", "make a tenant"},
    {"kvasir keys", "kvasir keys list", "who there is"},
    {"kvasir keys add", "kvasir keys add alice --guaranteed 20% --most 50%", "with a share of the cache"},
    {"kvasir keys add", "kvasir keys add ops --operator", "who sees everybody's numbers"},
    {"kvasir keys list", "kvasir keys list --file keys.json", "of another file"},
    {"kvasir keys remove", "kvasir keys remove alice", "from now on this key opens nothing"},
    {"kvasir run", "kvasir run", "chat on the terminal"},
    {"kvasir run", "kvasir run -p 'Once upon a time' -n 100 --temp 0", "go on with a text, the same each time"},
    {"kvasir run", "kvasir run --chat -p 'Tell me a story about a fox.' -q", "one answer, and nothing else"},
    {"kvasir embed", "kvasir embed -m bge-small-en 'a fox' 'a crow'", "two vectors"},
    {"kvasir embed", "kvasir embed -m bge-small-en -", "of each line of the input"},
    {"kvasir rerank", "kvasir rerank -m bge-reranker 'who is sly' 'a fox' 'a stone'", "which text says more of it"},
    {"kvasir bench", "kvasir bench", "the shipped model on this machine"},
    {"kvasir bench", "kvasir bench -p 512 -n 64 -d 0,2048 -b 1,8", "prompts and answers, at depths and batches"},
    {"kvasir bench", "kvasir bench --requests 64 --prompt 256 --generate 64", "many requests at once"},
    {"kvasir eval", "kvasir eval --text book.txt --kv int8 --kv int4", "what two policies cost"},
    {"kvasir tune", "kvasir tune --text book.txt --bits 4 -o policy.txt", "the best policy of four bits"},
    {"kvasir plan", "kvasir plan -m llama-3.1-8b -c 32768 -u 16 --memory 24GB", "whether it fits"},
    {"kvasir plan", "kvasir plan -m deepseek-v3 --gpu h200 --kv fp8_e4m3 --json", "for a script"},
    {"kvasir convert", "kvasir convert -m tales -o tales.gguf --weights q8_0", "the shipped model as one file"},
    {"kvasir synth", "kvasir synth --shape llama-3.2-1b --out big", "random weights of a known shape"},
    {"kvasir doctor", "kvasir doctor", "what this machine has, and what would help"},
    {"kvasir doctor", "kvasir doctor --isolation", "try to see what another tenant has cached"},
    {"kvasir completions", "kvasir completions bash > ~/.local/share/bash-completion/completions/kvasir", "for bash"},
    {"kvasir completions", "kvasir completions zsh > ~/.zfunc/_kvasir", "for zsh, with ~/.zfunc in fpath"},
    {"kvasir completions", "kvasir completions fish > ~/.config/fish/completions/kvasir.fish", "for fish"},
    {"kvasir man", "kvasir man > kvasir.1", "then: man ./kvasir.1"},
};

}  // namespace

std::span<const OptionValue> option_values() { return kValues; }
std::span<const OptionVariable> option_variables() { return kVariables; }
std::span<const OtherVariable> other_variables() { return kOthers; }
std::span<const ForeignOption> foreign_options() { return kForeign; }
std::span<const ExampleLine> example_lines() { return kExamples; }

}  // namespace kvasir
