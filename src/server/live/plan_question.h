// What the page asks the planner. Whoever makes a Service lends it one: arithmetic about models is not the server's.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace kvasir {

// As `kvasir plan` is told it. Empty and 0 mean: not given.
struct PlanQuestion {
  std::string model = {};  // a known name; empty: the model that is served
  std::int64_t context = 0;
  std::int64_t users = 1;
  std::string kv = {};
  std::string weights_dtype = {};
  std::string memory = {};
  std::string gpu = {};
  std::string reserve = {};
  int block_tokens = 0;
};

struct Planner {
  // JSON, as `kvasir plan --json` prints it, to the byte. Throws Error for what is not known. From any thread.
  std::function<std::string(const PlanQuestion&)> plan;
  std::function<std::string()> choices;  // JSON: names of models, GPUs and types of numbers that a question may have
};

}  // namespace kvasir
