// Random schemas of arrays that must not have an element twice, with few values and many.
#pragma once

#include "schema_maker.h"

namespace kvasir::grammar::testing {

class SetMaker {
 public:
  explicit SetMaker(SchemaMaker& random) : random_(random) {}

  Json schema();

 private:
  Json set(int depth);
  Json element(int depth);
  Json small_element();

  SchemaMaker& random_;
};

}  // namespace kvasir::grammar::testing
