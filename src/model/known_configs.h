// What the table of known_models.cpp has no columns for.
#pragma once

#include <span>
#include <string_view>

namespace kvasir {

struct KnownConfig {
  std::string_view name;
  std::string_view json;  // as config.json has it, less what changes no shape
};

std::span<const KnownConfig> known_configs();
std::span<const KnownConfig> known_dense_configs();
std::span<const KnownConfig> known_encoders();

}  // namespace kvasir
