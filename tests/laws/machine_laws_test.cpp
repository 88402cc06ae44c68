// The machine is not part of the answer: every instruction set and any number of threads give the same bits.
#include "laws/harness.h"

namespace kvasir::testing {
namespace {

class MachineLaw : public ::testing::TestWithParam<KvFormat> {};

INSTANTIATE_TEST_SUITE_P(Everywhere, MachineLaw, ::testing::ValuesIn(kAllKvFormats), [](const auto& format) {
  return std::string(format.param == KvFormat::kF32 ? "f32" : format.param == KvFormat::kF16 ? "f16" : "bf16");
});

TEST_P(MachineLaw, EveryInstructionSetAndThreadCountGivesTheSameBits) {
  for (const char* model :
       {"gqa", "odd_head_dim", "narrow_head", "bf16", "f16_tied", "q8_0", "q4_0", "q4_k", "q6_k"}) {
    std::optional<Trace> expected;
    for (const Isa isa : available_isas()) {
      for (const int threads : {1, 2, 3}) {
        World world({"cpu", std::string(name_of(isa)), threads, GetParam(), model, {}});
        const Trace trace = run_alone(world, world.config(), request_of(some_tokens(280, 1), 8));
        if (!expected) expected = trace;
        EXPECT_EQ(trace, *expected) << model << " " << name_of(isa) << " " << threads;
      }
    }
  }
}

}  // namespace
}  // namespace kvasir::testing
