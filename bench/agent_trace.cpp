// How much of agents' prompts a hybrid's cache finds, beside one that never forgets and may stop at any token.
//
//     build/agent_trace                     # 200 chats, and memory for all that is ever kept
//     build/agent_trace --states 4          # memory for the texts' rows, and four states a chat
//     build/agent_trace --kv-memory 50GiB   # for rows and states together
//     build/agent_trace --block-size 2144   # rows and states in steps of 2,144 tokens
//
// The chats (agent_chats.h) are all open at once; who asks next is drawn, one every two seconds. Their template keeps
// thoughts while a turn goes on and drops them behind it, as Qwen3.5's does. Prompts, breakpoints and answers take
// the ways of `kvasir serve`, through the scheduler and the cache that it has; the model has the shape of
// Qwen3.6-35B-A3B and computes nothing, since what is found depends on no number, and it says what the chat says.
#include <fmt/format.h>

#include <fstream>
#include <iostream>
#include <memory>
#include <numeric>
#include <sstream>
#include <string_view>
#include <unordered_set>

#include "agent_chats.h"
#include "base/bytes.h"
#include "engine/engine.h"
#include "model/known_models.h"
#include "server/answer/prompt_map.h"
#include "server/answer/reasoning_prompt.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"
#include "trace/idle_backend.h"

namespace kvasir {
namespace {

struct Options {
  int chats = 200;
  int block_tokens = 16;
  std::uint64_t kv_bytes = std::uint64_t{2} << 40;  // nothing lies in it
  std::optional<double> states;                     // a chat: then the memory is for the texts' rows and these
  std::string model = "qwen3.6-35b-a3b";
  std::string kv = "f16";
  std::string eviction = "lru";
  int state_budget = 4;
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
  std::int64_t lost_states = 0;  // requests whose rows reached further than their states
  std::int64_t evicted = 0;      // requests that stopped where rows were evicted
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

// Of a request. A step takes no time that is counted.
constexpr double kSeconds = 2;
// A place that the next turn goes on from is pinned for so long, as the server does it.
constexpr std::chrono::seconds kTurn{300};

StepCostModel no_costs() {
  StepCosts costs;
  costs.add({.steps = 1, .rows = 1, .seconds = 0});
  return StepCostModel(costs);
}

class Trace {
 public:
  explicit Trace(const Options& options)
      : options_(options),
        tokenizer_(Tokenizer::load("models/tales")),
        template_(text_of_file("bench/agent_template.jinja"), "bench/agent_template.jinja"),
        chats_(chats_of(options)),
        backend_({clock_, costs_, 1, TraceConfig::Samples::kOnHost,
                  [this](const SampleRule& rule) { return text_.at(static_cast<size_t>(rule.position)); }}),
        model_(backend_, spec_of(options), kStepTokens),
        engine_(backend_, model_, config_of()) {}

  Totals run() {
    std::vector<size_t> asked(chats_.size(), 0);
    std::vector<size_t> open(chats_.size());
    std::iota(open.begin(), open.end(), size_t{0});
    for (std::uint64_t draw = 0; !open.empty(); ++draw) {
      const size_t place = mix(7, draw, 3) % open.size();
      const size_t chat = open[place];
      ask(chats_[chat], chats_[chat].asked[asked[chat]++]);
      if (asked[chat] == chats_[chat].asked.size()) open.erase(open.begin() + static_cast<std::ptrdiff_t>(place));
    }
    return totals_;
  }

  std::uint64_t memory() { return static_cast<std::uint64_t>(engine_.cache().memory_bytes()); }

 private:
  static constexpr int kStepTokens = 512;

  static std::vector<AgentChat> chats_of(const Options& options) {
    AgentChats source(words_of("models/held-out.txt"), 1);
    std::vector<AgentChat> chats;
    for (int i = 0; i < options.chats; ++i) chats.push_back(source.chat(static_cast<std::uint64_t>(i)));
    return chats;
  }

  static ModelSpec spec_of(const Options& options) {
    ModelSpec spec = shape_named(options.model);
    spec.eos.clear();
    return spec;
  }

  EngineConfig config_of() const {
    EngineConfig config;
    config.kv = parse_kv_policy(options_.kv, "--kv");
    config.block_tokens = options_.block_tokens;
    config.kv_bytes = options_.states ? bytes_for(*options_.states) : options_.kv_bytes;
    config.swap_bytes = 0;
    config.clock = std::shared_ptr<const TimeSource>(std::shared_ptr<const TimeSource>(), &clock_);
    config.eviction = options_.eviction;
    config.scheduler.state_budget = options_.state_budget;
    config.scheduler.max_batch_tokens = kStepTokens;
    return config;
  }

  // The rows of each chat's text as it is in the end, and so many states a chat.
  std::uint64_t bytes_for(double states) const {
    std::int64_t tokens = 0;
    for (const AgentChat& chat : chats_) tokens += std::ssize(encode_chat(tokenizer_, render(chat, chat.messages)));
    double bytes = 0;
    for (const KvGroup& group : kv_groups(model_.config(), parse_kv_policy(options_.kv, "--kv"))) {
      const auto block = static_cast<double>(block_bytes_of(group, options_.block_tokens));
      bytes += group.keeps_state() ? states * options_.chats * block
                                   : static_cast<double>(tokens) / options_.block_tokens * block;
    }
    return static_cast<std::uint64_t>(bytes);
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
      add_breakpoint(request.breakpoints, {offsets.tokens_within(*kept), kTurn});
    }
    const std::vector<TokenId> says = answer_to(chat, messages, answer, prompt);
    request.max_tokens = std::ssize(says);
    request.sampling.temperature = 0;
    submit(std::move(request), says);
  }

  void submit(Request request, const std::vector<TokenId>& says) {
    text_ = request.prompt;
    const auto prompt = std::ssize(text_);
    text_.insert(text_.end(), says.begin(), says.end());
    totals_.ideal += std::min(seen_.agrees(request.prompt), prompt - 1);
    totals_.prompt += prompt;
    ++totals_.requests;
    ReuseReport reuse;
    clock_.advance_to(kSeconds * static_cast<double>(totals_.requests));
    engine_.submit(std::move(request), [&](const Update& update) { reuse = update.record->reuse; });
    engine_.run();
    totals_.reused += reuse.reused_tokens;
    totals_.lost_states += reuse.stop == ReuseStop::kStateBefore;
    totals_.evicted += reuse.stop == ReuseStop::kEvicted;
    text_.pop_back();  // the last token is never fed back
    seen_.add(text_);
    totals_.longest = std::max(totals_.longest, std::ssize(text_));
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
  Tokenizer tokenizer_;
  ChatTemplate template_;
  std::vector<AgentChat> chats_;
  CountedTime clock_;
  StepCostModel costs_ = no_costs();
  std::vector<TokenId> text_;  // the prompt that is answered, and its answer
  IdleBackend backend_;
  IdleModel model_;
  Engine engine_;
  EverythingSeen seen_;
  Totals totals_;
};

void print(const Options& options, const Totals& totals, std::uint64_t memory) {
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
  fmt::print("{} of memory; {} requests found rows but no state at their end, {} lacked evicted rows\n",
             format_bytes(memory), totals.lost_states, totals.evicted);
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
      } else if (name == "--states") {
        options.states = std::stod(value);
      } else if (name == "--model") {
        options.model = value;
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
    Trace trace(options);
    const Totals totals = trace.run();
    print(options, totals, trace.memory());
  } catch (const Error& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
  return 0;
}
