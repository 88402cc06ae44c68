// The laws of a pool that is too small: however a request is paused, and whoever it is, its answer has the same bits.
#include "laws/harness.h"

namespace kvasir::testing {
namespace {

class PressureLaw : public ::testing::TestWithParam<Cell> {
 protected:
  // Five requests of about five blocks each in a pool of twelve; each must be answered as if it were alone.
  SchedulerCounts crowd(const EngineConfig& config, std::uint32_t tenants) {
    std::vector<Request> requests;
    for (std::uint32_t i = 0; i < 5; ++i) {
      // Where tokens are evicted only those outgrow their first blocks that begin short.
      const std::int64_t prompt = GetParam().policy.evict.on() ? 14 + 5 * i : 36 + 3 * i;
      Request request = request_of(some_tokens(prompt, 100 + i), 40, i);
      request.tenant.id = i % tenants;
      request.tenant.secret.bytes.fill(static_cast<std::uint8_t>(i % tenants));
      requests.push_back(request);
    }
    Engine engine = world_.engine(config);
    for (std::uint32_t tenant = 0; tenants > 1 && tenant < tenants; ++tenant) {
      engine.set_share(tenant, {0.2, tenant == 0 ? 0.5 : 1.0, 1.0 + tenant});
    }
    Recorder recorder(engine);
    std::vector<RequestId> ids;
    for (const Request& request : requests) ids.push_back(recorder.submit(request));
    engine.run();
    for (size_t i = 0; i < requests.size(); ++i) {
      EXPECT_EQ(recorder.of(ids[i]), run_alone(world_, world_.config(), requests[i])) << i;
    }
    EXPECT_EQ(engine.cache().pool(0).held(), 0);
    EXPECT_EQ(engine.swap().used(), 0U);
    return engine.scheduler().counts();
  }

  // Windows leave room to others: there what is to happen needs fewer blocks.
  template <class Happens>
  void expect_with_little_room(EngineConfig config, std::uint32_t tenants, const Happens& happens) {
    for (std::int64_t blocks = 12; blocks > 3; --blocks) {
      config.kv_bytes = world_.bytes_for(blocks);
      if (!world_.engine(config).cache().fits_alone(36 + 12 + 40, {0, tenants > 1 ? 0.5 : 1.0, 1})) break;
      if (happens(crowd(config, tenants))) return;
    }
    ADD_FAILURE() << "it never happened";
  }

  EngineConfig tight() const {
    EngineConfig config = world_.config();
    config.kv_bytes = world_.bytes_for(12);
    return config;
  }

  World world_{GetParam()};
  static constexpr double kDear = 1e3;
  static constexpr double kCheap = 1e-9;
};

INSTANTIATE_TEST_SUITE_P(Everywhere, PressureLaw, ::testing::ValuesIn(scheduling_cells()),
                         [](const auto& cell) { return cell.param.name(); });

INSTANTIATE_TEST_SUITE_P(Evicting, PressureLaw, ::testing::ValuesIn(evicting_cells()),
                         [](const auto& cell) { return cell.param.name(); });

TEST_P(PressureLaw, ComputedAgainEqualsUndisturbed) {
  EngineConfig config = tight();
  config.swap_bytes = 0;
  config.costs = CostModel{kCheap, kDear, 1};
  expect_with_little_room(config, 1, [](const SchedulerCounts& counts) {
    EXPECT_EQ(counts.swaps, 0);
    return counts.recomputes > 0;
  });
}

TEST_P(PressureLaw, SwappedOutAndBackEqualsUndisturbed) {
  EngineConfig config = tight();
  config.swap_bytes = config.kv_bytes;
  config.costs = CostModel{kDear, kDear, 1e12};
  expect_with_little_room(config, 1, [](const SchedulerCounts& counts) {
    const bool plain = GetParam().windows.empty() && GetParam().policy.recent == 0 && !GetParam().policy.evict.on() &&
                       GetParam().policy.retention.full();
    if (GetParam().policy.evict.on()) {  // which rows are left is not in the blocks: waiting is cheaper than all else
      EXPECT_EQ(counts.swaps, 0);
      return counts.waits + counts.recomputes > 0;
    }
    if (!plain) return counts.swaps + counts.recomputes > 0;  // what a window dropped cannot be saved
    EXPECT_EQ(counts.recomputes, 0);
    return counts.swaps > 0;
  });
}

TEST_P(PressureLaw, StandingStillEqualsUndisturbed) {
  EngineConfig config = tight();
  config.swap_bytes = 0;
  config.costs = CostModel{kDear, kCheap, 1};
  expect_with_little_room(config, 1, [](const SchedulerCounts& counts) {
    const bool plain = GetParam().windows.empty() && GetParam().policy.recent == 0 && !GetParam().policy.evict.on() &&
                       GetParam().policy.retention.full();
    return counts.waits > 0 || (!plain && counts.recomputes > 0);
  });
}

TEST_P(PressureLaw, TenantsWithQuotasEqualEachAlone) {
  expect_with_little_room(tight(), 2, [](const SchedulerCounts& counts) {
    if (GetParam().policy.evict.on()) return true;  // twelve blocks may be enough for what is left
    return counts.recomputes + counts.swaps + counts.waits > 0;
  });
}

// One tenant runs on what another is guaranteed, until that one asks for it.
TEST_P(PressureLaw, TenantsWithGuaranteesEqualEachAlone) {
  Engine engine = world_.engine(tight());
  engine.set_share(1, {0.5, 1, 1});
  engine.set_share(2, {});
  Recorder recorder(engine);
  std::vector<Request> requests;
  std::vector<RequestId> ids;
  const auto submit = [&](std::uint32_t tenant, std::uint64_t seed) {
    Request request = request_of(some_tokens(36, 300 + seed), 30, seed);
    request.tenant.id = tenant;
    request.tenant.secret.bytes.fill(static_cast<std::uint8_t>(tenant));
    ids.push_back(recorder.submit(request));
    requests.push_back(std::move(request));
  };
  for (std::uint64_t i = 0; i < 4; ++i) submit(2, i);
  for (int i = 0; i < 12; ++i) engine.step();
  for (std::uint64_t i = 4; i < 6; ++i) submit(1, i);
  engine.run();
  for (size_t i = 0; i < requests.size(); ++i) {
    EXPECT_EQ(recorder.of(ids[i]), run_alone(world_, world_.config(), requests[i])) << i;
  }
  EXPECT_EQ(engine.cache().pool(0).held(), 0);
  EXPECT_EQ(engine.cache().problem(), std::nullopt);
}

}  // namespace
}  // namespace kvasir::testing
