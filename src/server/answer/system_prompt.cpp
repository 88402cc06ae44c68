#include "server/answer/system_prompt.h"

#include <algorithm>
#include <initializer_list>
#include <utility>

namespace kvasir {
namespace {

OrderedJson message(const char* role, std::string text) { return {{"role", role}, {"content", std::move(text)}}; }

void add_text(std::string& text, const std::string& more) {
  if (!text.empty()) text += "\n\n";
  text += more;
}

}  // namespace

SystemTurns system_turns(const std::function<std::optional<std::string>(const OrderedJson& messages)>& render) {
  // A template may leave out what it does not refuse.
  const auto shows = [&](const OrderedJson& messages, std::initializer_list<const char*> marks) {
    const std::optional<std::string> text = render(messages);
    return text &&
           std::ranges::all_of(marks, [&](const char* mark) { return text->find(mark) != std::string::npos; });
  };
  const OrderedJson first = message("system", "\uE5F6");
  const OrderedJson second = message("system", "\uE5F7");
  const OrderedJson user = message("user", "u");
  const OrderedJson both = OrderedJson::array({first, second, user});
  const OrderedJson later = OrderedJson::array({first, user, message("assistant", "a"), second, user});
  const auto marks = {"\uE5F6", "\uE5F7"};
  if (shows(both, marks) && shows(later, marks)) return SystemTurns::kAnywhere;
  const bool takes_none = !render(OrderedJson::array({user}));  // of our probes: nothing is known
  return takes_none || shows(OrderedJson::array({first, user}), {"\uE5F6"}) ? SystemTurns::kFirst
                                                                            : SystemTurns::kNowhere;
}

OrderedJson messages_with_system(const OrderedJson& messages, SystemTurns turns) {
  if (turns == SystemTurns::kAnywhere) return messages;
  std::string waiting;  // for the user's next words
  OrderedJson out = OrderedJson::array();
  for (const OrderedJson& one : messages) {
    if (one["role"] == "system") {
      const bool at_beginning = out.empty() || (out.size() == 1 && out[0]["role"] == "system");
      if (turns == SystemTurns::kNowhere || !at_beginning) {
        add_text(waiting, one["content"].get<std::string>());
      } else if (out.empty()) {
        out.push_back(one);
      } else {
        add_text(out[0]["content"].get_ref<std::string&>(), one["content"].get<std::string>());
      }
      continue;
    }
    out.push_back(one);
    if (one["role"] != "user" || waiting.empty() || !one["content"].is_string()) continue;
    add_text(waiting, one["content"].get<std::string>());
    out.back()["content"] = std::exchange(waiting, {});
  }
  if (waiting.empty()) return out;
  const bool joins = !out.empty() && out.back()["role"] == "user" && out.back()["content"].is_string();
  if (joins) {
    add_text(out.back()["content"].get_ref<std::string&>(), waiting);
  } else if (out.empty() || out.back()["role"] != "assistant") {
    out.push_back(message("user", std::move(waiting)));
  } else {  // an answer that goes on, or a call without its result: the words come before it
    out.insert(out.end() - 1, message("user", std::move(waiting)));
  }
  return out;
}

}  // namespace kvasir
