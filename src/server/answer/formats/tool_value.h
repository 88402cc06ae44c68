// Values of arguments that a model wrote as bare text: what they are in JSON, by the tool's own schema.
#pragma once

#include <string>
#include <string_view>

#include "server/api/json_fields.h"

namespace kvasir {

// Whether a parameter can be nothing but a string, so that its text is that string as it comes.
bool takes_only_strings(const OrderedJson& parameters, const std::string& name);

// The JSON of a value: what the text is, where the schema allows something of that type, and else the text as a
// string. Python's True, False and None are taken for what they mean.
std::string json_value(std::string_view text, const OrderedJson& parameters, const std::string& name);

// The same where the model itself says that it is no string.
std::string json_value(std::string_view text);

}  // namespace kvasir
