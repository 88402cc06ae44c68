// The command line of kvasir plan: of a model's memory, or of a trace.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "base/error.h"
#include "cli/option_group.h"
#include "cli/plan_command.h"
#include "cli/plan_trace.h"

namespace kvasir {
namespace {

enum class Form : std::uint8_t { kText, kJson, kMarkdown };

struct Typed {
  PlanOptions plan;
  TraceOptions trace;
  std::string svg;
  bool json = false;
  bool markdown = false;

  Form form() const { return json ? Form::kJson : markdown ? Form::kMarkdown : Form::kText; }
};

void add_memory_options(CLI::App& command, PlanOptions& options) {
  command.add_option("-m,--model", options.model, "A model's folder, its config.json, a .gguf file, or a known name");
  command.add_option("-c,--ctx-size", options.context, "Tokens of one sequence; default: the model's context")
      ->check(CLI::Range(std::int64_t{1}, kLongestContext));
  command.add_option("-u,--users", options.users, "Sequences at a time")
      ->check(CLI::Range(std::int64_t{1}, kMostUsers))
      ->capture_default_str();
  command
      .add_option("--kv,--kv-dtype", options.kv,
                  "KV policy, like \"bf16\" or \"f16, window=1024, sinks=4\", or @FILE")
      ->capture_default_str();
  command.add_option("--weights-dtype", options.weights_dtype,
                     "f32, f16, bf16, q8_0, q4_k, …; default: as the model has them");
  auto* memory = command.add_option("--memory", options.memory, "Memory to fit into, such as 24GB or 80GiB");
  command.add_option("--gpu", options.gpu, "A GPU whose memory to fit into, such as h100, or several, as 4xh100")
      ->excludes(memory);
  command.add_option("--reserve", options.reserve,
                     "Memory to keep free for other programs; default: none");
  command.add_option("--device", options.device,
                     "What it runs on: cpu, or cuda, where the program takes more; default: cuda with --gpu");
  command.add_option("--block-size", options.block_tokens, "Tokens of a block")
      ->check(CLI::Range(1, kLargestBlockTokens))
      ->capture_default_str();
  command.add_option(
      "--draft", options.draft,
      "What guesses tokens: mtp (the model's own head), or a draft model, as --model names it, or the "
      "folder of an EAGLE-3 head");
}

void add_trace_options(CLI::App& command, Typed& typed) {
  const OptionGroup group(command, "From a trace");
  TraceOptions& options = typed.trace;
  group.option("--trace", options.files,
               "What was asked of a server, to be asked again without computing: of kvasir serve --trace, or "
               "Mooncake's or Azure's public traces. Several: parts of one, in order");
  group.option("--costs", options.costs,
               "How long steps take: another trace of kvasir serve, or what kvasir bench --json printed. Default: "
               "as the trace has it");
  group.option("--kv-memory", options.kv_memory, "Memory for the cache; default: as the trace has it");
  group.option("--swap-memory", options.swap_memory, "Host memory for requests that pause; default: as it has it");
  group.option("--eviction", options.eviction, "lru, fifo, cost; default: as the trace has it");
  group.option("--max-batch-tokens", options.max_batch_tokens,
               "Tokens in one step; default: as the trace has it; without one 512, and 2048 on a GPU")
      ->check(CLI::Range(1, 65536));
  group.option_with_default("--rate", options.rate, "Requests come so many times as fast")
      ->check(CLI::Range(1e-3, 1e6));
  group.option("--sweep", options.sweep,
               "Ask again for each value: memory=8G..64G, kv-memory=, swap-memory=, rate=1,2,4, eviction=lru,cost, "
               "kv=f16;int8");
  group.option("--svg", typed.svg, "With --sweep: a file for the curve");
}

void plan_from_trace(const CLI::App& command, Typed& typed) {
  TraceOptions& trace = typed.trace;
  const PlanOptions& plan = typed.plan;
  trace.model = plan.model;
  trace.memory = plan.memory;
  trace.gpu = plan.gpu;
  trace.reserve = plan.reserve;
  trace.device = plan.device.empty() && !plan.gpu.empty() ? "cuda" : plan.device;
  trace.weights_dtype = plan.weights_dtype;
  trace.context = plan.context;
  if (command.count("--kv") > 0) trace.kv = plan.kv;
  if (command.count("--block-size") > 0) trace.block_tokens = plan.block_tokens;
  if (command.count("--users") > 0) {
    fail_usage("a trace has its own users", "--users", "leave it out; --rate makes requests come faster");
  }
  if (command.count("--draft") > 0) {
    fail_usage("a trace tells how right its drafts were", "--draft", "leave it out");
  }
  if (!typed.svg.empty() && trace.sweep.empty()) {
    fail_usage("there is no curve to draw", "--svg", "say what to vary, as --sweep memory=8G..64G");
  }
  const TraceReport report = make_trace_report(trace);
  if (!typed.svg.empty()) write_sweep_svg(report, typed.svg);
  const Form form = typed.form();
  fmt::print("{}", form == Form::kJson       ? trace_as_json(report)
                   : form == Form::kMarkdown ? trace_as_markdown(report)
                                             : trace_as_text(report));
}

void refuse_trace_options(const CLI::App& command) {
  for (const char* option : {"--costs", "--kv-memory", "--swap-memory", "--eviction", "--rate", "--sweep", "--svg"}) {
    if (command.count(option) > 0) fail_usage("it is of a trace", option, "give --trace FILE as well");
  }
}

void print_plan(const CLI::App& command, Typed& typed) {
  if (!typed.trace.files.empty()) return plan_from_trace(command, typed);
  refuse_trace_options(command);
  if (typed.plan.model.empty()) {
    fail_usage("no model is named", "--model", "give -m, or --trace FILE");
  }
  typed.plan.max_batch_tokens = typed.trace.max_batch_tokens;
  const PlanReport report = make_plan_report(typed.plan);
  const Form form = typed.form();
  fmt::print("{}", form == Form::kJson       ? plan_as_json(report)
                   : form == Form::kMarkdown ? plan_as_markdown(report)
                                             : plan_as_text(report));
}

}  // namespace

void add_plan_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("plan", "Say what a model and its cache will take, and whether it fits");
  const auto typed = std::make_shared<Typed>();
  add_memory_options(*command, typed->plan);
  add_trace_options(*command, *typed);
  auto* json = command->add_flag("--json", typed->json, "Print JSON");
  command->add_flag("--markdown", typed->markdown, "Print Markdown")->excludes(json);
  command->callback([command, typed] { print_plan(*command, *typed); });
}

}  // namespace kvasir
