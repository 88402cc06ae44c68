// From what a caller configures to what the engine's parts need.
#pragma once

#include <span>
#include <vector>

#include "engine/engine.h"

namespace kvasir {

// Whether a sequence may go on without end: no query ever sees further than the model was trained for.
bool streams(std::span<const KvGroup> groups, std::int64_t trained);

// What was left open is filled in. Throws Error for what makes no sense, or for memory that cannot hold one block.
EngineConfig completed(EngineConfig config, const Model& model, const Backend& backend);

// Throws Error when the policy keeps shorter rows and the model has no directions for them.
void check_basis(const Model& model, const KvPolicy& policy);

KvStorage::Pages pages_of(const Model& model, const EngineConfig& config);
CacheConfig cache_config(const Model& model, const Backend& backend, const EngineConfig& config);

}  // namespace kvasir
