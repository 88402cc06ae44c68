// What endless sequences were like, as a table, as JSON and as a picture.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "eval/stream.h"
#include "eval/svg_chart.h"

namespace kvasir {

struct StreamReport {
  std::string model;
  std::string backend;
  std::int64_t tokens = 0;
  struct One {
    std::string policy;
    std::vector<StreamSegment> segments;
  };
  std::vector<One> policies;
};

void print_stream(const StreamReport& report);
std::string stream_json(const StreamReport& report);
std::vector<Chart> stream_charts(const StreamReport& report);  // perplexity and time against tokens read

}  // namespace kvasir
