// What a flat schema is not.
#pragma once

#include <string>
#include <vector>

#include "grammar/schema_document.h"

namespace kvasir::grammar {

// Flat schemas, any of which holds of a value that does not satisfy `flat`. The ones that tell schemas apart most
// often come first.
struct Negation {
  std::vector<Json> ways;
  std::string missing;  // a keyword whose opposite cannot be said: there are further ways. Empty: none
};
Negation negated(const Json& flat);

// A schema for the values that do not satisfy `schema`.
Json opposite(const Json& schema);

}  // namespace kvasir::grammar
