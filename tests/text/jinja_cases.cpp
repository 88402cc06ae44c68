// jinja_cases FILE: templates and what Jinja2 makes of them, as jinja_templates.py writes them. Counts those that
// come out equal or are refused by both, and shows the others.
#include <fmt/format.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "base/error.h"
#include "jinja_render.h"

namespace {

using Json = nlohmann::ordered_json;

// Empty: as Jinja2 has it.
std::string difference(const Json& one, std::time_t now) {
  const bool refused = one.contains("error");
  try {
    const std::string text = kvasir::rendered(one["template"], one["context"], now);
    if (refused) return "Jinja2 refuses: " + one["error"].get<std::string>();
    const auto expected = one["expected"].get<std::string>();
    if (text == expected) return {};
    size_t at = 0;
    while (at < text.size() && at < expected.size() && text[at] == expected[at]) ++at;
    return fmt::format("from byte {} on: '{}' and not '{}'", at, text.substr(at, 80), expected.substr(at, 80));
  } catch (const kvasir::Error& error) {
    return refused ? "" : std::string("refused: ") + error.what();
  }
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 2) {
    fmt::print(stderr, "usage: jinja_cases FILE\n");
    return 2;
  }
  ::setenv("TZ", "UTC", 1);
  const Json file = Json::parse(std::ifstream(arguments[1]));
  int equal = 0;
  int refused = 0;
  int other = 0;
  for (const Json& one : file["cases"]) {
    const std::string what = difference(one, file["now"]);
    if (what.empty()) {
      ++(one.contains("error") ? refused : equal);
      continue;
    }
    ++other;
    fmt::print("{}: {}\n", one["name"].get<std::string>(), what);
  }
  fmt::print("{} cases: {} equal, {} refused by both, {} otherwise\n", equal + refused + other, equal, refused,
             other);
  return other == 0 ? 0 : 1;
}
