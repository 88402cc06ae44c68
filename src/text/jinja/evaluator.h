// Runs a parsed template.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "text/jinja/ast.h"
#include "text/jinja/runtime.h"

namespace kvasir::jinja {

// By name; of a name given twice, the later value.
using Variables = std::vector<std::pair<std::string, Value>>;

// The text of the template with these variables. Throws Error when the template fails or exceeds the
// runtime's limits.
MarkedString evaluate(const Template& source, Runtime& runtime, const Variables& variables);

}  // namespace kvasir::jinja
