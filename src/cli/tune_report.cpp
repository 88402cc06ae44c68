#include "cli/tune_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "layout/codec.h"

namespace kvasir {
namespace {

using TuneJson = nlohmann::ordered_json;

std::string recent_words(std::int64_t recent, KvFormat format) {
  if (recent == 0) return "no recent tokens apart";
  return fmt::format("the last {} tokens in {}", recent, format_name(format));
}

void print_sensitivity(const TuneSettings& settings, const Sensitivity& one) {
  fmt::print("\nMean KL with one layer's K or V alone in a format, {}:\n{:<6}",
             recent_words(one.recent, settings.recent_format), "layer");
  for (const char* part : kPartNames) {
    for (const KvFormat format : settings.formats)
      fmt::print(" {:>9}", fmt::format("{} {}", part, format_name(format)));
  }
  fmt::print("\n");
  for (size_t layer = 0; layer < one.harm.size(); ++layer) {
    fmt::print("{:<6}", layer);
    for (const auto& part : one.harm[layer]) {
      for (const double kl : part) fmt::print(" {:>9.2e}", kl);
    }
    fmt::print("\n");
  }
}

void print_heads(const TuneReport& report) {
  if (!report.heads) return;
  fmt::print("\nMean KL with one head's K or V alone rounded to {}:\n{:<6}", format_name(report.head_format),
             "layer");
  const size_t heads = report.heads->front()[0].size();
  for (const char* part : kPartNames) {
    for (size_t head = 0; head < heads; ++head) fmt::print(" {:>9}", fmt::format("{} head {}", part, head));
  }
  fmt::print("\n");
  for (size_t layer = 0; layer < report.heads->size(); ++layer) {
    fmt::print("{:<6}", layer);
    for (const auto& part : (*report.heads)[layer]) {
      for (const double kl : part) fmt::print(" {:>9.2e}", kl);
    }
    fmt::print("\n");
  }
}

void print_mixes(const TuneReport& report, const std::vector<TunedMix>& mixes) {
  fmt::print("{:>5} {:>11} {:>9} {:>9} {:>9} {:>8}  policy\n", "bits", "bytes/token", "KL guess", "KL mean", "change",
             "top-1");
  for (const TunedMix& one : mixes) {
    fmt::print("{:>5.2f} {:>11.1f} {:>9}", one.bits, one.bytes_per_token,
               one.foretold > 0 ? fmt::format("{:.2e}", one.foretold) : "");
    if (one.measured) {
      const double change = one.measured->perplexity() / report.reference_perplexity - 1;
      fmt::print(" {:>9.2e} {:>9} {:>8}", one.measured->mean_kl(), fmt::format("{:+.3f}%", 100 * change),
                 fmt::format("{:.2f}%", 100 * one.measured->top_agreement()));
    } else {
      fmt::print(" {:>9} {:>9} {:>8}", "", "", "");
    }
    fmt::print("  {}\n", one.policy);
  }
}

TuneJson mix_json(const TunedMix& one) {
  TuneJson json{{"policy", one.policy},
                {"bits", one.bits},
                {"bytes_per_token", one.bytes_per_token},
                {"foretold_kl", one.foretold}};
  if (one.measured) {
    json["measured"] = {{"kl", one.measured->mean_kl()},
                        {"kl_p99", one.measured->kl_99()},
                        {"perplexity", one.measured->perplexity()},
                        {"same_top1", one.measured->top_agreement()}};
  }
  return json;
}

TuneJson mixes_json(const std::vector<TunedMix>& mixes) {
  TuneJson json = TuneJson::array();
  for (const TunedMix& one : mixes) json.push_back(mix_json(one));
  return json;
}

// [{"layer": 0, "K": {"int8": …}, "V": {…}}, …]
TuneJson sensitivity_json(const TuneSettings& settings, const LayerHarm& harm) {
  TuneJson layers = TuneJson::array();
  for (size_t layer = 0; layer < harm.size(); ++layer) {
    TuneJson& json = layers.emplace_back(TuneJson{{"layer", layer}});
    for (size_t part = 0; part < 2; ++part) {
      for (size_t i = 0; i < settings.formats.size(); ++i) {
        json[kPartNames[part]][std::string(format_name(settings.formats[i]))] = harm[layer][part][i];
      }
    }
  }
  return layers;
}

// Dots, of which only the last has a name.
ChartSeries measured_series(const std::string& label, const std::vector<TunedMix>& mixes) {
  ChartSeries series{"", {}};
  for (const TunedMix& one : mixes) {
    if (one.measured) series.points.push_back({one.bytes_per_token, one.measured->mean_kl(), {}});
  }
  if (!series.points.empty()) series.points.back().label = label;
  return series;
}

}  // namespace

void print_tune_report(const TuneReport& report) {
  const EvalReport& judged = report.judged;
  fmt::print("{} on {}\n", judged.model, judged.backend);
  fmt::print("tuned on {} tokens of {}, in windows of {}, compared with f32 KV\n", report.tuned_tokens, judged.text,
             judged.context);
  for (const Sensitivity& one : report.result.sensitivity) print_sensitivity(report.settings, one);
  print_heads(report);
  fmt::print("\nThe front, as foretold and where it was measured:\n");
  print_mixes(report, report.result.front);
  fmt::print("\nOne format for all:\n");
  print_mixes(report, report.result.uniform);
  fmt::print("\nMixes of at most {:.4g} bits:\n", report.settings.bits);
  print_mixes(report, report.result.candidates);
  fmt::print("\nchosen: {}\n\nOn {}, which tuning did not see:\n", report.result.best.policy, report.judged_text);
  print_table(judged);
}

std::string tune_json(const TuneReport& report) {
  TuneJson json{{"model", report.judged.model},
                {"bits", report.settings.bits},
                {"tuned_tokens", report.tuned_tokens},
                {"reference_perplexity", report.reference_perplexity},
                {"chosen", mix_json(report.result.best)},
                {"front", mixes_json(report.result.front)},
                {"candidates", mixes_json(report.result.candidates)},
                {"uniform", mixes_json(report.result.uniform)}};
  for (const Sensitivity& one : report.result.sensitivity) {
    json["sensitivity"].push_back(
        {{"recent", one.recent}, {"base_kl", one.base}, {"layers", sensitivity_json(report.settings, one.harm)}});
  }
  if (report.heads) {
    TuneJson layers = TuneJson::array();
    for (const auto& layer : *report.heads) layers.push_back({{"K", layer[0]}, {"V", layer[1]}});
    json["heads"] = {{"format", format_name(report.head_format)}, {"layers", layers}};
  }
  json["judged"] = TuneJson::parse(report_json(report.judged));
  return json.dump(2);
}

std::vector<Chart> tune_charts(const TuneReport& report) {
  Chart front{fmt::format("{}: formats by layer", report.judged.model),
              fmt::format("bytes per token, of {} tokens", report.judged.context),
              "mean KL (nats)",
              Chart::Scale::kLog,
              Chart::Scale::kLog,
              {}};
  ChartSeries foretold{"", {}, ChartSeries::Style::kLine};
  for (const TunedMix& one : report.result.front) foretold.points.push_back({one.bytes_per_token, one.foretold, {}});
  ChartSeries uniform{"", {}};
  for (const TunedMix& one : report.result.uniform) {
    uniform.points.push_back({one.bytes_per_token, one.measured->mean_kl(), one.policy});
  }
  const TunedMix& best = report.result.best;
  front.series = {foretold,
                  measured_series("measured", report.result.front),
                  uniform,
                  {"", {{best.bytes_per_token, best.measured->mean_kl(), "chosen"}}}};
  Chart layers{"Mean KL with one part alone in a format",
               "layer",
               "mean KL (nats)",
               Chart::Scale::kLinear,
               Chart::Scale::kLog,
               {}};
  const Sensitivity& plain = report.result.sensitivity.front();
  for (size_t i = 0; i < report.settings.formats.size(); ++i) {
    for (size_t part = 0; part < 2; ++part) {
      const std::string name = fmt::format("{} {}", kPartNames[part], format_name(report.settings.formats[i]));
      ChartSeries& series = layers.series.emplace_back(ChartSeries{name, {}, ChartSeries::Style::kLine});
      for (size_t layer = 0; layer < plain.harm.size(); ++layer) {
        series.points.push_back({static_cast<double>(layer), plain.harm[layer][part][i], {}});
      }
    }
  }
  return {front, layers};
}

std::string policy_file_text(const TuneReport& report) {
  const TunedMix& best = report.result.best;
  std::string out = fmt::format("# KV formats by layer for {}, made by kvasir tune --bits {:.4g}\n",
                                report.judged.model, report.settings.bits);
  out += fmt::format("# {:.2f} bits a number, {:.1f} bytes a token in sequences of {} tokens\n", best.bits,
                     best.bytes_per_token, report.judged.context);
  const PolicyReport& one = report.judged.policies.back();
  out += fmt::format("# against f32, on text it was not tuned on: perplexity {:+.2f}%, KL {:.2e}, top-1 {:.1f}%\n",
                     100 * one.perplexity_change, one.mean_kl, 100 * one.same_top);
  return out + best.policy + "\n";
}

}  // namespace kvasir
