// What the same request must always be answered with, taken out of a reply.
#pragma once

#include <algorithm>
#include <ostream>
#include <string>
#include <vector>

#include "test_server.h"

namespace kvasir::testing {

// The parts of an answer that must not depend on anything but the request: ids, times and cache hits may.
struct Answer {
  std::vector<std::string> texts;
  std::vector<std::string> reasons;
  std::vector<std::string> probabilities;  // of every token, where they were asked for: nearly the logits themselves
  std::int64_t tokens = 0;

  bool operator==(const Answer&) const = default;
};

inline std::ostream& operator<<(std::ostream& out, const Answer& answer) {
  out << answer.tokens << " tokens";
  for (size_t i = 0; i < answer.texts.size(); ++i) out << "\n  (" << answer.reasons[i] << ") " << answer.texts[i];
  return out;
}

// Of a chat or a completion, streamed or whole.
inline Answer answer_of(const Reply& reply) {
  const bool streamed = reply.headers.at("content-type").starts_with("text/event-stream");
  Answer answer;
  const auto note = [&](const Json& choice, const std::string& text) {
    const auto index = choice["index"].get<size_t>();
    answer.texts.resize(std::max(answer.texts.size(), index + 1));
    answer.reasons.resize(answer.texts.size());
    answer.probabilities.resize(answer.texts.size());
    answer.texts[index] += text;
    if (choice["finish_reason"].is_string()) answer.reasons[index] = choice["finish_reason"];
    if (!choice.contains("logprobs") || !choice["logprobs"].is_object()) return;
    for (const Json& token : choice["logprobs"].value("content", Json::array()))
      answer.probabilities[index] += token.dump();
  };
  for (const Json& part : streamed ? events_of(reply.body) : std::vector<Json>{reply.json()}) {
    if (part.contains("usage") && part["usage"].is_object()) answer.tokens = part["usage"]["completion_tokens"];
    for (const Json& choice : part["choices"]) {
      const char* key = streamed ? "delta" : "message";
      note(choice, choice.contains(key) ? choice[key].value("content", "") : choice.value("text", ""));
    }
  }
  return answer;
}

}  // namespace kvasir::testing
