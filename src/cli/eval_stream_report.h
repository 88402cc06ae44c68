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
  std::int64_t last = 0;  // tokens that were read again
  struct One {
    std::string policy;
    StreamReading reading;
    double reread = 0;  // perplexity of the last tokens when each window is computed again; 0: not asked for
  };
  std::vector<One> policies;
};

void print_stream(const StreamReport& report);
std::string stream_json(const StreamReport& report);
std::vector<Chart> stream_charts(const StreamReport& report);  // perplexity and time against tokens read

}  // namespace kvasir
