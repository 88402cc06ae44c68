// A backend that times another one: what each op of a step takes, and how many bytes it reads.
#pragma once

#include <string>
#include <vector>

#include "backend/forwarding_backend.h"

namespace kvasir {

// All calls of one kind: an op, or a product with weights of one shape and type.
struct OpProfile {
  std::string name;
  std::int64_t calls = 0;
  double seconds = 0;
  double bytes = 0;  // weights, cached keys and values, or rows: whichever the op is there to read
};

// Passes everything on. The other backend outlives it, and gives the same bits through it.
class ProfileBackend final : public ForwardingBackend {
 public:
  explicit ProfileBackend(Backend& inner) : ForwardingBackend(inner) {}

  const std::vector<OpProfile>& ops() const { return ops_; }  // in the order of their first calls
  void forget();

  void run(const Op& op) override;
  SampleTicket sample(Matrix logits, std::span<const SampleRule> rules) override;

 private:
  template <class Call>
  void timed(const std::string& name, double bytes, const Call& call);

  std::vector<OpProfile> ops_;
};

}  // namespace kvasir
