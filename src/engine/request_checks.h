// What an engine refuses: of what never changes or is locked, so that any thread may ask.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "engine/engine_config.h"
#include "engine/request.h"
#include "engine/schedule/policy_registry.h"
#include "engine/schedule/tenant_shares.h"

namespace kvasir {

// A request that can run, and the policy that it asks for.
struct CheckedRequest {
  Request request;
  std::shared_ptr<const ResolvedPolicy> kv;
  double submitted = 0;  // when that was asked, on the engine's clock
};

class RequestChecks {
 public:
  // All outlive this.
  struct Parts {
    const EngineConfig& config;
    std::span<const ServedModel> models;
    const KvCache& cache;
    const TenantShares& shares;
    const Backend& backend;
  };
  explicit RequestChecks(const Parts& parts) : p_(parts) {}

  // Throws Error when the request is empty, longer than the context, asks for what is not allowed, or could never
  // fit.
  CheckedRequest check(Request request) const;

  // The longest sequence, of prompt and answer, that a tenant can ever have.
  std::int64_t longest_of(std::uint32_t tenant) const;

  // Whether the request would fit under this policy.
  bool has_room(const Request& request, const ResolvedPolicy& policy) const;

 private:
  void check_tokens(const Request& request, const ServedModel& model) const;
  static void check_vocabulary(std::span<const TokenId> tokens, const ServedModel& model);
  static void check_source(Request& request, const ServedModel& model);
  void check_speculative(const Request& request, const ServedModel& model) const;
  void check_state_budget(const Request& request) const;
  std::shared_ptr<const ResolvedPolicy> policy_of(const Request& request, const ServedModel& model) const;
  void check_allowed(const KvPolicy& policy, const ServedModel& model) const;
  void check_fit(const ResolvedPolicy& policy, const ServedModel& model) const;
  void check_room(const Request& request, const ResolvedPolicy& policy, std::int64_t context) const;

  Parts p_;
};

}  // namespace kvasir
