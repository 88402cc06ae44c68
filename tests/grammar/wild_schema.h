// Random schemas of all keywords, combined without a plan: many are refused, and many are satisfied by nothing.
#pragma once

#include "schema_maker.h"

namespace kvasir::grammar::testing {

class WildSchemas {
 public:
  explicit WildSchemas(SchemaMaker& random) : random_(random) {}

  Json schema();
  // Any of a few small values, of which many satisfy some schema.
  Json value(int depth = 0);

 private:
  Json any(int depth);
  Json plain(int depth);
  Json text();
  Json number();
  Json object(int depth);
  Json array(int depth);
  Json combined(int depth);
  Json list(int depth);
  std::string name();
  std::string pattern();

  SchemaMaker& random_;
};

}  // namespace kvasir::grammar::testing
