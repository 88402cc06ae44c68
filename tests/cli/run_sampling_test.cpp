// Who decides how `kvasir run` draws: the command line, else the model's generation_config.json, else habit.
#include "refused.h"

namespace kvasir::testing {
namespace {

using RunSamplingTest = RefusedTest;

TEST_F(RunSamplingTest, TheModelDecidesWhereTheCommandLineDoesNot) {
  const std::string asked =
      "run -q -p 'The fox' -n 24 -m " + model_with("generation_config.json", R"({"do_sample":false})");
  const std::string greedy = run(asked + " --temp 0").out;
  EXPECT_EQ(run(asked + " --seed 1").out, greedy);
  EXPECT_EQ(run(asked + " --seed 2").out, greedy);
  EXPECT_NE(run(asked + " --seed 2 --temp 2").out, greedy);
}

TEST_F(RunSamplingTest, AModelThatNamesNothingIsDrawnByHabit) {
  const std::string asked = "run -q -p 'The fox' -n 24 --seed 3 -m " + model_with("generation_config.json", "{}");
  const std::string habit = " --temp 0.8 --top-k 40 --top-p 0.95 --min-p 0.05 --repeat-penalty 1";
  EXPECT_EQ(run(asked).out, run(asked + habit).out);
  model_with("generation_config.json", R"({"temperature":2.0,"top_p":0.99})");  // in the same place
  EXPECT_EQ(run(asked).out, run(asked + " --temp 2 --top-k 0 --top-p 0.99 --min-p 0").out)
      << "and one that names something by that alone";
}

TEST_F(RunSamplingTest, AFileThatIsWrongIsOneLine) {
  expect_file_refused("generation_config.json", R"({"temperature":"hot"})", "temperature is not a number");
  expect_file_refused("generation_config.json", R"({"top_p":7})", "top_p is 7, outside 0..1");
  expect_file_refused("generation_config.json", R"({"do_sample":1})", "do_sample is not true or false");
}

}  // namespace
}  // namespace kvasir::testing
