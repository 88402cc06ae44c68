// How much of agents' prompts a hybrid's cache finds, beside one that never forgets and may stop at any token.
//
//     build/agent_trace                     # 200 chats, and memory for all that is ever kept
//     build/agent_trace --kv-memory 50MiB   # less of it: states and rows go, the oldest first
//     build/agent_trace --block-size 2144   # rows and states in steps of 2,144 tokens
//
// The chats (agent_chats.h) are all open at once; who asks next is drawn. Their template keeps thoughts while a turn
// goes on and drops them behind it, as Qwen3.5's does. Prompts, breakpoints and answers take the ways of `kvasir
// serve`; the model is small, has random weights, and says what the chat says.
#include <fmt/format.h>

#include <fstream>
#include <iostream>
#include <limits>
#include <numeric>
#include <sstream>
#include <string_view>
#include <unordered_set>

#include "agent_chats.h"
#include "backend/make_backend.h"
#include "base/bytes.h"
#include "engine/engine.h"
#include "model/random_model.h"
#include "server/answer/prompt_map.h"
#include "server/answer/reasoning_prompt.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace kvasir {
namespace {

struct Options {
  int chats = 200;
  int block_tokens = 16;
  std::uint64_t kv_bytes = std::uint64_t{4} << 30;
  std::string kv = "f16";
  std::string eviction = "lru";
  int state_budget = 4;
};

// The next token is the script's, whatever the model makes of it.
class Script final : public TokenConstraint {
 public:
  explicit Script(std::vector<TokenId> tokens) : tokens_(std::move(tokens)) {}

  void mask(std::span<float> logits) override {
    for (size_t i = 0; i < logits.size(); ++i) {
      if (static_cast<TokenId>(i) != tokens_[at_]) logits[i] = -std::numeric_limits<float>::infinity();
    }
  }
  void accept(TokenId token) override {
    if (ended() || token != tokens_[at_]) throw Error(Error::Kind::kBadInput, {"the script says another", "", ""});
    ++at_;
  }
  bool ended() const override { return at_ == tokens_.size(); }
  std::unique_ptr<TokenConstraint> fork() const override { return std::make_unique<Script>(*this); }

 private:
  std::vector<TokenId> tokens_;
  size_t at_ = 0;
};

// All texts that were ever computed, and how far another one agrees with any of them.
class EverythingSeen {
 public:
  std::int64_t agrees(std::span<const TokenId> tokens) const {
    std::uint64_t name = 0;
    std::int64_t count = 0;
    for (const TokenId token : tokens) {
      name = mix(name, static_cast<std::uint64_t>(token), 1);
      if (!prefixes_.contains(name)) break;
      ++count;
    }
    return count;
  }
  void add(std::span<const TokenId> tokens) {
    std::uint64_t name = 0;
    for (const TokenId token : tokens) prefixes_.insert(name = mix(name, static_cast<std::uint64_t>(token), 1));
  }

 private:
  std::unordered_set<std::uint64_t> prefixes_;
};

struct Totals {
  std::int64_t requests = 0;
  std::int64_t prompt = 0;
  std::int64_t ideal = 0;
  std::int64_t reused = 0;
  std::int64_t most_states = 0;
  std::int64_t longest = 0;
};

std::vector<std::string> words_of(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> words;
  for (std::string word; file >> word;) words.push_back(word);
  if (words.empty())
    throw Error(Error::Kind::kBadInput, {"there are no words", path, "run it in the repository's root"});
  return words;
}

std::string text_of_file(const std::string& path) {
  std::ostringstream out;
  out << std::ifstream(path).rdbuf();
  return out.str();
}

// Three layers with a state and one with rows, as Qwen3.5 has them. They are small, but a state takes as much as the
// rows of some 3,600 tokens: of Qwen3.6-35B-A3B it takes those of 3,216.
std::unique_ptr<Model> small_hybrid(Backend& backend, int vocab) {
  ModelSpec spec = load_config("tests/model/fixtures/qwen3_5");
  spec.layers = {spec.layers[0], spec.layers[0], spec.layers[0], spec.layers[1]};
  for (LayerSpec& layer : spec.layers) {
    if (layer.recurrent.none()) continue;
    layer.recurrent.k_dim = layer.recurrent.v_dim = 32;
  }
  spec.vocab = vocab;
  spec.context = 65536;
  spec.eos.clear();
  return make_random_model(spec, backend, {512, {}}, 1);
}

class Trace {
 public:
  explicit Trace(const Options& options)
      : options_(options),
        backend_(make_backend({"cpu", 1, "auto"})),
        tokenizer_(Tokenizer::load("models/tales")),
        template_(text_of_file("bench/agent_template.jinja"), "bench/agent_template.jinja"),
        model_(small_hybrid(*backend_, tokenizer_.vocab_size())),
        engine_(*backend_, *model_, config_of(options)) {}

  Totals run() {
    AgentChats source(words_of("models/held-out.txt"), 1);
    std::vector<AgentChat> chats;
    for (int i = 0; i < options_.chats; ++i) chats.push_back(source.chat(static_cast<std::uint64_t>(i)));
    std::vector<size_t> asked(chats.size(), 0);
    std::vector<size_t> open(chats.size());
    std::iota(open.begin(), open.end(), size_t{0});
    for (std::uint64_t draw = 0; !open.empty(); ++draw) {
      const size_t place = mix(7, draw, 3) % open.size();
      const size_t chat = open[place];
      ask(chats[chat], chats[chat].asked[asked[chat]++]);
      if (asked[chat] == chats[chat].asked.size()) open.erase(open.begin() + static_cast<std::ptrdiff_t>(place));
    }
    return totals_;
  }

 private:
  static EngineConfig config_of(const Options& options) {
    EngineConfig config;
    config.kv = parse_kv_policy(options.kv, "--kv");
    config.block_tokens = options.block_tokens;
    config.kv_bytes = options.kv_bytes;
    config.swap_bytes = 0;
    config.eviction = options.eviction;
    config.scheduler.state_budget = options.state_budget;
    config.scheduler.max_batch_tokens = 512;
    return config;
  }

  std::vector<Piece> render(const AgentChat& chat, const OrderedJson& messages) const {
    RenderOptions options;
    options.tools = chat.tools;
    return template_.render(messages, options);
  }

  // What the model says behind the prompt: the template's own words for the message, up to its end.
  std::vector<TokenId> answer_to(const AgentChat& chat, OrderedJson messages, size_t answer,
                                 const std::string& prompt) const {
    messages.push_back(chat.messages[answer]);
    RenderOptions options;
    options.tools = chat.tools;
    options.generation_prompt = GenerationPrompt::kNone;
    const std::string whole = text_of(template_.render(messages, options));
    CHECK(whole.starts_with(prompt));
    return tokenizer_.encode(std::string_view(whole).substr(prompt.size()), Tokenizer::Specials::kParse);
  }

  void ask(const AgentChat& chat, size_t answer) {
    OrderedJson messages = OrderedJson::array();
    for (size_t i = 0; i < answer; ++i) messages.push_back(chat.messages[i]);
    const std::vector<Piece> pieces = render(chat, messages);
    const std::string prompt = text_of(pieces);
    Request request;
    request.prompt = encode_chat(tokenizer_, pieces);
    const auto text_of_turn = [&](const OrderedJson& next) -> std::optional<std::string> {
      return text_of(render(chat, next));
    };
    if (const std::optional<size_t> kept = kept_by_next_turn(messages, prompt, text_of_turn)) {
      const TokenOffsets offsets(tokenizer_, pieces, request.prompt);
      add_breakpoint(request.breakpoints, {offsets.tokens_within(*kept)});
    }
    const std::vector<TokenId> says = answer_to(chat, messages, answer, prompt);
    request.max_tokens = std::ssize(says);
    request.constraint = std::make_shared<Script>(says);
    request.sampling.temperature = 0;
    submit(std::move(request), says);
  }

  void submit(Request request, const std::vector<TokenId>& says) {
    std::vector<TokenId> text = request.prompt;
    const auto prompt = std::ssize(text);
    totals_.ideal += std::min(seen_.agrees(text), prompt - 1);
    totals_.prompt += prompt;
    ++totals_.requests;
    ReuseReport reuse;
    engine_.submit(std::move(request), [&](const Update& update) { reuse = update.record->reuse; });
    engine_.run();
    totals_.reused += reuse.reused_tokens;
    text.insert(text.end(), says.begin(), says.end() - 1);  // the last token is never fed back
    seen_.add(text);
    totals_.longest = std::max(totals_.longest, std::ssize(text));
    totals_.most_states = std::max(totals_.most_states, states());
  }

  // That are kept: nobody runs.
  std::int64_t states() {
    const KvCache& cache = engine_.cache();
    for (size_t group = 0; group < cache.groups(); ++group) {
      if (!cache.group_config(group).named_state()) continue;
      return cache.pool(group).size() - cache.pool(group).free_blocks();
    }
    return 0;
  }

  Options options_;
  std::unique_ptr<Backend> backend_;
  Tokenizer tokenizer_;
  ChatTemplate template_;
  std::unique_ptr<Model> model_;
  Engine engine_;
  EverythingSeen seen_;
  Totals totals_;
};

void print(const Options& options, const Totals& totals) {
  const auto share = [](std::int64_t part, std::int64_t of) {
    return 100 * static_cast<double>(part) / static_cast<double>(of);
  };
  fmt::print("{} chats, {} requests, prompts of {:.0f} tokens in the mean, the longest text {}\n", options.chats,
             totals.requests, static_cast<double>(totals.prompt) / static_cast<double>(totals.requests),
             totals.longest);
  fmt::print("ideal: {:.2f}% of {} prompt tokens\n", share(totals.ideal, totals.prompt), totals.prompt);
  fmt::print("found: {:.2f}%, of the ideal {:.2f}%; at most {:.2f} states a chat\n",
             share(totals.reused, totals.prompt), share(totals.reused, totals.ideal),
             static_cast<double>(totals.most_states) / options.chats);
}

}  // namespace
}  // namespace kvasir

int main(int count, char** arguments) {
  using namespace kvasir;
  Options options;
  try {
    for (int i = 1; i + 1 < count; i += 2) {
      const std::string_view name = arguments[i];
      const std::string value = arguments[i + 1];
      if (name == "--chats") {
        options.chats = std::stoi(value);
      } else if (name == "--block-size") {
        options.block_tokens = std::stoi(value);
      } else if (name == "--kv-memory") {
        options.kv_bytes = parse_bytes(value, "--kv-memory");
      } else if (name == "--state-budget") {
        options.state_budget = std::stoi(value);
      } else if (name == "--eviction") {
        options.eviction = value;
      } else if (name == "--kv") {
        options.kv = value;
      } else {
        throw Error(Error::Kind::kUsage, {"there is no such option", arguments[i], "see the file's beginning"});
      }
    }
    print(options, Trace(options).run());
  } catch (const Error& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
  return 0;
}
