// What serve_bench measures. Each experiment starts a server, loads it, and reports; a request that was lost is told
// of in the report, and makes the program fail.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "serve/report.h"

namespace kvasir::bench {

struct ServerSetup {
  std::filesystem::path model;
  std::vector<std::string> arguments;  // for the server, besides the model
  std::string peer;                    // another server's program, with llama-server's flags; empty: kvasir
};

struct Measured {
  Report report;
  std::vector<std::string> errors;  // of the requests that were lost
};

// Many streams at once, in several rounds: the server's memory over time, and nothing lost.
struct StreamsPlan {
  int streams = 1000;
  int rounds = 3;
  int prompt_tokens = 32;
  int answer_tokens = 64;
};
Measured measure_streams(const ServerSetup& setup, const StreamsPlan& plan);

// The first token after a long prefix, when the cache has it and when it has not.
struct PrefixPlan {
  int prefix_tokens = 1000;
  int own_tokens = 16;
  int repeats = 5;
};
Measured measure_prefix(const ServerSetup& setup, const PrefixPlan& plan);

// The same requests one after the other, and all at once.
struct ConcurrencyPlan {
  int requests = 16;
  int prompt_tokens = 16;
  int answer_tokens = 64;
  int repeats = 3;
};
Measured measure_concurrency(const ServerSetup& setup, const ConcurrencyPlan& plan);

// Many requests at once that share a prefix which the cache already has.
struct BurstPlan {
  int requests = 32;
  int prefix_tokens = 1000;
  int own_tokens = 24;
  int answer_tokens = 32;
  int repeats = 3;
};
Measured measure_burst(const ServerSetup& setup, const BurstPlan& plan);

}  // namespace kvasir::bench
