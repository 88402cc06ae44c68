// SchemaDocument: a schema whose references all say where they lead, as pointers from its root.
//
// $id, $anchor, $dynamicAnchor and the bases that URIs are relative to are read here once, so that whoever moves a
// schema about need not know where it stood.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "base/bounded_json.h"

namespace kvasir::grammar {

using Json = IndexedJson;  // keeps the order of properties

class SchemaDocument {
 public:
  explicit SchemaDocument(Json root);

  const Json& root() const { return root_; }
  // Where a $ref leads. Throws Error, naming `path`, for one that leads to no schema in here.
  const Json& at(const std::string& reference, const std::string& path) const;

  // Keywords that some schema in here has.
  bool has_unevaluated() const { return has_unevaluated_; }
  // By the letter of drafts up to 7, nothing counts beside a $ref.
  bool is_old_draft() const { return is_old_draft_; }

 private:
  enum class Pass { kFindNames, kRewrite };

  void walk(Json& schema, const std::string& base, const std::string& pointer, Pass pass);
  void walk_parts(Json& schema, const std::string& base, const std::string& pointer, Pass pass);
  void note(const Json& schema, const std::string& base, const std::string& pointer);
  void rewrite(Json& schema, const std::string& outer, const std::string& base);
  void place(const std::string& uri, const std::string& pointer);
  bool has(const std::string& pointer) const;
  std::string target_of(const std::string& reference, const std::string& base) const;

  Json root_;
  // By URI, with a fragment for anchors: the pointer. nullopt: there are several.
  std::map<std::string, std::optional<std::string>> places_;
  std::map<std::string, int> dynamic_;  // $dynamicAnchor: how many have this name
  int resources_ = 0;                   // with an $id of their own
  bool has_recursive_anchor_ = false;
  bool has_unevaluated_ = false;
  bool is_old_draft_ = false;
  bool is_new_draft_ = false;
};

}  // namespace kvasir::grammar
