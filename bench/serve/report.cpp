#include "serve/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace kvasir::bench {
namespace {

std::string shown(double value) {
  if (value == std::floor(value) && value < 1e9) return fmt::format("{:.0f}", value);
  return fmt::format("{:.{}f}", value, value < 10 ? 2 : 1);
}

}  // namespace

double percentile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  const auto rank = static_cast<size_t>(std::ceil(share * static_cast<double>(values.size())));
  return values[std::clamp<size_t>(rank, 1, values.size()) - 1];
}

void Report::add(const char* key, std::string label, double value, const char* unit) {
  rows_.push_back({std::move(label), shown(value), unit});
  json_[key] = value;
}

void Report::add_share(const char* key, std::string label, double share) {
  rows_.push_back({std::move(label), fmt::format("{:.1f}", 100 * share), "%"});
  json_[key] = share;
}

void Report::add_times(const char* key, const std::string& label, std::vector<double> seconds) {
  struct Named {
    const char* name;
    double share;
  };
  Json out;
  for (const Named& one : {Named{"p50", 0.5}, Named{"p90", 0.9}, Named{"p99", 0.99}, Named{"most", 1}}) {
    const double value = percentile(seconds, one.share);
    rows_.push_back({fmt::format("{}, {}", label, one.name), shown(1e3 * value), "ms"});
    out[one.name] = value;
  }
  json_[std::string(key) + "_seconds"] = out;
}

std::string Report::table() const {
  size_t labels = 0;
  size_t values = 0;
  for (const Row& row : rows_) {
    labels = std::max(labels, row.label.size());
    values = std::max(values, row.text.size());
  }
  std::string out = title_ + "\n\n";
  for (const Row& row : rows_)
    out += fmt::format("{:<{}}  {:>{}} {}\n", row.label, labels, row.text, values, row.unit);
  return out;
}

Json Report::json() const {
  Json out{{"title", title_}};
  out.update(json_);
  return out;
}

}  // namespace kvasir::bench
