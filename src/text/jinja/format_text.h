// Python's two ways of filling values into a text. Both keep the origin of what is filled in.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "text/jinja/function.h"
#include "text/jinja/runtime.h"
#include "text/jinja/value.h"

namespace kvasir::jinja {

// text % value: a tuple's items in order, a dict's by their names, anything else as the only one.
MarkedString percent_format(Runtime& runtime, const MarkedString& text, const Value& value);

// text.format(…).
MarkedString brace_format(Runtime& runtime, const MarkedString& text, const Arguments& arguments);

// How one value is written: [[fill]align][sign][#][0][width][,][.precision][type].
struct FormatSpec {
  std::string fill = " ";
  char align = 0;  // < > ^ =; 0: as the value likes it
  char sign = '-';
  bool other_form = false;  // #
  bool zeros = false;       // 0: numbers are filled up behind their sign
  char grouping = 0;        // , or _
  std::int64_t width = 0;
  std::optional<std::int64_t> precision;
  char type = 0;
};

MarkedString formatted(Runtime& runtime, const Value& value, const FormatSpec& spec);

}  // namespace kvasir::jinja
