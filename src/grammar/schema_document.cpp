#include "grammar/schema_document.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "grammar/schema_keywords.h"

namespace kvasir::grammar {
namespace {

constexpr std::array<std::string_view, 12> kOneSchema{"additionalProperties",
                                                      "additionalItems",
                                                      "items",
                                                      "contains",
                                                      "propertyNames",
                                                      "not",
                                                      "if",
                                                      "then",
                                                      "else",
                                                      "contentSchema",
                                                      "unevaluatedProperties",
                                                      "unevaluatedItems"};
constexpr std::array<std::string_view, 5> kSchemaLists{"allOf", "anyOf", "oneOf", "prefixItems", "items"};
constexpr std::array<std::string_view, 6> kSchemaMaps{"properties",  "patternProperties", "$defs",
                                                      "definitions", "dependentSchemas",  "dependencies"};

std::string percent_decoded(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto digit = [&](std::size_t at) {
      if (at >= text.size()) return std::string_view::npos;
      const char c = text[at] >= 'a' && text[at] <= 'f' ? static_cast<char>(text[at] - 32) : text[at];
      return std::string_view("0123456789ABCDEF").find(c);
    };
    if (text[i] == '%' && digit(i + 1) < 16 && digit(i + 2) < 16) {
      out += static_cast<char>(digit(i + 1) * 16 + digit(i + 2));
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

std::string percent_encoded(std::string_view text) {
  std::string out;
  for (const char c : text) out += c == '%' ? std::string("%25") : std::string(1, c);
  return out;
}

// A name as a step of a JSON pointer.
std::string step(std::string_view name) {
  std::string out = "/";
  for (const char c : name) out += c == '~' ? std::string("~0") : c == '/' ? std::string("~1") : std::string(1, c);
  return out;
}

std::string without_dots(std::string_view path) {
  std::vector<std::string_view> kept;
  std::string_view last;
  for (std::size_t at = 0; at <= path.size();) {
    const std::size_t slash = std::min(path.find('/', at), path.size());
    last = path.substr(at, slash - at);
    if (last == ".." && kept.size() > 1) kept.pop_back();
    if (last != "." && last != "..") kept.push_back(last);
    at = slash + 1;
  }
  std::string out = fmt::format("{}", fmt::join(kept, "/"));
  if (last == "." || last == "..") out += "/";
  return out;
}

// RFC 3986, 5.2, as far as the names of schemas need it. Without the fragment.
std::string resolved(std::string_view base, std::string_view reference) {
  reference = reference.substr(0, reference.find('#'));
  const auto scheme_end = [](std::string_view uri) {
    const std::size_t colon = uri.find(':');
    return colon == std::string_view::npos || uri.find('/') < colon ? 0 : colon + 1;
  };
  if (reference.empty()) return std::string(base);
  if (scheme_end(reference) > 0) return std::string(reference);
  const std::size_t scheme = scheme_end(base);
  const bool has_authority = base.substr(scheme).starts_with("//");
  const std::size_t path = has_authority ? std::min(base.find('/', scheme + 2), base.size()) : scheme;
  if (reference.starts_with("//")) return fmt::format("{}{}", base.substr(0, scheme), reference);
  const std::string_view root = base.substr(0, path);
  if (reference.starts_with('/')) return fmt::format("{}{}", root, without_dots(reference));
  const std::size_t slash = base.substr(path).rfind('/');
  std::string folder(slash == std::string_view::npos ? "" : base.substr(path, slash + 1));
  if (folder.empty() && has_authority) folder = "/";
  return fmt::format("{}{}", root, without_dots(folder + std::string(reference)));
}

const std::string* text_at(const Json& schema, const char* key) {
  const auto found = schema.find(key);
  return found == schema.end() ? nullptr : found->get_ptr<const std::string*>();
}

}  // namespace

SchemaDocument::SchemaDocument(Json root) : root_(std::move(root)) {
  if (!root_.is_object()) return;
  places_[""] = "";
  walk(root_, "", "", Pass::kFindNames);
  walk(root_, "", "", Pass::kRewrite);
}

void SchemaDocument::walk(Json& schema, const std::string& base, const std::string& pointer, Pass pass) {
  if (!schema.is_object()) return;
  const std::string* id = text_at(schema, "$id");
  const std::string here = id == nullptr ? base : resolved(base, *id);
  if (pass == Pass::kFindNames) note(schema, here, pointer);
  walk_parts(schema, here, pointer, pass);
  if (pass == Pass::kRewrite) rewrite(schema, base, here);
}

void SchemaDocument::walk_parts(Json& schema, const std::string& base, const std::string& pointer, Pass pass) {
  const auto holds = [](const auto& keywords, std::string_view key) {
    return std::ranges::find(keywords, key) != keywords.end();
  };
  for (auto& [key, value] : schema.get_ref<Json::object_t&>()) {
    const std::string here = pointer + step(key);
    if (value.is_object() && holds(kOneSchema, key)) walk(value, base, here, pass);
    if (value.is_array() && holds(kSchemaLists, key)) {
      for (std::size_t i = 0; i < value.size(); ++i) walk(value[i], base, fmt::format("{}/{}", here, i), pass);
    }
    if (value.is_object() && holds(kSchemaMaps, key)) {
      for (auto& [name, part] : value.get_ref<Json::object_t&>()) walk(part, base, here + step(name), pass);
    }
  }
}

void SchemaDocument::note(const Json& schema, const std::string& base, const std::string& pointer) {
  has_unevaluated_ =
      has_unevaluated_ || schema.contains("unevaluatedProperties") || schema.contains("unevaluatedItems");
  if (const std::string* draft = text_at(schema, "$schema")) {
    const auto is_named = [&](const char* name) { return draft->find(name) != std::string::npos; };
    constexpr std::array kOld{"draft-03", "draft-04", "draft-06", "draft-07"};
    is_old_draft_ = is_old_draft_ || std::ranges::any_of(kOld, is_named);
    is_new_draft_ = is_new_draft_ || is_named("2019-09") || is_named("2020-12");
  }
  has_recursive_anchor_ = has_recursive_anchor_ || schema.value("$recursiveAnchor", Json()) == true;
  if (const std::string* id = text_at(schema, "$id")) {
    const std::size_t hash = id->find('#');
    if (hash != 0) {
      place(base, pointer);
      resources_ += pointer.empty() ? 0 : 1;
    }
    if (hash != std::string::npos && hash + 1 < id->size()) place(base + id->substr(hash), pointer);
  }
  for (const char* key : {"$anchor", "$dynamicAnchor"}) {
    const std::string* name = text_at(schema, key);
    if (name == nullptr) continue;
    place(base + "#" + *name, pointer);
    if (key == std::string_view("$dynamicAnchor")) ++dynamic_[*name];
  }
}

// Two that have the same name: neither can be meant.
void SchemaDocument::place(const std::string& uri, const std::string& pointer) {
  const auto [known, is_new] = places_.emplace(uri, pointer);
  if (!is_new && known->second != pointer) known->second = std::nullopt;
}

bool SchemaDocument::has(const std::string& pointer) const {
  try {
    return root_.contains(Json::json_pointer(pointer));
  } catch (const Json::exception&) {
    return false;  // not a pointer
  }
}

// The pointer that a reference stands for, as a $ref; empty when it leads out of here.
std::string SchemaDocument::target_of(const std::string& reference, const std::string& base) const {
  const std::size_t hash = std::min(reference.find('#'), reference.size());
  const std::string fragment =
      percent_decoded(std::string_view(reference).substr(std::min(hash + 1, reference.size())));
  const std::string uri = resolved(base, reference);
  const bool is_pointer = fragment.empty() || fragment.starts_with('/');
  const auto found = places_.find(is_pointer ? uri : uri + "#" + fragment);
  if (found == places_.end() || !found->second) return {};
  if (!is_pointer) return "#" + percent_encoded(*found->second);
  // Whoever puts a schema into another may have moved its pointers, and left its $id.
  const bool is_from_root = !has(*found->second + fragment) && has(fragment);
  return "#" + percent_encoded(is_from_root ? fragment : *found->second + fragment);
}

// Drafts do not agree whether an $id counts beside a $ref: where none is named, both bases must lead to the same.
void SchemaDocument::rewrite(Json& schema, const std::string& outer, const std::string& base) {
  const auto lead = [&](const char* key, const std::string& reference) {
    const std::string target = target_of(reference, base);
    const bool is_clear = outer == base || outer.empty() || (is_new_draft_ && !is_old_draft_);
    if (target.empty() || (!is_clear && target_of(reference, outer) != target)) return;
    if (key == std::string_view("$ref")) {
      schema["$ref"] = target;
      return;
    }
    schema.erase(key);
    if (!schema.contains("$ref")) {
      schema["$ref"] = target;
    } else {
      if (!schema.contains("allOf")) schema["allOf"] = Json::array();
      if (schema["allOf"].is_array()) schema["allOf"].push_back({{"$ref", target}});
    }
  };
  if (const std::string* reference = text_at(schema, "$ref")) lead("$ref", std::string(*reference));
  if (const std::string* reference = text_at(schema, "$dynamicRef")) {
    const std::string text = *reference;
    const std::string name = text.substr(std::min(text.find('#'), text.size() - 1) + 1);
    const auto same = dynamic_.find(name);
    // With one anchor of the name, or none that is dynamic, it leads where a $ref would.
    if (same == dynamic_.end() || same->second == 1) lead("$dynamicRef", text);
  }
  if (const std::string* reference = text_at(schema, "$recursiveRef")) {
    if (!has_recursive_anchor_ || resources_ == 0) lead("$recursiveRef", std::string(*reference));
  }
}

const Json& SchemaDocument::at(const std::string& reference, const std::string& path) const {
  if (!reference.starts_with('#')) fail_unsupported(fmt::format("a $ref outside of the schema, {}", reference), path);
  try {
    const Json& found = root_.at(Json::json_pointer(percent_decoded(std::string_view(reference).substr(1))));
    if (found.is_object() || found.is_boolean()) return found;
  } catch (const Json::exception&) {
    // Not a pointer, or to nothing: the same to the reader.
  }
  fail_schema(fmt::format("$ref {} leads to no schema", reference), path);
}

}  // namespace kvasir::grammar
