// The machine is not part of the answer: every instruction set and any number of threads give the same bits.
#include "laws/harness.h"

namespace kvasir::testing {
namespace {

class MachineLaw : public ::testing::TestWithParam<KvFormat> {};

INSTANTIATE_TEST_SUITE_P(Everywhere, MachineLaw, ::testing::ValuesIn(kAllKvFormats),
                         [](const auto& format) { return std::string(format_name(format.param)); });

// Weights of every kind where rows are kept number by number; of others, heads of every kind.
std::vector<std::string> models_for(KvFormat format) {
  if (has_scale(format) || is_pruned(format)) return {"gqa", "odd_head_dim", "narrow_head"};
  return {"gqa", "odd_head_dim", "narrow_head", "bf16", "f16_tied", "q8_0", "q4_0", "q4_k", "q6_k"};
}

TEST_P(MachineLaw, EveryInstructionSetAndThreadCountGivesTheSameBits) {
  for (const std::string& model : models_for(GetParam())) {
    std::optional<Trace> expected;
    for (const Isa isa : available_isas()) {
      for (const int threads : {1, 2, 3}) {
        World world({"cpu", std::string(name_of(isa)), threads, uniform_policy(GetParam()), model, {}});
        const Trace trace = run_alone(world, world.config(), request_of(some_tokens(280, 1), 8));
        if (!expected) expected = trace;
        EXPECT_EQ(trace, *expected) << model << " " << name_of(isa) << " " << threads;
      }
    }
  }
}

}  // namespace
}  // namespace kvasir::testing
