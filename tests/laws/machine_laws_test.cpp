// The machine is not part of the answer: every instruction set, any number of threads and any number of a GPU's
// SMs give the same bits.
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

// There only where there is a GPU.
class GpuLaw : public MachineLaw {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(GpuLaw);
INSTANTIATE_TEST_SUITE_P(Everywhere, GpuLaw,
                         ::testing::ValuesIn(cuda_devices().empty()
                                                 ? std::vector<KvFormat>{}
                                                 : std::vector(kAllKvFormats.begin(), kAllKvFormats.end())),
                         [](const auto& format) { return std::string(format_name(format.param)); });

// Which kernel attends to what, and which of them shares what with which, follows from their number.
TEST_P(GpuLaw, AnyNumberOfProcessorsGivesTheSameBits) {
  for (const std::string& model : std::vector<std::string>{"heads_of_64", "many_heads_of_128"}) {
    std::optional<std::vector<Trace>> expected;
    for (const int sm_count : {0, 1, 3, 16}) {
      Cell cell{"cuda:0", "auto", 1, uniform_policy(GetParam()), model, {}};
      cell.sm_count = sm_count;
      World world(cell);
      Engine engine = world.engine(world.config());
      Recorder recorder(engine);
      std::vector<RequestId> ids;
      for (int i = 0; i < 9; ++i) ids.push_back(recorder.submit(request_of(some_tokens(100 + i * 35, i), 20)));
      engine.run();
      std::vector<Trace> traces;
      for (const RequestId id : ids) traces.push_back(recorder.of(id));
      if (!expected) expected = traces;
      EXPECT_EQ(traces, *expected) << model << " on " << sm_count;
    }
  }
}

}  // namespace
}  // namespace kvasir::testing
