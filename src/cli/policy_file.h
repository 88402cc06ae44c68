// KV policies as the command line takes them: as text, or, @FILE, from a policy file.
//
// A policy file has settings on as many lines as it likes; a line's end is a comma, and # begins a comment.
#pragma once

#include <string>
#include <string_view>

namespace kvasir {

// The policy's text; anything that does not begin with @ is returned as it is. `where` names the option. Throws Error
// when the file cannot be read or holds no policy.
std::string policy_argument(const std::string& given, std::string_view where);

}  // namespace kvasir
