// Measures with names and units, for people as a table and for programs as JSON.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "serve/stream_client.h"

namespace kvasir::bench {

class Report {
 public:
  explicit Report(std::string title) : title_(std::move(title)) {}

  void add(const char* key, std::string label, double value, const char* unit);
  void add_share(const char* key, std::string label, double share);                        // shown in percent
  void add_times(const char* key, const std::string& label, std::vector<double> seconds);  // 50th, 90th, 99th, most

  std::string table() const;
  Json json() const;

 private:
  struct Row {
    std::string label;
    std::string text;
    std::string unit;
  };

  std::string title_;
  std::vector<Row> rows_;
  Json json_;
};

// The value below which a share of them lies; 0 when there are none.
double percentile(std::vector<double> values, double share);

}  // namespace kvasir::bench
