#include "server/api/speculative_parse.h"

#include <fmt/format.h>

#include "server/api/api_error.h"
#include "server/api/known_fields.h"
#include "server/api/parse_common.h"

namespace kvasir {
namespace {

constexpr size_t kMostDrafters = 8;

[[noreturn]] void bad_speculative(const std::string& param) {
  bad_param(param, param +
                       " must be false, true, the name of a drafter or a list of them, or an object like "
                       R"({"drafter": "ngram", "max_tokens": 8, "tree": 2})");
}

void read_drafters(const Json& json, const std::string& param, SpeculativeParams& out) {
  const auto add = [&](const Json& name) {
    if (!name.is_string()) bad_speculative(param);
    const std::string text = name.get<std::string>();
    if (text == "off") {
      out.most = 0;
    } else if (text != "auto") {
      out.drafters.push_back(excerpt(text, 40));
    }
  };
  if (!json.is_array()) return add(json);
  if (json.size() > kMostDrafters)
    bad_param(param, fmt::format("{} names {} drafters; use at most {}", param, json.size(), kMostDrafters));
  for (const Json& name : json) add(name);
}

}  // namespace

SpeculativeParams read_speculative(const Fields& fields) {
  SpeculativeParams out;
  const Json* field = fields.find("speculative");
  if (field == nullptr || field->is_null()) return out;
  if (field->is_boolean()) {
    if (!field->get<bool>()) out.most = 0;
    return out;
  }
  if (!field->is_object()) {
    read_drafters(*field, "speculative", out);
    return out;
  }
  const Fields object = *fields.object("speculative");
  for (const auto& [name, value] : object.json().items()) {
    if (name != "drafter" && name != "max_tokens" && name != "tree") bad_speculative(object.path(name));
  }
  if (const Json* drafter = object.find("drafter")) read_drafters(*drafter, object.path("drafter"), out);
  if (const auto most = object.integer("max_tokens", {0, 1024})) out.most = *most;
  if (const auto branches = object.integer("tree", {1, kMostBranches})) out.branches = static_cast<int>(*branches);
  return out;
}

std::string read_prediction(const Fields& fields) {
  const std::optional<Fields> prediction = fields.object("prediction");
  if (!prediction) return {};
  const std::string type = prediction->required_text("type");
  if (type != "content") {
    bad_param(prediction->path("type"), fmt::format("the type \"{}\" is not content", excerpt(type, 40)));
  }
  refuse_unknown_fields(*prediction, PartKind::kPrediction);
  return content_text(prediction->required("content"), prediction->path("content"));
}

}  // namespace kvasir
