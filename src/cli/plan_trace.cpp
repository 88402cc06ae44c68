#include "cli/plan_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>

#include "base/bytes.h"
#include "base/error.h"
#include "cli/model_options.h"
#include "cli/policy_file.h"
#include "plan/gpus.h"
#include "trace/read_trace.h"

namespace kvasir {
namespace {

// A shipped model by its name first, as serve looks for it.
NamedShape shape_of(const std::string& name) {
  try {
    NamedShape shape = resolve_shape(find_model(name).string());
    shape.name = name;
    return shape;
  } catch (const Error&) {
    return resolve_shape(name);
  }
}

// Weights, the runtime and the reserve: what is there before a token is cached.
std::uint64_t taken_by(const NamedShape& model, const TraceOptions& options) {
  PlanOptions plan;
  plan.weights_dtype = options.weights_dtype;
  plan.gpu = options.gpu;
  plan.device = options.device;
  plan.max_batch_tokens = options.max_batch_tokens;
  plan.reserve = options.reserve;
  return make_plan_report(model, plan).input.taken_bytes();
}

// What is left of a memory for the cache.
std::uint64_t pool_of(std::uint64_t memory, const NamedShape& model, const TraceOptions& options) {
  const std::uint64_t taken = taken_by(model, options);
  if (memory <= taken) {
    fail_usage(fmt::format("{} do not hold the weights, the runtime and the reserve, {}", format_bytes(memory),
                           format_bytes(taken)),
               "--memory", "give more memory, smaller weights with --weights-dtype, or --kv-memory");
  }
  return memory - taken;
}

// The default of a server, as far as it does not depend on a machine.
EngineConfig plain_engine(const ModelSpec& spec) {
  EngineConfig out;
  out.context = spec.context;
  out.swap_bytes = 0;
  return out;
}

void set_sizes(const TraceOptions& options, const NamedShape& model, EngineConfig& engine) {
  if (!options.kv_memory.empty()) engine.kv_bytes = parse_bytes(options.kv_memory, "--kv-memory");
  if (!options.memory.empty()) engine.kv_bytes = pool_of(parse_bytes(options.memory, "--memory"), model, options);
  if (!options.gpu.empty()) engine.kv_bytes = pool_of(gpus_named(options.gpu).memory_bytes(), model, options);
  if (!options.swap_memory.empty()) engine.swap_bytes = parse_bytes(options.swap_memory, "--swap-memory", 0);
}

ReplayPlan plan_of(const RequestTrace& trace, const NamedShape& model, const TraceOptions& options) {
  ReplayPlan plan;
  plan.spec = model.config;
  plan.engine = trace.config ? trace.config->engine : plain_engine(plan.spec);
  if (trace.config) plan.samples = trace.config->samples;
  plan.costs = trace.costs;
  plan.rate = options.rate;
  set_sizes(options, model, plan.engine);
  if (!options.kv.empty()) plan.engine.kv = parse_kv_policy(policy_argument(options.kv, "--kv"), "--kv");
  if (!options.eviction.empty()) plan.engine.eviction = options.eviction;
  if (options.context > 0) plan.engine.context = options.context;
  if (options.block_tokens > 0) plan.engine.block_tokens = options.block_tokens;
  if (options.max_batch_tokens > 0) plan.engine.scheduler.max_batch_tokens = options.max_batch_tokens;
  return plan;
}

bool changes_something(const TraceOptions& options) {
  return options.rate != 1 || !options.kv.empty() || !options.kv_memory.empty() || !options.memory.empty() ||
         !options.gpu.empty() || !options.swap_memory.empty() || !options.eviction.empty() || options.context > 0 ||
         options.block_tokens > 0 || options.max_batch_tokens > 0;
}

// Without them nothing is known of time; with those of another machine or model, that of another.
void use_costs(const std::string& file, RequestTrace& trace) {
  if (!file.empty()) trace.costs = read_costs(file);
  if (trace.costs.empty()) {
    fail_usage("the trace does not say how long steps take", "--costs",
               "give a trace of kvasir serve --trace, or what kvasir bench --json printed, of the model and machine");
  }
}

// "memory=8G..64G": what is swept, and its values.
struct Sweep {
  std::string key;
  std::vector<std::string> values;
};

std::vector<std::string> parts_of(const std::string& text, char separator) {
  std::vector<std::string> out;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(separator, at), text.size());
    out.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

// Equal steps of a logarithm: each doubling in two, at least five values and at most seventeen.
std::vector<std::string> sizes_between(const std::string& from, const std::string& to) {
  const auto least = static_cast<double>(parse_bytes(from, "--sweep"));
  const auto most = static_cast<double>(parse_bytes(to, "--sweep"));
  if (most <= least) {
    fail_usage(fmt::format("{} is not more than {}", to, from), "--sweep", "give the smaller size first");
  }
  const int steps = std::clamp(static_cast<int>(std::lround(2 * std::log2(most / least))), 4, 16);
  std::vector<std::string> out;
  for (int i = 0; i <= steps; ++i) {
    out.push_back(fmt::format("{:.0f}", least * std::pow(most / least, static_cast<double>(i) / steps)));
  }
  return out;
}

constexpr std::string_view kSizes[]{"memory", "kv-memory", "swap-memory"};
bool is_size(std::string_view key) { return std::ranges::find(kSizes, key) != std::end(kSizes); }

Sweep sweep_of(const std::string& text) {
  const size_t equals = text.find('=');
  Sweep out{text.substr(0, equals), {}};
  const bool known = is_size(out.key) || out.key == "kv" || out.key == "eviction" || out.key == "rate";
  if (equals == std::string::npos || !known) {
    fail_usage(fmt::format("'{}' cannot be swept", text), "--sweep",
               "use memory=8G..64G, or memory, kv-memory, swap-memory, rate, eviction or kv with values like "
               "eviction=lru,cost; values of kv are parted by ';'");
  }
  const std::string values = text.substr(equals + 1);
  const size_t range = values.find("..");
  if (is_size(out.key) && range != std::string::npos) {
    out.values = sizes_between(values.substr(0, range), values.substr(range + 2));
  } else {
    out.values = parts_of(values, out.key == "kv" ? ';' : ',');
  }
  return out;
}

double number_of(const std::string& text, const char* option) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size() && value > 0 && value <= 1e6) return value;
  fail_usage(fmt::format("'{}' is not how many times as fast requests could come", text), option,
             "use a number above 0");
}

TraceOptions with_value(TraceOptions options, const std::string& key, const std::string& value) {
  if (key == "memory" || key == "kv-memory") options.memory = options.kv_memory = options.gpu = "";
  if (key == "memory") options.memory = value;
  if (key == "kv-memory") options.kv_memory = value;
  if (key == "swap-memory") options.swap_memory = value;
  if (key == "kv") options.kv = value;
  if (key == "eviction") options.eviction = value;
  if (key == "rate") options.rate = number_of(value, "--sweep");
  return options;
}

void run_sweep(const TraceOptions& options, TraceReport& report) {
  const Sweep sweep = sweep_of(options.sweep);
  report.swept = sweep.key;
  for (const std::string& value : sweep.values) {
    SweepPoint& point = report.sweep.emplace_back();
    point.value = value;
    point.number = static_cast<double>(report.sweep.size());
    const TraceOptions changed = with_value(options, sweep.key, value);
    if (is_size(sweep.key)) {
      const std::uint64_t bytes = parse_bytes(value, "--sweep", 0);
      point.number = static_cast<double>(bytes);
      point.value = format_bytes(bytes);
    }
    try {
      point.replayed = replay(report.trace, plan_of(report.trace, report.model, changed));
    } catch (const Error& error) {
      if (!is_size(sweep.key)) throw;  // another value may do
      point.why = error.what();
    }
  }
}

void add_notes(const TraceOptions& options, TraceReport& report) {
  const RequestTrace& trace = report.trace;
  std::vector<std::string>& notes = report.notes;
  const auto say = [&](std::int64_t number, std::string_view what) {
    if (number > 0) notes.push_back(fmt::format("{} {}", format_count(static_cast<std::uint64_t>(number)), what));
  };
  say(trace.lost_lines, "lines were lost when the trace was written");
  say(trace.unread_lines, "lines of the trace are torn and were left out");
  say(trace.other_requests, "requests answer to a source, and were left out");
  say(report.asked.foretold.refused, "requests can never fit, and would be refused");
  if (!options.kv.empty() || !options.model.empty() || !options.costs.empty()) {
    notes.emplace_back("steps are taken to last as long as those that were measured");
  }
  if (!trace.config) notes.emplace_back("nobody knows from this trace what was answered: no prompt finds an answer");
}

}  // namespace

TraceReport make_trace_report(const TraceOptions& options) {
  TraceReport report;
  report.trace = read_trace(options.files);
  use_costs(options.costs, report.trace);
  if (report.trace.requests.empty()) {
    fail_input("no request is in it", options.files.front().string(), "record some");
  }
  const std::string name = options.model.empty() && report.trace.config ? report.trace.config->model : options.model;
  if (name.empty()) fail_usage("the trace does not say of which model it is", "--model", "give -m");
  report.model = shape_of(name);
  report.plan = plan_of(report.trace, report.model, options);
  if (report.plan.engine.kv_bytes == 0) {
    fail_usage("the trace does not say how much memory there is", "--kv-memory", "give it, or --memory, or --gpu");
  }
  const auto began = std::chrono::steady_clock::now();
  report.asked = replay(report.trace, report.plan);
  report.replay_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  report.changed = changes_something(options);
  const bool same_model = report.trace.config && report.trace.config->model == name;
  if (same_model) report.measured = measured_outcomes(report.trace);
  if (report.measured) {
    report.as_recorded =
        report.changed ? replay(report.trace, plan_of(report.trace, report.model, TraceOptions{})) : report.asked;
  }
  if (!options.sweep.empty()) run_sweep(options, report);
  add_notes(options, report);
  return report;
}

}  // namespace kvasir
