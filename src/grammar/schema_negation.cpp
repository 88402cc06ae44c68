#include "grammar/schema_negation.h"

#include <algorithm>

#include "grammar/schema_keywords.h"

namespace kvasir::grammar {
namespace {

class Negator {
 public:
  explicit Negator(const Json& flat) : flat_(flat) {}

  Negation run() {
    if (const auto inexact = flat_.find("$inexact"); inexact != flat_.end()) {
      out_.missing = inexact->get<std::string>();
      return std::move(out_);
    }
    if (flat_.contains("enum")) {
      out_.ways.push_back({{"$except", flat_["enum"]}});
      return std::move(out_);
    }
    types();
    if (flat_.contains("$except")) out_.ways.push_back({{"enum", flat_["$except"]}});
    objects();
    strings();
    numbers();
    arrays();
    return std::move(out_);
  }

 private:
  void add(std::initializer_list<const char*> types, Json way) {
    way["type"] = Json::array();
    for (const char* type : types) way["type"].push_back(type);
    out_.ways.push_back(std::move(way));
  }

  void types() {
    const auto given = flat_.find("type");
    if (given == flat_.end()) return;
    Json others = Json::array();
    for (const std::string_view type : kAtomicTypes) {
      if (std::ranges::find(*given, type) == given->end()) others.push_back(type);
    }
    if (!others.empty()) out_.ways.push_back({{"type", others}});
  }

  // A count at least n is not one up to n - 1, and the other way round.
  void counts(const char* type, const char* least, const char* most) {
    if (const auto given = flat_.find(least); given != flat_.end() && *given > 0) {
      add({type}, {{most, given->get<std::uint64_t>() - 1}});
    }
    if (const auto given = flat_.find(most); given != flat_.end()) {
      add({type}, {{least, given->get<std::uint64_t>() + 1}});
    }
  }

  void strings() {
    counts("string", "minLength", "maxLength");
    for (const Json& pattern : list("pattern")) add({"string"}, {{"$notPattern", Json::array({pattern})}});
    for (const Json& pattern : list("$notPattern")) add({"string"}, {{"pattern", Json::array({pattern})}});
    if (flat_.contains("format")) out_.missing = "\"format\"";
  }

  void numbers() {
    constexpr const char* kOpposites[][2] = {{"minimum", "exclusiveMaximum"},
                                             {"exclusiveMinimum", "maximum"},
                                             {"maximum", "exclusiveMinimum"},
                                             {"exclusiveMaximum", "minimum"}};
    for (const auto& [key, opposite] : kOpposites) {
      if (flat_.contains(key)) add({"integer", "fraction"}, {{opposite, flat_[key]}});
    }
    if (flat_.contains("multipleOf")) out_.missing = "\"multipleOf\"";
  }

  void arrays() {
    counts("array", "minItems", "maxItems");
    const Json prefix = list("prefixItems");
    Json before = Json::array();
    for (const Json& item : prefix) {
      before.push_back(opposite(item));
      if (!is_true(item)) add({"array"}, {{"prefixItems", before}, {"items", true}, {"minItems", before.size()}});
      before.back() = true;
    }
    if (const auto items = flat_.find("items"); items != flat_.end() && !is_true(*items)) {
      if (is_false(*items)) {
        add({"array"}, {{"minItems", prefix.size() + 1}});
      } else {
        add({"array"}, {{"$some", Json::array({some(prefix.size(), opposite(*items), 1)})}});
      }
    }
    for (const Json& given : list("$some")) {
      const auto least = given["least"].get<std::uint64_t>();
      if (least > 0) {
        Json few = some(given["from"], given["schema"], 0);
        few["most"] = least - 1;
        add({"array"}, {{"$some", Json::array({few})}});
      }
      if (given.contains("most")) {
        const auto more = given["most"].get<std::uint64_t>() + 1;
        add({"array"}, {{"$some", Json::array({some(given["from"], given["schema"], more)})}});
      }
    }
    if (flat_.contains("uniqueItems")) out_.missing = "\"uniqueItems\"";
  }

  static Json some(const Json& from, const Json& schema, std::uint64_t least) {
    return {{"from", from}, {"schema", schema}, {"least", least}};
  }

  void objects() {
    Json names = Json::array();
    const Json properties = flat_.contains("properties") ? flat_["properties"] : Json::object();
    const auto property = [&](const std::string& name, const Json& schema) {
      if (is_true(schema)) return;
      add({"object"}, {{"required", Json::array({name})}, {"properties", {{name, opposite(schema)}}}});
    };
    const auto tells_apart = [](const Json& schema) {
      return schema.is_object() && (schema.contains("const") || schema.contains("enum"));
    };
    for (const auto& [name, schema] : properties.items()) {
      names.push_back(name);
      if (tells_apart(schema)) property(name, schema);
    }
    for (const Json& name : list("required")) add({"object"}, {{"properties", {{name.get<std::string>(), false}}}});
    for (const auto& [name, schema] : properties.items()) {
      if (!tells_apart(schema)) property(name, schema);
    }
    counts("object", "minProperties", "maxProperties");
    for (const Json& guard : list("$names")) {
      Json others = guard["names"];
      if (!names.empty()) others = {{"allOf", Json::array({others, opposite({{"enum", names}})})}};
      add({"object"}, {{"$exists", Json::array({{{"names", others}, {"schema", opposite(guard["schema"])}}})}});
    }
    for (const Json& allowed : list("propertyNames")) {
      add({"object"}, {{"$exists", Json::array({{{"names", opposite(allowed)}, {"schema", true}}})}});
    }
    for (const Json& exists : list("$exists")) {
      Json guard{{"names", exists["names"]}, {"schema", opposite(exists["schema"])}};
      add({"object"}, {{"$names", Json::array({guard})}});
    }
  }

  Json list(const char* key) const { return flat_.contains(key) ? flat_[key] : Json::array(); }

  const Json& flat_;
  Negation out_;
};

}  // namespace

Negation negated(const Json& flat) { return Negator(flat).run(); }

Json opposite(const Json& schema) {
  if (is_true(schema)) return false;
  if (is_false(schema)) return true;
  if (schema.size() == 1 && schema.contains("not")) return schema["not"];
  return {{"not", schema}};
}

}  // namespace kvasir::grammar
