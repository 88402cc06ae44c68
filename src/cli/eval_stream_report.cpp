#include "cli/eval_stream_report.h"

#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/bytes.h"

namespace kvasir {

void print_stream(const StreamReport& report) {
  fmt::print("{} on {}\n", report.model, report.backend);
  for (const StreamReport::One& one : report.policies) {
    fmt::print("\n{}\n{:>12} {:>12} {:>10} {:>12} {:>12}\n", one.policy, "tokens", "perplexity", "ms/token", "cache",
               "process");
    for (const StreamSegment& segment : one.reading.segments) {
      fmt::print("{:>12} {:>12.4f} {:>10.3f} {:>12} {:>12}\n", segment.end, segment.perplexity,
                 1000 * segment.seconds_per_token, format_bytes(static_cast<std::uint64_t>(segment.cache_bytes)),
                 format_bytes(static_cast<std::uint64_t>(segment.process_bytes)));
    }
    if (one.reread > 0) {
      fmt::print("perplexity of the last {}: {:.4f}; with every window computed again {:.4f} ({:+.2f}%)\n",
                 report.last, one.reading.last_perplexity, one.reread,
                 100 * (one.reading.last_perplexity / one.reread - 1));
    }
  }
}

std::string stream_json(const StreamReport& report) {
  nlohmann::json json{{"model", report.model}, {"backend", report.backend}, {"tokens", report.tokens}};
  for (const StreamReport::One& one : report.policies) {
    nlohmann::json segments = nlohmann::json::array();
    for (const StreamSegment& segment : one.reading.segments) {
      segments.push_back({{"end", segment.end},
                          {"perplexity", segment.perplexity},
                          {"seconds_per_token", segment.seconds_per_token},
                          {"cache_bytes", segment.cache_bytes},
                          {"process_bytes", segment.process_bytes}});
    }
    json["policies"].push_back({{"policy", one.policy}, {"segments", segments}});
    if (one.reread > 0) {
      json["policies"].back()["last"] = {
          {"tokens", report.last}, {"perplexity", one.reading.last_perplexity}, {"reread_perplexity", one.reread}};
    }
  }
  return json.dump(2);
}

std::vector<Chart> stream_charts(const StreamReport& report) {
  Chart perplexity;
  perplexity.title = report.model + ": one endless sequence";
  perplexity.x_label = "tokens read";
  perplexity.y_label = "perplexity of the last 10,000";
  perplexity.y_scale = Chart::Scale::kLog;
  Chart time = perplexity;
  time.title = "time";
  time.y_label = "ms per token";
  time.y_scale = Chart::Scale::kLinear;
  for (const StreamReport::One& one : report.policies) {
    ChartSeries quality{one.policy, {}, ChartSeries::Style::kLine};
    ChartSeries speed = quality;
    for (const StreamSegment& segment : one.reading.segments) {
      quality.points.push_back({static_cast<double>(segment.end), segment.perplexity, {}});
      speed.points.push_back({static_cast<double>(segment.end), 1000 * segment.seconds_per_token, {}});
    }
    perplexity.series.push_back(std::move(quality));
    time.series.push_back(std::move(speed));
  }
  return {perplexity, time};
}

}  // namespace kvasir
