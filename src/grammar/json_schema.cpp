#include "grammar/json_schema.h"

#include <utility>
#include <variant>

#include "base/bounded_json.h"
#include "base/error.h"
#include "grammar/schema_compiler.h"

namespace kvasir::grammar {
namespace {

// Depth and width are bounded while reading: later passes recurse, and copy.
constexpr JsonLimits kLimits{
    .bytes = std::size_t{256} << 10, .depth = 128, .values = 1 << 18, .containers = 1 << 17, .keys = 4096};

Json read(std::string_view text) {
  auto read = read_bounded_json(text, kLimits);
  if (auto* json = std::get_if<Json>(&read)) return std::move(*json);
  const auto& refusal = std::get<JsonRefusal>(read);
  if (refusal.why == JsonRefusal::Why::kTooLarge) fail_too_large("the schema " + refusal.what, "schema");
  fail_input("the schema " + refusal.what, "schema");
}

}  // namespace

std::shared_ptr<const Grammar> compile_json_schema(std::string_view schema) {
  const SchemaDocument document(read(schema));
  return SchemaCompiler(document).compile(document.root());
}

std::shared_ptr<const Grammar> any_json_object() {
  const SchemaDocument document(Json{{"type", "object"}});
  return SchemaCompiler(document).compile(document.root());
}

}  // namespace kvasir::grammar
