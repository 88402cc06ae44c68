// The laws of what a request brings along: a draft, right or wrong, and a key that stands before its text.
#include "engine/known_drafter.h"
#include "laws/harness.h"

namespace kvasir::testing {
namespace {

class DraftLaw : public ::testing::TestWithParam<Cell> {
 protected:
  World world_{GetParam()};
};

// Scalar kernels meet it once, as the laws of who runs when.
INSTANTIATE_TEST_SUITE_P(Everywhere, DraftLaw, ::testing::ValuesIn(scheduling_cells()),
                         [](const auto& cell) { return cell.param.name(); });

// The logits of every row that a token was sampled from are the same bits, whatever was guessed, beside others.
TEST_P(DraftLaw, AVerifiedDraftEqualsPlainDecoding) {
  const std::vector<Request> requests{request_of(some_tokens(37, 41), 30, 1), request_of(some_tokens(20, 42), 24, 2),
                                      request_of(some_tokens(52, 43), 17, 3)};
  KnownDrafter drafter([](std::int64_t output) { return output % 6 == 4; },
                       [](std::int64_t output) { return output % 5 + 1; });
  std::vector<Trace> expected;
  for (const Request& request : requests) {
    expected.push_back(run_alone(world_, world_.config(), request));
    if (request.sampling.seed != 3) drafter.know(request.prompt, expected.back().tokens);
  }
  Engine engine = world_.engine(world_.config());
  engine.use_drafter(&drafter);
  Recorder recorder(engine);
  std::vector<RequestId> ids;
  for (const Request& request : requests) ids.push_back(recorder.submit(request));
  engine.run();
  for (size_t i = 0; i < ids.size(); ++i) EXPECT_EQ(recorder.of(ids[i]), expected[i]) << i;
  if (!world_.has_states()) {  // a state cannot forget a wrong guess: there nobody is asked for one
    EXPECT_LT(recorder.of(ids[0]).record.steps, 22);
    EXPECT_GT(drafter.drafted(), 30);
  }
  // What it left in the cache is what was computed without drafts.
  Request next = requests[0];
  next.prompt.insert(next.prompt.end(), expected[0].tokens.begin(), expected[0].tokens.end());
  const RequestId warm = recorder.submit(next);
  engine.run();
  EXPECT_EQ(recorder.of(warm), run_alone(world_, world_.config(), next));
  EXPECT_EQ(engine.cache().pool(0).held(), 0);
}

// Nothing reads what the key stands for yet: it decides who shares, and no bit of an answer.
TEST_P(DraftLaw, AKeyBeforeTheTextChangesNoAnswer) {
  const Request plain = request_of(some_tokens(50, 44), 12);
  Request keyed = plain;
  keyed.prefix_key.emplace();
  keyed.prefix_key->bytes.fill(7);
  const Trace expected = run_alone(world_, world_.config(), plain);
  Engine engine = world_.engine(world_.config());
  Recorder recorder(engine);
  const RequestId first = recorder.submit(plain);
  const RequestId other = recorder.submit(keyed);  // beside it, and does not wait for its prompt
  engine.run();
  EXPECT_EQ(engine.scheduler().counts().waiting_for_prefix, 0);
  const RequestId again = recorder.submit(keyed);
  engine.run();
  for (const RequestId id : {first, other, again}) EXPECT_EQ(recorder.of(id), expected);
  EXPECT_EQ(recorder.of(other).record.reuse.reused_tokens, 0);
  if (GetParam().windows.empty() && GetParam().policy.retention.full()) {
    EXPECT_EQ(recorder.of(again).record.reuse.reused_tokens, 48);
  }
}

}  // namespace
}  // namespace kvasir::testing
