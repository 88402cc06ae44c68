// What the readers of tokenizer.json's parts share. A part has a "type"; Sequence holds others.
#pragma once

#include <string>
#include <string_view>

#include "base/json_reader.h"

namespace kvasir {

inline constexpr int kMaxPartNesting = 8;
inline constexpr size_t kMaxParts = 64;

[[noreturn]] void refuse_part(const JsonReader& part, std::string_view supported);

// A literal string as a pattern: all that could be syntax is escaped.
std::string quoted_pattern(std::string_view literal);

// Calls `visit` with each part of nested Sequences that is none itself. `key` is what Sequence calls its list.
template <class Visit>
void for_each_part(const JsonReader& part, std::string_view key, Visit visit, int nesting = 0) {
  if (part.get("type").text() != "Sequence") {
    visit(part);
    return;
  }
  if (nesting >= kMaxPartNesting) part.fail("nests too deeply");
  const JsonReader list = part.get(key);
  if (list.items().size() > kMaxParts) list.fail("has too many entries");
  for (const JsonReader entry : list.items()) for_each_part(entry, key, visit, nesting + 1);
}

}  // namespace kvasir
