// From a router's logits to a row's experts: the same arithmetic for every backend whose memory is the host's.
#pragma once

#include <span>

#include "backend/ops.h"

namespace kvasir {

struct RoutedExpert {
  int expert = 0;
  float weight = 0;
};

// Fills `chosen` with rule.used experts, the highest score first. REQUIRES: rule.used <= logits.size().
void route(std::span<const float> logits, const RouterRule& rule, std::span<RoutedExpert> chosen);

}  // namespace kvasir
