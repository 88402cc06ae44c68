// Chats of agents, as a client sends them: turns of a user, in each some steps of thoughts and a call, a tool's
// result, and at last an answer. Everything follows from the seed; the words are those of a text.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <numbers>
#include <string>
#include <vector>

#include "base/hash.h"

namespace kvasir {

using OrderedJson = nlohmann::ordered_json;

struct AgentChat {
  OrderedJson tools = OrderedJson::array();
  OrderedJson messages = OrderedJson::array();  // all of them; each of the assistant's is one request
  std::vector<size_t> asked;                    // by request: the place of its answer among the messages
};

class AgentChats {
 public:
  AgentChats(std::vector<std::string> words, std::uint64_t seed) : words_(std::move(words)), seed_(seed) {}

  // Chats are of a few kinds of agents: those of one have the same tools and the same system prompt.
  AgentChat chat(std::uint64_t number) {
    AgentChat out;
    const std::uint64_t kind = mix(seed_, number, 1) % kKinds;
    at_ = mix(seed_, kind, 2);
    for (int tool = 0; tool < 8; ++tool) out.tools.push_back(tool_of(kind, tool));
    out.messages.push_back({{"role", "system"}, {"content", text(300)}});
    at_ = mix(seed_, number, 3);
    const int turns = 3 + static_cast<int>(next() % 6);
    for (int turn = 0; turn < turns; ++turn) {
      out.messages.push_back({{"role", "user"}, {"content", text(length(30, 0.9))}});
      const auto steps = static_cast<int>(next() % 6);
      for (int step = 0; step < steps; ++step) add_call(kind, out);
      out.asked.push_back(out.messages.size());
      out.messages.push_back(
          {{"role", "assistant"}, {"content", text(length(90, 0.7))}, {"reasoning_content", text(length(70, 0.8))}});
    }
    return out;
  }

 private:
  static constexpr std::uint64_t kKinds = 4;

  std::uint64_t next() { return mix(at_++, 5, seed_); }

  // Log-normal around a median.
  int length(double median, double sigma) {
    const auto uniform = [this] { return (static_cast<double>(next() >> 11) + 0.5) * 0x1p-53; };
    const double radius = std::sqrt(-2 * std::log(uniform()));
    const double normal = radius * std::cos(2 * std::numbers::pi * uniform());
    return static_cast<int>(std::clamp(median * std::exp(sigma * normal), 3.0, 1200.0));
  }

  std::string text(int count) {
    std::string out;
    for (size_t at = next() % words_.size(); count > 0; --count, at = (at + 1) % words_.size()) {
      out += (out.empty() ? "" : " ") + words_[at];
    }
    return out;
  }

  OrderedJson tool_of(std::uint64_t kind, int tool) {
    const std::string name = "tool_" + std::to_string(kind) + "_" + std::to_string(tool);
    const OrderedJson path{{"type", "string"}, {"description", text(12)}};
    return {{"type", "function"},
            {"function",
             {{"name", name},
              {"description", text(25)},
              {"parameters", {{"type", "object"}, {"properties", {{"path", path}}}, {"required", {"path"}}}}}}};
  }

  void add_call(std::uint64_t kind, AgentChat& out) {
    const std::string name = "tool_" + std::to_string(kind) + "_" + std::to_string(next() % 8);
    const OrderedJson function{{"name", name}, {"arguments", {{"path", text(6)}}}};
    OrderedJson says{{"role", "assistant"}, {"content", ""}, {"reasoning_content", text(length(50, 0.8))}};
    says["tool_calls"] = OrderedJson::array({{{"type", "function"}, {"function", function}}});
    out.asked.push_back(out.messages.size());
    out.messages.push_back(std::move(says));
    out.messages.push_back({{"role", "tool"}, {"content", text(length(120, 1.0))}});
  }

  std::vector<std::string> words_;
  std::uint64_t seed_;
  std::uint64_t at_ = 0;
};

}  // namespace kvasir
