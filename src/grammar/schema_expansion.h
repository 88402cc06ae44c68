// SchemaExpansion: a schema without $ref, allOf, anyOf and oneOf: a list of flat schemas, any of which may hold.
//
// Here is decided what is understood. A keyword that restricts values and is not known gives an Error with its path;
// what only describes (title, default, examples …) is dropped, so that schemas which allow the same are equal.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "base/bounded_json.h"

namespace kvasir::grammar {

using Json = IndexedJson;  // keeps the order of properties

// A flat schema is an object with these keywords at most: type (always a list), enum, properties, required,
// additionalProperties, items, prefixItems, minItems, maxItems, minLength, maxLength, pattern, format, minimum,
// maximum, exclusiveMinimum, exclusiveMaximum. "const" has become an enum of one.
class SchemaExpansion {
 public:
  // `root` outlives this and is what $ref looks into.
  explicit SchemaExpansion(const Json& root) : root_(root) {}

  // The flat schemas of `schema`, each once; none when nothing can satisfy it. `path` is where it stands, for errors.
  std::vector<Json> expand(const Json& schema, const std::string& path);

 private:
  std::vector<Json> expand_inner(const Json& schema, const std::string& path, int depth);
  std::vector<Json> expand_reference(const Json& reference, const std::string& path, int depth);
  std::vector<Json> combine(const std::vector<Json>& left, const std::vector<Json>& right, const std::string& path);
  const Json& resolve(const std::string& reference, const std::string& path) const;
  void spend(std::size_t values, const std::string& path);

  const Json& root_;
  std::set<std::string> open_;  // references being followed: one that leads back to itself adds nothing
  std::size_t spent_ = 0;       // JSON values copied so far, over all calls
};

}  // namespace kvasir::grammar
