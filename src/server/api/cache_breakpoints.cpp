#include "server/api/cache_breakpoints.h"

#include <fmt/format.h>

#include <functional>

#include "server/answer/text_offsets.h"
#include "server/api/api_error.h"
#include "server/api/known_fields.h"

namespace kvasir {
namespace {

using Seconds = std::chrono::seconds;
using Pointer = Json::json_pointer;

constexpr size_t kMostBreakpoints = 4;
constexpr Seconds kFiveMinutes{300};
constexpr Seconds kHalfHour{1800};
constexpr Seconds kHour{3600};
constexpr Seconds kHalfDay{43200};
constexpr Seconds kDay{86400};

std::optional<Seconds> cache_control(const Json& holder, const std::string& prefix) {
  const std::optional<Fields> control = Fields(holder, prefix).object("cache_control");
  if (!control) return std::nullopt;
  if (control->required_text("type") != "ephemeral")
    bad_param(control->path("type"), control->path("type") + " must be \"ephemeral\"");
  refuse_unknown_fields(*control, PartKind::kCacheControl);
  const std::string ttl = control->text("ttl").value_or("5m");
  if (ttl != "5m" && ttl != "1h") bad_param(control->path("ttl"), control->path("ttl") + " must be \"5m\" or \"1h\"");
  return ttl == "1h" ? kHour : kFiveMinutes;
}

// Goes through blocks, and those within them, in the order in which they are written.
class BlockWalk {
 public:
  using Asks = std::function<std::optional<Seconds>(const Json& block, const std::string& prefix)>;
  explicit BlockWalk(Asks asks) : asks_(std::move(asks)) {}

  // A block without a text of its own (an image, a call) is marked at the end of the text before it.
  void walk(const Json& json, const Pointer& at, const std::string& name) {
    if (has_text(json)) last_text_ = at;
    if (json.is_array()) {
      for (size_t i = 0; i < json.size(); ++i) walk(json[i], at / i, fmt::format("{}[{}]", name, i));
    }
    if (!json.is_object()) return;
    for (const char* field : {"content", "text", "refusal", "output"}) {
      if (json.contains(field)) walk(json[field], at / field, name + "." + field);
    }
    if (const auto keep = asks_(json, name + "."); keep && last_text_)
      breakpoints_.push_back({.keep = *keep, .text = *last_text_});
  }

  const std::optional<Pointer>& last_text() const { return last_text_; }
  std::vector<CacheBreakpoint> take() { return std::move(breakpoints_); }

 private:
  Asks asks_;
  std::optional<Pointer> last_text_;
  std::vector<CacheBreakpoint> breakpoints_;
};

std::vector<CacheBreakpoint> tool_breakpoints(const Json& body) {
  std::vector<CacheBreakpoint> breakpoints;
  const auto tools = body.find("tools");
  if (tools == body.end() || !tools->is_array()) return breakpoints;
  for (size_t i = 0; i < tools->size(); ++i) {
    if (const auto keep = cache_control((*tools)[i], fmt::format("tools[{}].", i)))
      breakpoints.push_back({.keep = *keep, .tool = i});
  }
  return breakpoints;
}

std::optional<Seconds> breakpoint(const Json& part, const std::string& prefix, Seconds keep) {
  const std::optional<Fields> found = Fields(part, prefix).object("prompt_cache_breakpoint");
  if (!found) return std::nullopt;
  if (found->required_text("mode") != "explicit")
    bad_param(found->path("mode"), found->path("mode") + " must be \"explicit\"");
  refuse_unknown_fields(*found, PartKind::kCacheMark);
  return keep;
}

struct CacheOptions {
  bool implicit = false;  // a breakpoint at the end of the last message
  Seconds keep = kHalfHour;
};

CacheOptions cache_options(const Fields& fields) {
  CacheOptions out;
  if (const auto options = fields.object("prompt_cache_options")) {
    const std::string mode = options->text("mode").value_or("implicit");
    if (mode != "implicit" && mode != "explicit")
      bad_param(options->path("mode"), options->path("mode") + " must be \"implicit\" or \"explicit\"");
    refuse_unknown_fields(*options, PartKind::kCacheOptions);
    const std::string ttl = options->text("ttl").value_or("30m");
    if (ttl != "30m" && ttl != "12h")
      bad_param(options->path("ttl"), options->path("ttl") + " must be \"30m\" or \"12h\"");
    if (ttl == "12h") out.keep = kHalfDay;
    out.implicit = mode == "implicit";
  }
  const std::string retention = fields.text("prompt_cache_retention").value_or("in_memory");
  if (retention != "in_memory" && retention != "in-memory" && retention != "24h")
    bad_param("prompt_cache_retention", "prompt_cache_retention must be \"in_memory\" or \"24h\"");
  if (retention == "24h") out = {true, kDay};
  return out;
}

}  // namespace

std::vector<CacheBreakpoint> anthropic_cache_breakpoints(const Json& body) {
  std::vector<CacheBreakpoint> breakpoints = tool_breakpoints(body);
  BlockWalk walk(cache_control);
  for (const char* name : {"system", "messages"}) {
    if (body.contains(name)) walk.walk(body[name], Pointer() / name, name);
  }
  const std::optional<Pointer> end = walk.last_text();
  for (CacheBreakpoint& breakpoint : walk.take()) breakpoints.push_back(std::move(breakpoint));
  if (const auto keep = cache_control(body, ""); keep && end) breakpoints.push_back({.keep = *keep, .text = *end});
  if (breakpoints.size() > kMostBreakpoints)
    bad_param("cache_control",
              fmt::format("{} blocks have cache_control; use at most {}", breakpoints.size(), kMostBreakpoints));
  return breakpoints;
}

std::vector<CacheBreakpoint> openai_cache_breakpoints(const Json& body, const std::string& list) {
  const CacheOptions options = cache_options(Fields(body));
  BlockWalk walk([&](const Json& part, const std::string& prefix) { return breakpoint(part, prefix, options.keep); });
  if (body.contains(list)) walk.walk(body[list], Pointer() / list, list);
  const std::optional<Pointer> end = walk.last_text();
  std::vector<CacheBreakpoint> breakpoints = walk.take();
  if (options.implicit && end) breakpoints.push_back({.keep = options.keep, .text = *end});
  if (breakpoints.size() > kMostBreakpoints)
    breakpoints.erase(breakpoints.begin(), breakpoints.end() - kMostBreakpoints);
  return breakpoints;
}

}  // namespace kvasir
