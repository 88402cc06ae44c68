// One case of jinja_cases.json, or of a file like it: a template over a context, as serving renders chats.
#pragma once

#include <ctime>
#include <string>

#include "text/chat_template.h"

namespace kvasir {

inline std::string rendered(const std::string& source,
                            nlohmann::ordered_json context = nlohmann::ordered_json::object(), std::time_t now = 0,
                            RenderLimits limits = {}) {
  using Json = nlohmann::ordered_json;
  RenderOptions options;
  options.limits = limits;
  options.now = now;
  const auto take = [&](const char* name) {
    Json value = context.contains(name) ? context[name] : Json();
    context.erase(name);
    return value;
  };
  Json messages = take("messages");
  if (messages.is_null()) messages = Json::array();
  options.tools = take("tools");
  if (const Json bos = take("bos_token"); bos.is_string()) options.bos_token = bos;
  if (const Json eos = take("eos_token"); eos.is_string()) options.eos_token = eos;
  options.generation_prompt =
      take("add_generation_prompt") == true ? GenerationPrompt::kAdd : GenerationPrompt::kNone;
  options.variables = context;
  return text_of(ChatTemplate(source, "template").render(messages, options));
}

}  // namespace kvasir
