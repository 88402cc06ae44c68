// JSON from strangers: bounded reading, and fields with a type, a range and an error that names them.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bounded_json.h"

namespace kvasir {

using Json = IndexedJson;                    // what strangers write
using OrderedJson = nlohmann::ordered_json;  // what we write, and what chat templates read

// Throws ApiError (400) for what is not JSON, not UTF-8, too deep or of too many values. The only way in which text
// of strangers becomes JSON here.
Json parse_json(std::string_view text, const JsonLimits& limits = {});

// The object that this text is, within the same limits; an empty one where it is none.
OrderedJson object_or_empty(std::string_view text);

// Never throws: what is not UTF-8 is replaced.
std::string to_text(const OrderedJson& json);

// Reads the fields of one object. A field that is null counts as missing. Every reader throws ApiError naming the
// field.
class Fields {
 public:
  struct Range {
    double least;
    double most;
  };

  // `prefix` names the object in errors: "stream_options.". REQUIRES: `object` outlives this.
  explicit Fields(const Json& object, std::string prefix = {});

  const Json* find(const std::string& name) const;  // nullptr: missing
  std::optional<double> number(const std::string& name, Range range) const;
  std::optional<std::int64_t> integer(const std::string& name, Range range) const;
  std::optional<bool> boolean(const std::string& name) const;
  std::optional<std::string> text(const std::string& name) const;
  std::optional<Fields> object(const std::string& name) const;

  std::string required_text(const std::string& name) const;
  const Json& required(const std::string& name) const;

  std::string path(const std::string& name) const { return prefix_ + name; }
  const Json& json() const { return *object_; }

 private:
  const Json* object_;
  std::string prefix_;
};

// An array of integers that fit a token id. `param` names it in errors.
std::vector<std::int32_t> token_ids(const Json& json, const std::string& param);

}  // namespace kvasir
