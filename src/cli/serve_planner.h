// The planner that the server's page asks: `kvasir plan`, of the model that is served or of a known one.
#pragma once

#include <string>

#include "server/live/plan_question.h"

namespace kvasir {

// `model` and `kv` are what the server was started with; `name` is what clients call the model, who need not know
// where it lies.
Planner make_planner(const std::string& model, const std::string& name, const std::string& kv);

}  // namespace kvasir
