#include "engine/draft/drafters.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "engine/draft/text_drafters.h"

namespace kvasir {
namespace {

template <class One>
std::unique_ptr<Drafter> make_drafter() {
  return std::make_unique<One>();
}

constexpr std::array<DrafterKind, 3> kDrafterKinds{{
    {"prediction", make_drafter<PredictionDrafter>},
    {"ngram", make_drafter<NgramDrafter>},
    {"suffix", make_drafter<SuffixDrafter>},
}};

}  // namespace

std::span<const DrafterKind> drafter_kinds() { return kDrafterKinds; }

DraftChoice parse_draft_choice(const std::string& text, const std::string& where) {
  using enum DraftChoice::OwnHead;
  DraftChoice out;
  if (text == "off" || text.empty()) return out;
  const auto add = [&out](std::string_view name) {
    if (std::ranges::find(out.drafters, name) == out.drafters.end()) out.drafters.emplace_back(name);
  };
  add("prediction");  // of requests that bring one
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t comma = std::min(text.find(',', begin), text.size());
    const std::string name = text.substr(begin, comma - begin);
    begin = comma + 1;
    if (name.empty() || name == "off") {
      fail_usage(fmt::format("'{}' names no drafters", text), where,
                 "use auto, off, or a list of ngram, suffix, mtp and a model's folder");
    }
    if (name == "auto") {
      for (const DrafterKind& kind : drafter_kinds()) add(kind.name);
      out.own_head = std::max(out.own_head, kIfThere);
    } else if (name == kNextNDrafter) {
      out.own_head = kYes;
    } else if (std::ranges::find(drafter_kinds(), name, &DrafterKind::name) != drafter_kinds().end()) {
      add(name);
    } else if (!out.model.empty()) {
      fail_usage(fmt::format("'{}' and '{}' are two draft models", out.model, name), where, "name one");
    } else {
      out.model = name;
      add(kModelDrafter);
    }
  }
  if (!out.model.empty() && out.own_head == kYes) {
    fail_usage(fmt::format("mtp and '{}' both run passes to guess", out.model), where, "name one");
  }
  return out;
}

}  // namespace kvasir
