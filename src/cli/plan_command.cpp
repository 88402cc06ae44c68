#include "cli/plan_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "base/bytes.h"
#include "base/error.h"
#include "cli/policy_file.h"
#include "cli/text_table.h"
#include "backend/make_backend.h"
#include "engine/draft/drafters.h"
#include "layout/codec.h"
#include "model/decoder.h"
#include "model/draft_head.h"
#include "plan/arithmetic.h"
#include "plan/gpus.h"
#include "plan/runtime.h"

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
  if (report.gpus > 1) {
    notes.push_back(
        fmt::format("the memory of {} cards is taken for one, layers split evenly among them; Kvasir itself "
                    "runs on one GPU a process",
                    report.gpus));
  }
  return notes;
}

// "fits, barely" below a fifth to spare: other programs and the gaps between allocations go somewhere, too.
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

std::string state_line(const GroupPlan& group) {
  const std::string bytes = size(group.bytes_per_block);
  switch (group.state_use) {
    case KvGroup::StateUse::kLive:
      return fmt::format("keep a state of {} while a request runs, in f32", bytes);
    case KvGroup::StateUse::kKept:
      return fmt::format("and {} at each place where it is kept, as {}", bytes,
                         state_format_name(group.state_format));
    case KvGroup::StateUse::kBoth:
      break;
  }
  return fmt::format("keep a state of {}, and as much at each place where it is kept", bytes);
}

std::string keeping(const GroupPlan& group) {
  if (group.of_source) return "a source";
  return group.of_draft ? "drafts' rows" : kept_by(group.retention);
}

struct Row {
  std::string name;
  std::string value;
  std::string detail;  // may be empty
};

void add_limits(std::vector<Row>& out, const PlanReport& report) {
  const MemoryPlan& plan = report.plan;
  if (!plan.fits) return;
  out.push_back({"memory", size(*report.input.memory_bytes), ""});
  const bool unbounded = *plan.max_context == kLongestContext;
  out.push_back({"longest context", unbounded ? "no limit" : count(*plan.max_context),
                 fmt::format("tokens, {}", users_of(report))});
  out.push_back({"most users", count(*plan.max_users), fmt::format("at {} tokens", count(report.input.context))});
}

std::vector<Row> rows_of(const PlanReport& report) {
  const MemoryPlan& plan = report.plan;
  const PlanInput& input = report.input;
  std::vector<Row> out{
      {"weights", size(input.weights_bytes - report.draft_weights),
       fmt::format("{} parameters, {}", format_count(parameter_count(report.model.config)),
                   name_of(report.weights_dtype))},
      {"KV per token", format_count(plan.bytes_per_token) + " B", to_text(report.kv)},
      {"KV per block", format_count(plan.bytes_per_block) + " B", fmt::format("{} tokens", input.block_tokens)},
      {"KV per request", size(plan.bytes_per_request), fmt::format("{} tokens", count(input.context))},
      {"KV in all", size(plan.kv_bytes), users_of(report)}};
  if (!report.draft.empty()) out.insert(out.begin() + 1, {"draft weights", size(report.draft_weights), report.draft});
  out.push_back({"runtime", size(input.runtime_bytes),
                 fmt::format("steps of {} tokens, and the program", count(report.max_batch_tokens))});
  if (input.reserve_bytes > 0) out.push_back({"reserve", size(input.reserve_bytes), ""});
  out.push_back({"total", size(plan.total_bytes), ""});
  add_limits(out, report);
  return out;
}

// Nothing where all layers are alike.
std::vector<std::string> groups_of(const PlanReport& report) {
  std::vector<std::string> out;
  if (report.plan.groups.size() < 2) return out;
  for (const GroupPlan& group : report.plan.groups) {
    if (!group.state.none()) {
      out.push_back(fmt::format("{:>4} layers {}", group.layers, state_line(group)));
      continue;
    }
    out.push_back(fmt::format(
        "{:>4} layers {:<11} keep {:<12} {:>9} bytes a token, {:>7} blocks a request, {}", group.layers,
        formats_of(group.layout), keeping(group),
        format_count(group.bytes_per_token), count(group.blocks_per_request), size(group.bytes_per_request)));
  }
  return out;
}

std::string text_of(const Suggestion& suggestion) {
  if (suggestion.saves_bytes == 0) return suggestion.what;
  return fmt::format("{}: saves {}, then {}, {}", suggestion.what, size(suggestion.saves_bytes),
                     size(suggestion.then_total_bytes), suggestion.fits ? "fits" : "still does not fit");
}

// What is aligned on a terminal is not in Markdown.
std::string without_padding(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c != ' ' || (!out.empty() && out.back() != ' ')) out += c;
  }
  return out;
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
      const bool kept = group.state_use == KvGroup::StateUse::kKept;
      one[kept ? "kept_state_bytes" : "state_bytes"] = group.bytes_per_block;
      if (kept) one["state_format"] = state_format_name(group.state_format);
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
  report.input.runtime_bytes += activation_bytes(draft.spec, report.max_batch_tokens);
  if (report.input.smaller_steps) {
    report.input.smaller_steps->runtime_bytes += activation_bytes(draft.spec, report.input.smaller_steps->tokens);
  }
}

constexpr int kSmallSteps = 128;  // rows that still make products out of prompts

// A step's rows, and what they and the program take. Of several cards each runs the program.
void add_runtime(const PlanOptions& options, PlanReport& report) {
  std::string device = options.device;
  if (device.empty()) device = options.gpu.empty() ? "cpu" : "cuda";
  if (device != "cpu" && device != "cuda") {
    fail_usage(fmt::format("'{}' is not a device to plan for", device), "--device", "use cpu or cuda");
  }
  report.max_batch_tokens = batch_tokens(options.max_batch_tokens, device);
  const auto runtime = [&](int rows) {
    return activation_bytes(report.model.config, rows) +
           static_cast<std::uint64_t>(report.gpus) * program_bytes(device);
  };
  report.input.runtime_bytes = runtime(report.max_batch_tokens);
  if (report.max_batch_tokens > kSmallSteps) report.input.smaller_steps = {kSmallSteps, runtime(kSmallSteps)};
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
  if (!options.gpu.empty()) {
    const GpuGroup gpus = gpus_named(options.gpu);
    report.input.memory_bytes = gpus.memory_bytes();
    report.gpus = gpus.count;
  }
  if (!options.reserve.empty()) report.input.reserve_bytes = parse_bytes(options.reserve, "--reserve");
  add_runtime(options, report);
  add_draft(options, report);
  report.plan = plan_memory(report.input);
  report.notes = notes_on(report);
  return report;
}

std::string plan_as_text(const PlanReport& report) {
  std::string out = fmt::format("{} {}\n\n", report.model.name, verdict(report));
  for (const Row& row : rows_of(report)) {
    out += fmt::format("  {:<15} {:>16}{}{}\n", row.name, row.value, row.detail.empty() ? "" : "  ", row.detail);
  }
  const std::vector<std::string> groups = groups_of(report);
  if (!groups.empty()) out += "\nLayers that are cached alike\n";
  for (const std::string& group : groups) out += fmt::format("  {}\n", group);
  if (!report.plan.suggestions.empty()) out += "\nWays out\n";
  int number = 0;
  for (const Suggestion& suggestion : report.plan.suggestions) {
    out += fmt::format("  {}. {}\n", ++number, text_of(suggestion));
  }
  if (!report.notes.empty()) out += "\n";
  for (const std::string& note : report.notes) out += fmt::format("Note: {}.\n", note);
  return out;
}

std::string plan_as_markdown(const PlanReport& report) {
  TextTable table{{report.model.name, "", ""}, {}};
  for (const Row& row : rows_of(report)) table.rows.push_back({row.name, row.value, row.detail});
  std::string out = fmt::format("**{}** {}.\n\n{}", report.model.name, verdict(report), as_markdown(table));
  const std::vector<std::string> groups = groups_of(report);
  if (!groups.empty()) out += "\nLayers that are cached alike:\n\n";
  for (const std::string& group : groups) out += fmt::format("- {}\n", without_padding(group));
  if (!report.plan.suggestions.empty()) out += "\nWays out:\n\n";
  int number = 0;
  for (const Suggestion& suggestion : report.plan.suggestions) {
    out += fmt::format("{}. {}\n", ++number, text_of(suggestion));
  }
  if (!report.notes.empty()) out += "\n";
  for (const std::string& note : report.notes) out += fmt::format("- Note: {}.\n", note);
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
  out["max_batch_tokens"] = report.max_batch_tokens;
  out["runtime_bytes"] = report.input.runtime_bytes;
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
                               {"fits", suggestion.fits},
                               {"divergence", or_null(suggestion.divergence)}});
  }
  out["notes"] = report.notes;
  // A path may hold bytes that are not UTF-8: replace them rather than throw.
  return out.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace kvasir
