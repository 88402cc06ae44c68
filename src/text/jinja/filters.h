// The filters, in three tables. A new filter is a function and a line in one of them.
#pragma once

#include <span>
#include <string_view>

#include "text/jinja/function.h"
#include "text/jinja/runtime.h"

namespace kvasir::jinja {

struct Filter {
  std::string_view name;
  Value (*apply)(Runtime& runtime, const Value& input, const Arguments& arguments);
};

std::span<const Filter> value_filters();  // of one value: strings and numbers
std::span<const Filter> list_filters();   // of many
std::span<const Filter> text_filters();   // of a text as it is laid out

}  // namespace kvasir::jinja
