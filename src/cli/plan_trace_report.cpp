// How kvasir plan --trace tells what it found.
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/bytes.h"
#include "cli/plan_trace.h"
#include "cli/text_table.h"
#include "eval/svg_chart.h"

namespace kvasir {
namespace {

std::string whole(double number) {
  return format_count(static_cast<std::uint64_t>(std::llround(std::max(number, 0.0))));
}
std::string percent(double share) { return fmt::format("{:.1f}%", 100 * share); }
std::string seconds(double time) {
  if (time < 1e-3) return fmt::format("{:.0f} µs", 1e6 * time);
  if (time < 1) return fmt::format("{:.{}f} ms", 1e3 * time, time < 0.1 ? 1 : 0);
  return fmt::format("{:.{}f} s", time, time < 100 ? 2 : 0);
}
std::string per_second(double number) { return number < 100 ? fmt::format("{:.1f}", number) : whole(number); }

// What is told of outcomes: one number each.
struct Figure {
  const char* name;
  const char* key;  // in JSON
  double (*of)(const RequestOutcomes& all);
  std::string (*text)(double number);
};

double answer_rate(const RequestOutcomes& all) {
  return all.seconds > 0 ? static_cast<double>(all.answer_tokens) / all.seconds : 0;
}

constexpr auto kFigures = std::to_array<Figure>({
    {"requests", "requests", [](const RequestOutcomes& o) { return static_cast<double>(o.requests); }, whole},
    {"prompt tokens", "prompt_tokens", [](const RequestOutcomes& o) { return static_cast<double>(o.prompt_tokens); },
     whole},
    {"reused tokens", "reused_tokens", [](const RequestOutcomes& o) { return static_cast<double>(o.reused_tokens); },
     whole},
    {"hit rate", "hit_rate", [](const RequestOutcomes& o) { return o.hit_rate(); }, percent},
    {"computed tokens", "computed_tokens",
     [](const RequestOutcomes& o) { return static_cast<double>(o.computed_tokens); }, whole},
    {"answer tokens", "answer_tokens", [](const RequestOutcomes& o) { return static_cast<double>(o.answer_tokens); },
     whole},
    {"preemptions", "preemptions", [](const RequestOutcomes& o) { return static_cast<double>(o.preemptions); },
     whole},
    {"waits for blocks", "waits", [](const RequestOutcomes& o) { return static_cast<double>(o.waits); }, whole},
    {"queue, median", "queue_p50", [](const RequestOutcomes& o) { return quantile(o.queue_seconds, 0.5); }, seconds},
    {"queue, 95%", "queue_p95", [](const RequestOutcomes& o) { return quantile(o.queue_seconds, 0.95); }, seconds},
    {"first token, median", "first_token_p50",
     [](const RequestOutcomes& o) { return quantile(o.first_token_seconds, 0.5); }, seconds},
    {"first token, 95%", "first_token_p95",
     [](const RequestOutcomes& o) { return quantile(o.first_token_seconds, 0.95); }, seconds},
    {"first token, 99%", "first_token_p99",
     [](const RequestOutcomes& o) { return quantile(o.first_token_seconds, 0.99); }, seconds},
    {"answer tokens a second", "answer_tokens_per_second", answer_rate, per_second},
});

// How far what was foretold is off; nothing, where there was nothing.
std::optional<double> error_of(double foretold, double measured) {
  if (foretold == measured) return 0;
  if (measured == 0) return std::nullopt;
  return foretold / measured - 1;
}

std::string error_text(double foretold, double measured) {
  const auto error = error_of(foretold, measured);
  return error ? fmt::format("{:+.1f}%", 100 * *error) : "";
}

TextTable outcome_table(const TraceReport& report) {
  TextTable out;
  out.header = {"", "foretold"};
  const bool told = report.measured && report.as_recorded;
  if (told && report.changed) out.header.emplace_back("as it was");
  if (told) out.header.insert(out.header.end(), {"measured", "error"});
  for (const Figure& figure : kFigures) {
    std::vector<std::string>& row = out.rows.emplace_back();
    row = {figure.name, figure.text(figure.of(report.asked.foretold))};
    if (!told) continue;
    const double foretold = figure.of(report.as_recorded->foretold);
    const double measured = figure.of(*report.measured);
    if (report.changed) row.push_back(figure.text(foretold));
    row.insert(row.end(), {figure.text(measured), error_text(foretold, measured)});
  }
  return out;
}

TextTable sweep_table(const TraceReport& report) {
  TextTable out;
  out.header = {report.swept, "pool",        "hit rate",         "preemptions",    "waits",
                "queue, 95%", "first token", "first token, 95%", "tokens a second"};
  for (const SweepPoint& point : report.sweep) {
    if (!point.replayed) {
      out.rows.push_back({point.value, "-", "-", "-", "-", "-", "-", "-", "-"});
      continue;
    }
    const RequestOutcomes& all = point.replayed->foretold;
    out.rows.push_back({point.value, format_bytes(point.replayed->pool_bytes), percent(all.hit_rate()),
                        whole(static_cast<double>(all.preemptions)), whole(static_cast<double>(all.waits)),
                        seconds(quantile(all.queue_seconds, 0.95)), seconds(quantile(all.first_token_seconds, 0.5)),
                        seconds(quantile(all.first_token_seconds, 0.95)), per_second(answer_rate(all))});
  }
  return out;
}

std::string engine_text(const TraceReport& report) {
  const EngineConfig& engine = report.plan.engine;
  return fmt::format("{}, a cache of {} in {}, {} eviction, {} of host memory", report.model.name,
                     format_bytes(engine.kv_bytes), to_text(engine.kv), engine.eviction,
                     engine.swap_bytes.value_or(0) == 0 ? "none" : format_bytes(*engine.swap_bytes));
}

double span_of(const TraceReport& report) {
  return (report.trace.requests.back().at - report.trace.requests.front().at) / report.plan.rate;
}

std::string headline(const TraceReport& report) {
  const double faster = report.asked.foretold.seconds / std::max(report.replay_seconds, 1e-9);
  return fmt::format("{} requests in {}, asked again of {}: {}, {} times as fast as they came",
                     whole(static_cast<double>(report.trace.requests.size())), seconds(span_of(report)),
                     engine_text(report), seconds(report.replay_seconds), whole(faster));
}

std::string reasons(const TraceReport& report) {
  std::string out;
  for (const SweepPoint& point : report.sweep) {
    if (!point.why.empty()) out += fmt::format("{}: {}\n", point.value, point.why);
  }
  return out;
}

nlohmann::ordered_json outcomes_json(const Replayed& replayed) {
  nlohmann::ordered_json out;
  for (const Figure& figure : kFigures) out[figure.key] = figure.of(replayed.foretold);
  out["refused"] = replayed.foretold.refused;
  out["seconds"] = replayed.foretold.seconds;
  out["recomputes"] = replayed.scheduler.recomputes;
  out["swaps"] = replayed.scheduler.swaps;
  out["evicted_blocks"] = replayed.evicted_blocks;
  out["steps"] = replayed.steps;
  out["pool_bytes"] = replayed.pool_bytes;
  return out;
}

nlohmann::ordered_json measured_json(const RequestOutcomes& measured) {
  nlohmann::ordered_json out;
  for (const Figure& figure : kFigures) out[figure.key] = figure.of(measured);
  out["seconds"] = measured.seconds;
  return out;
}

nlohmann::ordered_json errors_json(const RequestOutcomes& foretold, const RequestOutcomes& measured) {
  nlohmann::ordered_json out;
  for (const Figure& figure : kFigures) {
    const auto error = error_of(figure.of(foretold), figure.of(measured));
    out[figure.key] = error ? nlohmann::ordered_json(*error) : nlohmann::ordered_json(nullptr);
  }
  return out;
}

}  // namespace

std::string trace_as_text(const TraceReport& report) {
  std::string out = headline(report) + "\n\n" + as_aligned(outcome_table(report));
  if (!report.sweep.empty()) out += "\n" + as_aligned(sweep_table(report)) + reasons(report);
  if (!report.notes.empty()) out += "\n";
  for (const std::string& note : report.notes) out += fmt::format("Note: {}.\n", note);
  return out;
}

std::string trace_as_markdown(const TraceReport& report) {
  std::string out = headline(report) + ".\n\n" + as_markdown(outcome_table(report));
  if (!report.sweep.empty()) out += "\n" + as_markdown(sweep_table(report));
  if (!reasons(report).empty() || !report.notes.empty()) out += "\n";
  for (const SweepPoint& point : report.sweep) {
    if (!point.why.empty()) out += fmt::format("- {}: {}\n", point.value, point.why);
  }
  for (const std::string& note : report.notes) out += fmt::format("- Note: {}.\n", note);
  return out;
}

std::string trace_as_json(const TraceReport& report) {
  const EngineConfig& engine = report.plan.engine;
  nlohmann::ordered_json out;
  out["model"] = report.model.name;
  out["requests"] = report.trace.requests.size();
  out["trace_seconds"] = span_of(report);
  out["replay_seconds"] = report.replay_seconds;
  out["engine"] = {{"kv", to_text(engine.kv)},
                   {"kv_bytes", engine.kv_bytes},
                   {"swap_bytes", engine.swap_bytes.value_or(0)},
                   {"eviction", engine.eviction},
                   {"context", engine.context},
                   {"block_tokens", engine.block_tokens},
                   {"max_batch_tokens", engine.scheduler.max_batch_tokens},
                   {"rate", report.plan.rate}};
  out["foretold"] = outcomes_json(report.asked);
  out["as_recorded"] = report.as_recorded ? outcomes_json(*report.as_recorded) : nlohmann::ordered_json(nullptr);
  out["measured"] = report.measured ? measured_json(*report.measured) : nlohmann::ordered_json(nullptr);
  const bool both = report.measured && report.as_recorded;
  out["error"] = both ? errors_json(report.as_recorded->foretold, *report.measured) : nlohmann::ordered_json(nullptr);
  if (!report.swept.empty()) {
    nlohmann::ordered_json points = nlohmann::ordered_json::array();
    for (const SweepPoint& point : report.sweep) {
      nlohmann::ordered_json one{{"value", point.value}};
      if (point.replayed) one["foretold"] = outcomes_json(*point.replayed);
      if (!point.why.empty()) one["why"] = point.why;
      points.push_back(std::move(one));
    }
    out["sweep"] = {{"of", report.swept}, {"points", std::move(points)}};
  }
  out["notes"] = report.notes;
  return out.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

void write_sweep_svg(const TraceReport& report, const std::string& file) {
  const bool sizes = report.swept.ends_with("memory");
  ChartSeries hits{"hit rate", {}, ChartSeries::Style::kLine};
  ChartSeries median{"median", {}, ChartSeries::Style::kLine};
  ChartSeries most{"95%", {}, ChartSeries::Style::kLine};
  for (const SweepPoint& point : report.sweep) {
    if (!point.replayed) continue;
    const RequestOutcomes& all = point.replayed->foretold;
    const double x = sizes ? point.number / 1e9 : point.number;
    hits.points.push_back({x, 100 * all.hit_rate(), sizes ? "" : point.value});
    median.points.push_back({x, 1e3 * quantile(all.first_token_seconds, 0.5), ""});
    most.points.push_back({x, 1e3 * quantile(all.first_token_seconds, 0.95), sizes ? "" : point.value});
  }
  const auto x_scale = sizes ? Chart::Scale::kLog : Chart::Scale::kLinear;
  const std::string x_label = sizes ? report.swept + ", GB" : report.swept;
  write_svg(file, std::array{
                      Chart{"Prompt tokens found in the cache", x_label, "%", x_scale, Chart::Scale::kLinear, {hits}},
                      Chart{"Time to first token", x_label, "ms", x_scale, Chart::Scale::kLog, {median, most}}});
}

}  // namespace kvasir
