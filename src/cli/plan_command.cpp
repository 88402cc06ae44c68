#include "cli/plan_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "base/bytes.h"
#include "base/error.h"
#include "cli/policy_file.h"
#include "engine/draft/drafters.h"
#include "layout/codec.h"
#include "model/draft_head.h"
#include "plan/arithmetic.h"
#include "plan/gpus.h"

namespace kvasir {
namespace {

DType parse_weights_dtype(const std::string& name) {
  if (const auto type = weight_type_named(name)) return *type;
  std::string known;
  for (const WeightType& type : kWeightTypes) known += fmt::format("{}{}", known.empty() ? "" : ", ", type.name);
  fail_usage(fmt::format("'{}' is not a type of weights", name), "--weights-dtype", "use one of " + known);
}

std::string count(std::int64_t number) { return format_count(static_cast<std::uint64_t>(number)); }

// Two decimals from a GB on: what decides whether a plan fits is often in the second.
std::string size(std::uint64_t bytes) {
  constexpr std::uint64_t kGB = 1'000'000'000;
  return bytes < kGB ? format_bytes(bytes) : fmt::format("{:.2f} GB", static_cast<double>(bytes) / 1e9);
}

std::string users_of(const PlanReport& report) {
  return report.input.users == 1 ? "1 user" : count(report.input.users) + " users";
}

std::vector<std::string> notes_on(const PlanReport& report) {
  std::vector<std::string> notes;
  const ModelSpec& config = report.model.config;
  if (report.input.context > config.context) {
    notes.push_back(fmt::format("the model was made for a context of {} tokens", count(config.context)));
  }
  if (config.encodes()) notes.emplace_back("an encoder reads a text in one step: nothing is cached");
  if (!config.encodes() && !config.generates()) notes.emplace_back("a classifier writes no text: nothing is cached");
  if (!config.quantization.empty()) {
    notes.push_back(fmt::format("the weights on disk are quantized ({}); planned as {}", config.quantization,
                                name_of(report.weights_dtype)));
  }
  if (report.input.memory_bytes && report.input.reserve_bytes == 0) {
    notes.push_back("nothing is set aside for activations and the driver; --reserve does");
  }
  return notes;
}

// "fits, barely" below a fifth to spare: activations and the driver still have to go somewhere.
std::string verdict(const PlanReport& report) {
  const MemoryPlan& plan = report.plan;
  if (!plan.fits) return fmt::format("needs {}", size(plan.total_bytes));
  const std::uint64_t memory = *report.input.memory_bytes;
  if (!*plan.fits) {
    return fmt::format("does not fit in {}: needs {}, {} too much", size(memory), size(plan.total_bytes),
                       size(plan.total_bytes - memory));
  }
  const std::uint64_t spare = memory - plan.total_bytes;
  return fmt::format("fits in {}{}: needs {}, {} to spare", size(memory), spare < memory / 5 ? ", barely" : "",
                     size(plan.total_bytes), size(spare));
}

std::string kept_by(const Retention& retention) {
  if (retention.full()) return "all tokens";
  return fmt::format("{} {}{}", retention.window > 0 ? "last" : "chunk of", count(retention.span()),
                     retention.sinks > 0 ? fmt::format(", first {}", count(retention.sinks)) : "");
}

std::string formats_of(const KvLayout& layout) {
  const std::string k(format_name(layout.k_format));
  return layout.k_format == layout.v_format ? k : fmt::format("{}/{}", k, format_name(layout.v_format));
}

void add_row(std::string& out, std::string_view name, std::string_view value, std::string_view detail) {
  out += detail.empty() ? fmt::format("  {:<15} {:>16}\n", name, value)
                        : fmt::format("  {:<15} {:>16}  {}\n", name, value, detail);
}

void add_groups(std::string& out, const PlanReport& report) {
  if (report.plan.groups.size() < 2) return;
  out += "\nLayers that are cached alike\n";
  for (const GroupPlan& group : report.plan.groups) {
    if (!group.state.none()) {
      out += fmt::format("  {:>4} layers keep a state of {}, and as much at each place where it is kept\n",
                         group.layers, size(group.bytes_per_block));
      continue;
    }
    out += fmt::format("  {:>4} layers {:<11} keep {:<12} {:>9} bytes a token, {:>7} blocks a request, {}\n",
                       group.layers, formats_of(group.layout),
                       group.of_source  ? "a source"
                       : group.of_draft ? "drafts' rows"
                                        : kept_by(group.retention),
                       format_count(group.bytes_per_token), count(group.blocks_per_request),
                       size(group.bytes_per_request));
  }
}

void add_limits(std::string& out, const PlanReport& report) {
  const MemoryPlan& plan = report.plan;
  if (!plan.fits) return;
  add_row(out, "memory", size(*report.input.memory_bytes), "");
  const bool unbounded = *plan.max_context == kLongestContext;
  add_row(out, "longest context", unbounded ? "no limit" : count(*plan.max_context),
          fmt::format("tokens, {}", users_of(report)));
  add_row(out, "most users", count(*plan.max_users), fmt::format("at {} tokens", count(report.input.context)));
}

void add_suggestions(std::string& out, const MemoryPlan& plan) {
  if (plan.suggestions.empty()) return;
  out += "\nWays out\n";
  int number = 0;
  for (const Suggestion& suggestion : plan.suggestions) {
    const std::string effect =
        suggestion.saves_bytes == 0
            ? std::string()
            : fmt::format(": saves {}, then {}, {}", size(suggestion.saves_bytes), size(suggestion.then_total_bytes),
                          suggestion.fits ? "fits" : "still does not fit");
    out += fmt::format("  {}. {}{}\n", ++number, suggestion.what, effect);
  }
}

template <class T>
nlohmann::ordered_json or_null(const std::optional<T>& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
}

nlohmann::ordered_json groups_as_json(const MemoryPlan& plan) {
  auto groups = nlohmann::ordered_json::array();
  for (const GroupPlan& group : plan.groups) {
    nlohmann::ordered_json one;
    one["layers"] = group.layers;
    if (!group.state.none()) {
      one["state_bytes"] = group.bytes_per_block;
      groups.push_back(std::move(one));
      continue;
    }
    one["k_format"] = format_name(group.layout.k_format);
    one["v_format"] = format_name(group.layout.v_format);
    one["window"] = group.retention.window;
    one["sinks"] = group.retention.sinks;
    if (group.of_source) one["of"] = "source";
    if (group.of_draft) one["of"] = "draft";
    if (group.retention.chunk > 0) one["chunk"] = group.retention.chunk;
    one["bytes_per_token"] = group.bytes_per_token;
    one["bytes_per_block"] = group.bytes_per_block;
    one["blocks_per_request"] = group.blocks_per_request;
    one["bytes_per_request"] = group.bytes_per_request;
    one["pool_blocks"] = or_null(group.pool_blocks);
    groups.push_back(std::move(one));
  }
  return groups;
}

// What drafts beside the model: its shape, and what it takes that is not counted with the model.
struct PlannedDraft {
  ModelSpec spec;
  std::optional<std::uint64_t> weight_bytes;
};

PlannedDraft draft_of(const std::string& draft, const NamedShape& model) {
  const ModelSpec& target = model.config;
  if (draft == kNextNDrafter) {
    std::optional<ModelSpec> head = next_n_head(target);
    if (!head) {
      fail_usage(fmt::format("{} models have no head that guesses the next tokens", target.family_name()), "--draft",
                 "name a draft model");
    }
    // A GGUF file's bytes have it already.
    return {*std::move(head), model.weight_bytes ? std::optional<std::uint64_t>(0) : std::nullopt};
  }
  if (is_eagle3_head(draft)) return {eagle3_spec(draft, target), std::nullopt};
  NamedShape shape = resolve_shape(draft);
  check_draft_model(shape.config, draft);
  return {std::move(shape.config), shape.weight_bytes};
}

void add_draft(const PlanOptions& options, PlanReport& report) {
  if (options.draft.empty() || options.draft == "off") return;
  const PlannedDraft draft = draft_of(options.draft, report.model);
  const DType dtype = options.weights_dtype.empty() ? draft.spec.dtype : report.weights_dtype;
  report.draft = options.draft;
  report.draft_weights = draft.weight_bytes && options.weights_dtype.empty()
                             ? *draft.weight_bytes
                             : row_bytes(dtype, static_cast<std::int64_t>(parameter_count(draft.spec)));
  report.input.weights_bytes = saturating_sum(report.input.weights_bytes, report.draft_weights);
  report.input.draft_groups = kv_groups(draft.spec, KvPolicy{});
}

}  // namespace

PlanReport make_plan_report(const PlanOptions& options) {
  return make_plan_report(resolve_shape(options.model), options);
}

PlanReport make_plan_report(NamedShape model, const PlanOptions& options) {
  PlanReport report;
  report.model = std::move(model);
  const ModelSpec& config = report.model.config;
  report.kv = parse_kv_policy(policy_argument(options.kv, "--kv"), "--kv");
  report.weights_dtype = options.weights_dtype.empty() ? config.dtype : parse_weights_dtype(options.weights_dtype);
  report.input.weights_bytes =
      report.model.weight_bytes && options.weights_dtype.empty()
          ? *report.model.weight_bytes
          : row_bytes(report.weights_dtype, static_cast<std::int64_t>(parameter_count(config)));
  report.input.groups = kv_groups(config, report.kv);
  report.input.source_groups =
      static_cast<size_t>(std::ranges::count_if(report.input.groups, [&](const KvGroup& group) {
        return !group.keeps_state() && is_of_source(config, group);
      }));
  report.input.context = options.context > 0 ? options.context : config.context;
  report.input.users = options.users;
  report.input.block_tokens = options.block_tokens;
  if (!options.memory.empty()) report.input.memory_bytes = parse_bytes(options.memory, "--memory");
  if (!options.gpu.empty()) report.input.memory_bytes = gpu_named(options.gpu).memory_bytes;
  if (!options.reserve.empty()) report.input.reserve_bytes = parse_bytes(options.reserve, "--reserve");
  add_draft(options, report);
  report.plan = plan_memory(report.input);
  report.notes = notes_on(report);
  return report;
}

std::string plan_as_text(const PlanReport& report) {
  const MemoryPlan& plan = report.plan;
  const PlanInput& input = report.input;
  std::string out = fmt::format("{} {}\n\n", report.model.name, verdict(report));
  add_row(out, "weights", size(input.weights_bytes - report.draft_weights),
          fmt::format("{} parameters, {}", format_count(parameter_count(report.model.config)),
                      name_of(report.weights_dtype)));
  if (!report.draft.empty()) add_row(out, "draft weights", size(report.draft_weights), report.draft);
  add_row(out, "KV per token", format_count(plan.bytes_per_token) + " B", to_text(report.kv));
  add_row(out, "KV per block", format_count(plan.bytes_per_block) + " B",
          fmt::format("{} tokens", input.block_tokens));
  add_row(out, "KV per request", size(plan.bytes_per_request), fmt::format("{} tokens", count(input.context)));
  add_row(out, "KV in all", size(plan.kv_bytes), users_of(report));
  if (input.reserve_bytes > 0) add_row(out, "reserve", size(input.reserve_bytes), "");
  add_row(out, "total", size(plan.total_bytes), "");
  add_limits(out, report);
  add_groups(out, report);
  add_suggestions(out, plan);
  if (!report.notes.empty()) out += "\n";
  for (const std::string& note : report.notes) out += fmt::format("Note: {}.\n", note);
  return out;
}

std::string plan_as_json(const PlanReport& report) {
  const MemoryPlan& plan = report.plan;
  nlohmann::ordered_json out;
  out["model"] = report.model.name;
  out["parameters"] = parameter_count(report.model.config);
  out["weights_dtype"] = name_of(report.weights_dtype);
  out["weights_bytes"] = report.input.weights_bytes;
  if (!report.draft.empty()) out["draft"] = {{"model", report.draft}, {"weights_bytes", report.draft_weights}};
  out["context"] = report.input.context;
  out["users"] = report.input.users;
  out["block_tokens"] = report.input.block_tokens;
  out["kv"] = {{"policy", to_text(report.kv)},
               {"k_format", format_name(report.kv.k_format)},
               {"v_format", format_name(report.kv.v_format)},
               {"bytes_per_token", plan.bytes_per_token},
               {"bytes_per_block", plan.bytes_per_block},
               {"bytes_per_request", plan.bytes_per_request},
               {"bytes_total", plan.kv_bytes},
               {"groups", groups_as_json(plan)}};
  out["reserve_bytes"] = report.input.reserve_bytes;
  out["total_bytes"] = plan.total_bytes;
  out["memory_bytes"] = or_null(report.input.memory_bytes);
  out["fits"] = or_null(plan.fits);
  out["max_context"] = or_null(plan.max_context);
  out["max_users"] = or_null(plan.max_users);
  out["ways_out"] = nlohmann::ordered_json::array();
  for (const Suggestion& suggestion : plan.suggestions) {
    out["ways_out"].push_back({{"what", suggestion.what},
                               {"saves_bytes", suggestion.saves_bytes},
                               {"then_total_bytes", suggestion.then_total_bytes},
                               {"fits", suggestion.fits}});
  }
  out["notes"] = report.notes;
  // A path may hold bytes that are not UTF-8: replace them rather than throw.
  return out.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

void add_plan_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("plan", "Say what a model and its cache will take, and whether it fits");
  const auto options = std::make_shared<PlanOptions>();
  const auto json = std::make_shared<bool>(false);
  command
      ->add_option("-m,--model", options->model, "A model's folder, its config.json, a .gguf file, or a known name")
      ->required();
  command->add_option("-c,--ctx-size", options->context, "Tokens of one sequence; default: the model's context")
      ->check(CLI::Range(std::int64_t{1}, kLongestContext));
  command->add_option("-u,--users", options->users, "Sequences at a time")
      ->check(CLI::Range(std::int64_t{1}, kMostUsers))
      ->capture_default_str();
  command
      ->add_option("--kv,--kv-dtype", options->kv,
                   "KV policy, like \"bf16\" or \"f16, window=1024, sinks=4\", or @FILE")
      ->capture_default_str();
  command->add_option("--weights-dtype", options->weights_dtype,
                      "f32, f16, bf16, q8_0, q4_k, …; default: as the model has them");
  auto* memory = command->add_option("--memory", options->memory, "Memory to fit into, such as 24GB or 80GiB");
  command->add_option("--gpu", options->gpu, "A GPU whose memory to fit into, such as h100")->excludes(memory);
  command->add_option("--reserve", options->reserve,
                      "Memory to keep free for activations and the driver; default: none");
  command->add_option("--block-size", options->block_tokens, "Tokens of a block")
      ->check(CLI::Range(1, kLargestBlockTokens))
      ->capture_default_str();
  command->add_option(
      "--draft", options->draft,
      "What guesses tokens: mtp (the model's own head), or a draft model, as --model names it, or the "
      "folder of an EAGLE-3 head");
  command->add_flag("--json", *json, "Print JSON");
  command->callback([options, json] {
    const PlanReport report = make_plan_report(*options);
    fmt::print("{}", *json ? plan_as_json(report) : plan_as_text(report));
  });
}

}  // namespace kvasir
