// A trace of conversations, and what paging wastes on it.
//
// Lengths are log-normal, as those of public chat logs are: prompts have a median of 60 tokens and a mean
// near 160, answers a median of 220 and a mean near 340, both with long tails, cut at 2,048. Every number
// follows from the seed.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <numeric>
#include <vector>

#include "base/check.h"
#include "base/hash.h"
#include "kv/cache.h"

namespace kvasir {

struct Chat {
  int prompt = 0;  // tokens
  int answer = 0;
};

inline int log_normal(double median, double sigma, std::uint64_t seed, std::uint64_t index) {
  const auto uniform = [&](std::uint64_t which) {
    return (static_cast<double>(mix(seed, index, which) >> 11) + 0.5) * 0x1p-53;
  };
  const double normal = std::sqrt(-2 * std::log(uniform(0))) * std::cos(2 * std::numbers::pi * uniform(1));
  return static_cast<int>(std::clamp(median * std::exp(sigma * normal), 4.0, 2048.0));
}

inline std::vector<Chat> chat_trace(int chats, std::uint64_t seed) {
  std::vector<Chat> trace;
  for (int i = 0; i < chats; ++i) {
    const auto index = static_cast<std::uint64_t>(i);
    trace.push_back({log_normal(60, 1.4, 2 * seed, index), log_normal(220, 0.93, 2 * seed + 1, index)});
  }
  return trace;
}

// Tokens that no other text of the trace begins with.
inline std::vector<TokenId> unique_text(std::int64_t tokens, int id) {
  std::vector<TokenId> text(static_cast<size_t>(tokens));
  std::iota(text.begin(), text.end(), 4096 * id);
  return text;
}

struct Waste {
  double slots = 0;   // rows in held blocks, summed over steps
  double unused = 0;  // those that hold no token
  double percent() const { return 100 * unused / slots; }
};

// Runs the trace `concurrent` conversations at a time, each prompt at once, each answer a token a step, and
// looks at every step at what is allocated and what is used. Nothing is shared: sharing would only hide
// waste.
inline Waste measure_waste(const std::vector<Chat>& trace, size_t concurrent, int block_tokens) {
  struct Running {
    KvLease lease;
    int left = 0;
  };
  CacheConfig config;
  config.block_tokens = block_tokens;
  const auto blocks = static_cast<std::int64_t>(concurrent) * (4096 / block_tokens + 1);
  config.policy.groups.push_back({{}, 1});
  config.pages = {in_order(blocks), 1};
  KvCache cache(config);
  Waste waste;
  std::vector<Running> running;
  for (size_t next = 0; next < trace.size();) {  // the last few are cut off: the machine is never half empty
    while (running.size() < concurrent && next < trace.size()) {
      const std::vector<TokenId> prompt = unique_text(trace[next].prompt, static_cast<int>(next));
      KvLease lease = cache.open(prompt, {}).lease;
      CHECK(lease.length() == 0 && cache.reserve(lease, std::ssize(prompt)));
      cache.commit(lease, prompt);
      running.push_back({std::move(lease), trace[next++].answer});
    }
    std::int64_t tokens = 0;
    for (Running& one : running) {
      const TokenId token[] = {one.left};
      CHECK(cache.reserve(one.lease, 1));
      cache.commit(one.lease, token);
      --one.left;
      tokens += one.lease.length();
    }
    const double slots = static_cast<double>(cache.pool(0).held()) * block_tokens;
    waste.slots += slots;
    waste.unused += slots - static_cast<double>(tokens);
    std::erase_if(running, [](const Running& one) { return one.left == 0; });
  }
  return waste;
}

}  // namespace kvasir
