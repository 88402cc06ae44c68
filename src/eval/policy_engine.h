// From the text of a KV policy to an engine that keeps its cache so: the one place where evaluation learns what a
// policy is.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/engine.h"

namespace kvasir {

inline constexpr const char* kReferencePolicy = "f32";  // what all others are compared with

// `base` with this policy. Throws Error for a text that is no policy.
EngineConfig with_policy(EngineConfig base, std::string_view policy);

// The reference and then the others, each by the one text that names it, and none twice.
std::vector<std::string> with_reference(const std::vector<std::string>& policies);

// A policy for each number format.
std::vector<std::string> every_format();

// What a sequence of so many tokens holds in the cache, in whole blocks, once its retention has dropped what it may;
// where tokens are evicted, at most, if half of them are the prompt.
std::int64_t cache_bytes(const Model& model, const EngineConfig& config, std::int64_t tokens);

// Memory for the cache in which one sequence of so many tokens always fits, and several that share their beginning.
std::uint64_t roomy_bytes(const Model& model, const EngineConfig& config, std::int64_t tokens);

}  // namespace kvasir
