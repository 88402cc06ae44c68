// Random schemas within what is supported, and random values that satisfy them.
#pragma once

#include <cstdint>
#include <random>
#include <string>

#include "schema_validator.h"

namespace kvasir::grammar::testing {

class SchemaMaker {
 public:
  explicit SchemaMaker(std::uint64_t seed) : random_(seed) {}

  // With definitions, which may be recursive.
  Json schema();

  // A value of the schema: of its properties those required and some others, in order.
  Json value(const Json& schema, const Json& root) { return value_at(schema, root, 0); }

  std::size_t below(std::size_t count) { return std::uniform_int_distribution<std::size_t>(0, count - 1)(random_); }
  bool chance(std::size_t one_in) { return below(one_in) == 0; }

 private:
  Json any_schema(int depth);
  Json string_schema();
  Json number_schema();
  Json object_schema(int depth);
  Json tagged_schema(const char* tag, int depth);
  Json array_schema(int depth);

  Json value_at(const Json& schema, const Json& root, int depth);
  Json typed_value(const std::string& type, const Json& schema, const Json& root, int depth);
  std::string string_value(const Json& schema);
  Json number_value(const std::string& type, const Json& schema);
  Json object_value(const Json& schema, const Json& root, int depth);
  Json array_value(const Json& schema, const Json& root, int depth);
  Json free_value();
  std::string word(std::size_t least, std::size_t most);

  std::mt19937_64 random_;
};

}  // namespace kvasir::grammar::testing
