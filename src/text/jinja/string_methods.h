// The methods of strings beyond those that templates use most: what a text is, and how it is laid out.
#pragma once

#include <span>
#include <string_view>

#include "text/jinja/function.h"

namespace kvasir::jinja {

struct NamedMethod {
  std::string_view name;
  Value (*method)(Runtime& runtime, const Value& self, const Arguments& arguments);
};

std::span<const NamedMethod> string_checks();   // isalpha, islower, …
std::span<const NamedMethod> string_layouts();  // center, partition, zfill, format, …

}  // namespace kvasir::jinja
