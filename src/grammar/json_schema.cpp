#include "grammar/json_schema.h"

#include <fmt/format.h>

#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "grammar/schema_compiler.h"

namespace kvasir::grammar {
namespace {

constexpr std::size_t kMaxText = std::size_t{256} << 10;
constexpr int kMaxNesting = 128;
constexpr std::size_t kMaxKeys = 4096;  // of one object: looking them up takes time for each

// Depth and width are checked while reading: later passes recurse, and search keys one by one.
Json read(std::string_view text) {
  if (text.size() > kMaxText) {
    fail_too_large(fmt::format("the schema has {} bytes, and at most {} are supported", text.size(), kMaxText),
                   "schema");
  }
  std::vector<std::size_t> keys;
  const auto watch = [&keys](int depth, Json::parse_event_t event, const Json&) {
    if (depth > kMaxNesting) fail_too_large("the schema nests too deep", "schema");
    keys.resize(static_cast<std::size_t>(depth) + 1);
    if (event == Json::parse_event_t::key && ++keys.back() > kMaxKeys) {
      fail_too_large(fmt::format("an object of the schema has more than {} keys", kMaxKeys), "schema");
    }
    return true;
  };
  try {
    return Json::parse(text, watch);
  } catch (const Json::exception& e) {
    fail_input(fmt::format("the schema is not JSON: {}", e.what()), "schema");
  }
}

}  // namespace

std::shared_ptr<const Grammar> compile_json_schema(std::string_view schema) {
  const Json root = read(schema);
  return SchemaCompiler(root).compile(root);
}

std::shared_ptr<const Grammar> any_json_object() {
  const Json schema{{"type", "object"}};
  return SchemaCompiler(schema).compile(schema);
}

}  // namespace kvasir::grammar
