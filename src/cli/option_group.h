// Options of a command that --help shows under one heading.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <utility>

namespace kvasir {

class OptionGroup {
 public:
  OptionGroup(CLI::App& command, std::string heading)
      : command_(command), heading_(std::move(heading)) {}  // the command outlives this

  // Its help says what happens without it.
  template <class Value>
  CLI::Option* option(const std::string& names, Value& value, const std::string& help) const {
    return command_.add_option(names, value, help)->group(heading_);
  }

  // --help shows the value that it has now.
  template <class Value>
  CLI::Option* option_with_default(const std::string& names, Value& value, const std::string& help) const {
    return option(names, value, help)->capture_default_str();
  }

  CLI::Option* flag(const std::string& names, bool& value, const std::string& help) const {
    return command_.add_flag(names, value, help)->group(heading_);
  }

 private:
  CLI::App& command_;
  std::string heading_;
};

}  // namespace kvasir
