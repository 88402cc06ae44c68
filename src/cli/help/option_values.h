// Tables about options: what their values are called in help and what a shell offers for them, which variables of the
// environment stand for them, and what other programs call them. A line of a table names an option by its long name.
#pragma once

#include <span>
#include <string_view>

#include "cli/help/command_tree.h"

namespace kvasir {

struct OptionValue {
  std::string_view command;  // "plan"; empty: any
  std::string_view option;
  std::string_view value;  // "FILE"
  ValueKind kind = ValueKind::kText;
  std::string_view choices = {};  // separated by spaces
};
std::span<const OptionValue> option_values();

struct OptionVariable {
  std::string_view option;
  std::string_view variable;
};
std::span<const OptionVariable> option_variables();

// What the program reads of the environment besides options.
struct OtherVariable {
  std::string_view command;
  std::string_view variable;
  std::string_view says;
};
std::span<const OtherVariable> other_variables();

struct ForeignOption {
  std::string_view foreign;  // "--max-model-len"
  std::string_view ours;     // "--ctx-size"
};
std::span<const ForeignOption> foreign_options();

// What kvasir's commands are used for, each line as it is typed.
struct ExampleLine {
  std::string_view path;  // "kvasir keys add"
  std::string_view command;
  std::string_view says;
};
std::span<const ExampleLine> example_lines();

}  // namespace kvasir
