// SchemaExpansion: a schema as a list of flat schemas, any of which may hold: without $ref, allOf, anyOf, oneOf, not,
// if.
//
// A flat schema says all it says of a value in its own keywords. Two of them can be made one (merge), and one of them
// can be turned round (schema_negation.h); all that combines schemas is made of these two:
//   allOf = merge;  not S = merge with what S is not;  oneOf = each, without all others;
//   if/then/else = (if and then) or (not if, and else).
// Exact, but for what a schema without "additionalProperties" leaves open, which the builder decides. What cannot be
// turned round exactly gives an Error, unless the answer does not depend on it.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "grammar/language.h"
#include "grammar/schema_document.h"

namespace kvasir::grammar {

// A flat schema is either an "enum" (values that satisfy all the rest), or has these keywords at most:
//   type             a list of atomic types (schema_keywords.h)
//   $except          values that it is not
//   minLength, maxLength, pattern, $notPattern, format (lists)
//   minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf (a list)
//   prefixItems, items, minItems, maxItems, uniqueItems
//   $some            [{from, schema, least, most?}]: of the elements from `from` on, so many satisfy the schema
//   required, minProperties, maxProperties, propertyNames (a list)
//   properties       with all that is said about these names
//   $names           [{names, schema}]: any other property whose name satisfies `names` satisfies `schema`
//   $exists          [{names, schema}]: some property has such a name and such a value
//   $named           patterns of names: the schema describes its properties, and those of these names
//   $open            the schema says what other properties may be
//   $evaluated       what unevaluatedProperties and unevaluatedItems leave alone; dropped in the end
//   $inexact         why there may be values that satisfy the schema and not this
enum class Truth { kNo, kYes, kUnknown };

LengthLimits length_limits(const Json& flat);

class SchemaExpansion {
 public:
  // `document` outlives this and is what $ref looks into.
  explicit SchemaExpansion(const SchemaDocument& document) : document_(document) {}

  // The flat schemas of `schema`, each once; none when nothing can satisfy it. `path` is where it stands, for errors.
  std::vector<Json> expand(const Json& schema, const std::string& path);

  Truth holds(const Json& value, const Json& schema, const std::string& path);
  Truth holds_flat(const Json& value, const Json& flat, const std::string& path);

  // A schema that both allow.
  Json both(const Json& left, const Json& right, const std::string& path);
  // The schema of a property that `properties` does not describe.
  Json schema_of_name(const Json& flat, const std::string& name, const std::string& path);

  // The strings of a flat schema; nullopt: any. And the strings of a schema, which must be exact where `exact` says
  // so: else they may be fewer than it has.
  enum class Need { kSome, kExact };
  std::optional<Language> strings_of_flat(const Json& flat, const std::string& path);
  Language strings_of(const Json& schema, Need need, const std::string& path);
  Languages& languages() { return languages_; }

 private:
  using Flats = std::vector<Json>;

  Flats expand_inner(const Json& schema, const std::string& path);
  Flats expand_reference(const Json& reference, const std::string& path);
  Flats expand_lists(Flats out, const Json& schema, const std::string& path);
  Flats expand_one_of(const Flats& out, const Json& list, const std::string& path);
  Flats expand_conditions(Flats out, const Json& schema, const std::string& path);
  Flats expand_dependents(Flats out, const Json& schema, const std::string& path);
  Flats expand_unevaluated(Flats out, const Json& schema, const std::string& path);
  Flats expand_negated(const Json& schema, const std::string& path);

  Json flatten(const Json& schema, const std::string& path);
  void flatten_object(Json& flat, const std::string& path);
  void flatten_array(Json& flat, const std::string& path);

  std::optional<Json> merge(const Json& left, const Json& right, const std::string& path);
  Json merge_object(const Json& left, const Json& right, const std::string& path);
  void merge_items(Json& out, const Json& right, const std::string& path);
  bool normalize(Json& flat, const std::string& path);
  void drop_exceptions(Json& flat, const std::string& path);
  void drop_what_exists(Json& flat, const std::string& path);
  Json filtered(const Json& values, const Json& flat, const std::string& path);

  Flats combine(const Flats& left, const Flats& right, const std::string& path);
  // What of `all` the flat schema does not allow.
  Flats exclude(const Flats& all, const Json& flat, const std::string& path);

  Truth array_holds(const Json& value, const Json& flat, const std::string& path);
  Truth object_holds(const Json& value, const Json& flat, const std::string& path);

  void spend(std::size_t values, const std::string& path);

  const SchemaDocument& document_;
  Languages languages_;
  std::map<std::string, int> open_;  // references being followed, with the number of negations around them
  int negations_ = 0;
  int depth_ = 0;
  int looks_ = 0;          // how deep both() looks into properties of properties
  std::size_t spent_ = 0;  // JSON values copied so far, over all calls
};

}  // namespace kvasir::grammar
