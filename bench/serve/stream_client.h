// Many streamed completions at once, from one thread, each with the times of what it heard.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace kvasir::bench {

using Json = nlohmann::ordered_json;

// What became of one request. Seconds count from when it was sent.
struct Outcome {
  std::string error;  // empty: the whole answer came
  double first_token = 0;
  double end = 0;
  std::vector<double> gaps;  // between one event with text and the next
  std::int64_t prompt_tokens = 0;
  std::int64_t cached_tokens = 0;
  std::int64_t answer_tokens = 0;
};

struct LoadResult {
  std::vector<Outcome> outcomes;  // in the order of the requests
  double seconds = 0;             // from the first to the last
  int most_open = 0;              // streams that were open at one time
};

enum class Order { kAtOnce, kOneByOne };

class StreamClient {
 public:
  using OnTick = std::function<void()>;

  explicit StreamClient(std::uint16_t port) : port_(port) {}

  // Posts each body to /v1/completions, with stream and usage switched on. `on_tick` is called four times a second.
  LoadResult run(const std::vector<Json>& bodies, Order order, const OnTick& on_tick = {}) const;

  // One request, outside of any load.
  Outcome ask(const Json& body) const { return run({body}, Order::kOneByOne).outcomes.front(); }

 private:
  std::uint16_t port_;
};

}  // namespace kvasir::bench
