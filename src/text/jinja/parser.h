// Tokens -> tree.
#pragma once

#include <string>
#include <string_view>

#include "text/jinja/ast.h"

namespace kvasir::jinja {

// Throws Error, with the line, for what is not Jinja or not supported here.
Template parse(std::string_view source, std::string where);

}  // namespace kvasir::jinja
