#include "cli/bench/bench_draft.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>

#include "api/draft_loader.h"
#include "api/gguf_tokenizer.h"
#include "backend/make_backend.h"
#include "base/error.h"
#include "base/hash.h"
#include "cli/bench/bench_runs.h"
#include "cli/eval_text.h"
#include "cli/progress.h"

namespace kvasir {
namespace {

using DraftClock = std::chrono::steady_clock;

// The answer is this text, whatever the model says.
class Script final : public TokenConstraint {
 public:
  explicit Script(std::shared_ptr<const std::vector<TokenId>> text, std::size_t at = 0)
      : text_(std::move(text)), at_(at) {}

  void mask(std::span<float> logits) override {
    const auto next = static_cast<std::size_t>((*text_)[std::min(at_, text_->size() - 1)]);
    const float own = logits[next];
    std::ranges::fill(logits, -std::numeric_limits<float>::infinity());
    logits[next] = own;
  }
  void accept(TokenId) override { ++at_; }
  // Guesses are not to know the script.
  std::size_t allowed(std::span<const TokenId> tokens) const override { return tokens.size(); }
  bool ended() const override { return false; }
  std::unique_ptr<TokenConstraint> fork() const override { return std::make_unique<Script>(text_, at_); }

 private:
  std::shared_ptr<const std::vector<TokenId>> text_;
  std::size_t at_;
};

struct Scene {
  std::vector<TokenId> prompt;
  std::vector<TokenId> answer;  // empty: what the model says
};

struct TaskKind {
  DraftBench::Task task;
  Scene (*make)(const Model& model, const DraftTest& test, std::uint64_t seed);
};

// One token in `every` is another.
std::vector<TokenId> edited(std::vector<TokenId> text, const Model& model, std::uint64_t seed, std::uint64_t every) {
  const auto vocab = static_cast<std::uint64_t>(model.config().vocab);
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (mix(seed, i, 1) % every == 0) text[i] = static_cast<TokenId>(mix(seed, i, 2) % vocab);
  }
  return text;
}

Scene edit_scene(const Model& model, const DraftTest& test, std::uint64_t seed) {
  std::vector<TokenId> file = random_tokens(model, std::max(test.prompt, test.generate), seed);
  std::vector<TokenId> answer(file.begin(), file.begin() + test.generate);
  return {std::move(file), edited(std::move(answer), model, seed, 40)};
}

// Turns of an agent: other questions, and answers that were much the same the last time.
Scene agent_scene(const Model& model, const DraftTest& test, std::uint64_t seed) {
  return {random_tokens(model, test.prompt, seed), edited(random_tokens(model, test.generate, 7), model, seed, 25)};
}

Scene noise_scene(const Model& model, const DraftTest& test, std::uint64_t seed) {
  return {random_tokens(model, test.prompt, seed), random_tokens(model, test.generate, seed + 1000)};
}

Scene model_scene(const Model& model, const DraftTest& test, std::uint64_t seed) {
  return {random_tokens(model, test.prompt, seed), {}};
}

// Prompts out of a text, which the model goes on with.
Scene text_scene(const Model&, const DraftTest& test, std::uint64_t seed) {
  if (std::ssize(test.text) <= test.prompt) {
    fail_usage(fmt::format("the text has {} tokens, and prompts {}", test.text.size(), test.prompt), "--text",
               "give a longer one, or a smaller -p");
  }
  const std::uint64_t places = test.text.size() - static_cast<std::uint64_t>(test.prompt);
  const auto prompt = test.text.subspan(mix(seed, 5, 5) % places, static_cast<std::size_t>(test.prompt));
  return {{prompt.begin(), prompt.end()}, {}};
}

constexpr std::array<TaskKind, 5> kTasks{{
    {{"edit", "a file is repeated with one token in 40 changed"}, edit_scene},
    {{"agent", "an answer like the last request's, one token in 25 changed"}, agent_scene},
    {{"noise", "nothing that was there before: what drafters cost"}, noise_scene},
    {{"model", "what the model says behind random tokens, greedily"}, model_scene},
    {{"text", "what the model says behind pieces of --text, greedily"}, text_scene},
}};

const TaskKind& task_named(const std::string& name) {
  const auto found = std::ranges::find_if(kTasks, [&name](const TaskKind& kind) { return kind.task.name == name; });
  if (found != kTasks.end()) return *found;
  fail_usage(fmt::format("there is no task '{}'", name), "--task", "use edit, agent, noise, model or text");
}

double seconds_from(DraftClock::time_point start) {
  return std::chrono::duration<double>(DraftClock::now() - start).count();
}

}  // namespace

std::span<const DraftBench::Task> DraftBench::tasks() {
  static constexpr std::array<Task, 5> kAll{kTasks[0].task, kTasks[1].task, kTasks[2].task, kTasks[3].task,
                                            kTasks[4].task};
  return kAll;
}

double DraftResult::speedup() const {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < plain.size(); ++i) ratios.push_back(plain[i] / drafted[i]);
  return spread_of(ratios).median;
}

EngineConfig DraftBench::config_for(const DraftTest& test) const {
  EngineConfig config = config_;
  config.context = std::min<std::int64_t>(test.prompt + test.generate + 64, model_.config().context);
  if (config.kv_bytes > 0) return config;
  const std::int64_t blocks = blocks_for(config.context, config.block_tokens) * (3 * test.batch + 1);
  const auto add = [&](const Model& model, const KvPolicy& policy) {
    for (const KvGroup& group : kv_groups(model.config(), policy)) {
      config.kv_bytes += static_cast<std::uint64_t>(blocks * block_bytes_of(group, config.block_tokens));
    }
  };
  add(model_, config.kv);
  for (const EngineModel& one : more_) add(*one.model, one.kv);
  return config;
}

// From the first token on: what comes before is the same for both.
double DraftBench::once(Engine& engine, const DraftTest& test, std::uint64_t seed) const {
  std::int64_t begun = 0;
  DraftClock::time_point start;
  for (int i = 0; i < test.batch; ++i) {
    Scene scene = task_named(test.task).make(model_, test, mix(seed, static_cast<std::uint64_t>(i), 3));
    Request request;
    request.prompt = std::move(scene.prompt);
    request.sampling.temperature = 0;
    request.max_tokens = test.generate;
    if (!scene.answer.empty()) {
      request.constraint =
          std::make_shared<Script>(std::make_shared<const std::vector<TokenId>>(std::move(scene.answer)));
    }
    engine.submit(std::move(request), [&begun, &start, &test, first = true](const Update& update) mutable {
      if (update.token < 0 || !std::exchange(first, false)) return;
      if (++begun == test.batch) start = DraftClock::now();
    });
  }
  engine.run();
  return seconds_from(start);
}

DraftResult DraftBench::run(const DraftTest& test, int repeats, const std::function<void()>& after_each) {
  const EngineConfig config = config_for(test);
  EngineConfig without = config;
  without.speculation.drafters.clear();
  Engine plain(backend_, model_, without, more_);
  Engine drafting(backend_, model_, config, more_);
  DraftResult result;
  result.test = test;
  for (int i = 0; i <= repeats; ++i) {
    const auto seed = static_cast<std::uint64_t>(i) + 1;
    const double first = once(i % 2 == 0 ? plain : drafting, test, seed);
    const double second = once(i % 2 == 0 ? drafting : plain, test, seed);
    if (i == 0) continue;
    result.plain.push_back(i % 2 == 0 ? first : second);
    result.drafted.push_back(i % 2 == 0 ? second : first);
    after_each();
  }
  result.counts = drafting.speculator().counts();
  return result;
}

std::vector<DraftResult> bench_drafts(const DraftBenchOptions& options, const EngineConfig& config, Backend& backend,
                                      Model& model) {
  LlmOptions how = options_of_any_model(options.model);
  how.model = options.model.model.empty() ? std::string() : find_model(options.model.model).string();
  const LoadedDraft draft = load_draft(how, model, backend);
  EngineConfig with_draft = config;
  draft.add_to(with_draft);
  const std::vector<EngineModel> more = draft.further_models();
  std::vector<std::string> tasks = options.tasks;
  std::vector<TokenId> text;
  if (!options.text.empty()) {
    text = tokens_of_file(options.text, load_tokenizer(find_model(options.model.model)));
    if (tasks.empty()) tasks = {"text"};
  }
  for (const DraftBench::Task& task : DraftBench::tasks()) {
    if (options.tasks.empty() && text.empty() && task.name != "text") tasks.emplace_back(task.name);
  }
  DraftBench bench(backend, model, with_draft, more);
  Progress progress("measuring");
  const std::uint64_t all = tasks.size() * options.batches.size() * static_cast<std::uint64_t>(options.repeats);
  std::uint64_t done = 0;
  std::vector<DraftResult> out;
  for (const std::string& task : tasks) {
    for (const int batch : options.batches) {
      const DraftTest test{task, batch, options.prompt, options.generate, text};
      out.push_back(bench.run(test, options.repeats, [&] { progress.show(++done, all); }));
      out.back().test.text = {};
    }
  }
  return out;
}

void print_drafts(std::span<const DraftResult> results) {
  fmt::print("\n{:<8} {:>6} {:>14} {:>14} {:>8}  {}\n", "task", "batch", "plain tok/s", "drafts tok/s", "ratio",
             "right of guessed");
  for (const DraftResult& r : results) {
    std::string right;
    for (const DrafterCounts& one : r.counts.drafters) {
      if (one.proposed > 0) right += fmt::format(" {} {}/{}", one.name, one.accepted, one.proposed);
    }
    right += fmt::format("; drafting {:.3f} s, saved {:.3f} s", r.counts.drafting_seconds, r.counts.saved_seconds);
    fmt::print("{:<8} {:>6} {:>14.1f} {:>14.1f} {:>8.2f} {}\n", r.test.task, r.test.batch,
               r.tokens() / spread_of(r.plain).median, r.tokens() / spread_of(r.drafted).median, r.speedup(), right);
  }
}

nlohmann::ordered_json drafts_json(std::span<const DraftResult> results) {
  nlohmann::ordered_json out = nlohmann::ordered_json::array();
  for (const DraftResult& r : results) {
    nlohmann::ordered_json one{{"task", r.test.task},
                               {"batch", r.test.batch},
                               {"prompt", r.test.prompt},
                               {"generate", r.test.generate},
                               {"plain_seconds", r.plain},
                               {"drafted_seconds", r.drafted},
                               {"ratio", r.speedup()},
                               {"drafting_seconds", r.counts.drafting_seconds},
                               {"saved_seconds", r.counts.saved_seconds}};
    for (const DrafterCounts& drafter : r.counts.drafters) {
      one["drafters"][drafter.name] = {{"draft_tokens", drafter.proposed},
                                       {"accepted_tokens", drafter.accepted},
                                       {"branch_tokens", drafter.branch_proposed},
                                       {"accepted_branch_tokens", drafter.branch_accepted}};
    }
    out.push_back(std::move(one));
  }
  return out;
}

}  // namespace kvasir
