// The laws of what a request brings along: a draft, right or wrong, and a key that stands before its text.
#include "engine/known_drafter.h"
#include "engine/known_tree.h"
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
  // A state cannot forget a wrong guess: what was right is computed again. No draft goes past the end of a block
  // there.
  EXPECT_LT(recorder.of(ids[0]).record.steps, world_.has_states() ? 30 : 22);
  EXPECT_GT(drafter.drafted(), world_.has_states() ? 15 : 30);
  // What it left in the cache is what was computed without drafts.
  Request next = requests[0];
  next.prompt.insert(next.prompt.end(), expected[0].tokens.begin(), expected[0].tokens.end());
  const RequestId warm = recorder.submit(next);
  engine.run();
  EXPECT_EQ(recorder.of(warm), run_alone(world_, world_.config(), next));
  Engine without = world_.engine(world_.config());
  Recorder plain(without);
  plain.submit(requests[0]);
  without.run();
  const RequestId found = plain.submit(next);
  without.run();
  EXPECT_EQ(recorder.of(warm).record.reuse.reused_tokens, plain.of(found).record.reuse.reused_tokens);
  EXPECT_EQ(engine.cache().pool(0).held(), 0);
}

// The same of drafts that branch, with what is right beside what is wrong: the rows that are accepted move together,
// and later ones, the next request's, too, read them there.
TEST_P(DraftLaw, AVerifiedTreeEqualsPlainDecoding) {
  std::vector<Request> requests{request_of(some_tokens(37, 41), 30, 1), request_of(some_tokens(20, 42), 24, 2),
                                request_of(some_tokens(52, 43), 17, 3)};
  requests[1].sampling.temperature = 0;
  KnownTree drafter(5);
  std::vector<Trace> expected;
  for (const Request& request : requests) {
    expected.push_back(run_alone(world_, world_.config(), request));
    if (request.sampling.seed != 3) drafter.know(request.prompt, expected.back().tokens);
  }
  EngineConfig config = world_.config();
  config.speculation.branches = 3;
  Engine engine = world_.engine(config);
  engine.use_drafter(&drafter);
  Recorder recorder(engine);
  std::vector<RequestId> ids;
  for (const Request& request : requests) ids.push_back(recorder.submit(request));
  engine.run();
  for (size_t i = 0; i < ids.size(); ++i) EXPECT_EQ(recorder.of(ids[i]), expected[i]) << i;
  const std::vector<DrafterCounts>& counts = engine.speculator().counts().drafters;
  EXPECT_GT(counts.at(0).proposed, world_.has_states() ? 10 : 60);
  if (world_.has_states()) {
    EXPECT_EQ(counts.at(0).branch_proposed, 0);
  } else {
    EXPECT_GT(counts.at(0).branch_accepted, 12);
  }
  Engine without = world_.engine(world_.config());
  Recorder plain(without);
  plain.submit(requests[0]);
  without.run();
  Request next = requests[0];
  next.prompt.insert(next.prompt.end(), expected[0].tokens.begin(), expected[0].tokens.end());
  const RequestId warm = recorder.submit(next);
  engine.run();
  const RequestId found = plain.submit(next);
  without.run();
  EXPECT_EQ(recorder.of(warm), plain.of(found));
  EXPECT_EQ(recorder.of(warm).record.reuse.reused_tokens, plain.of(found).record.reuse.reused_tokens);
  EXPECT_EQ(engine.cache().pool(0).held(), 0);
}

// The same of every drafter there is, with as many tokens as it has to say, alone and all at once, in a pool that is
// too small for all. Texts that copy make them right often, and what they copy wrong.
TEST_P(DraftLaw, NoDrafterChangesAnAnswer) {
  std::vector<Request> requests;
  for (std::uint64_t i = 0; i < 3; ++i) {
    const std::vector<TokenId> text = some_tokens(18, 50 + i);
    std::vector<TokenId> prompt = text;
    prompt.insert(prompt.end(), text.begin(), text.end());
    requests.push_back(request_of(prompt, 24, i));
    if (i == 0) requests.back().sampling.temperature = 0;
    if (i == 1) requests.back().sampling.frequency_penalty = 0.5F;
    if (i == 2) requests.back().logprobs = 2;
  }
  std::vector<Trace> expected;
  for (Request& request : requests) {
    expected.push_back(run_alone(world_, world_.config(), request));
    std::vector<TokenId> predicted = expected.back().tokens;
    for (size_t k = 5; k < predicted.size(); k += 7) predicted[k] = (predicted[k] + 1) % 101;
    request.prediction = std::make_shared<const std::vector<TokenId>>(predicted);
  }
  struct Drafting {
    std::vector<std::string> drafters;
    int branches = 1;
  };
  for (const auto& [drafters, branches] : std::vector<Drafting>{
           {{"ngram"}, 3}, {{"suffix"}, 1}, {{"model"}, 2}, {{"prediction", "ngram", "suffix"}, 4}}) {
    const bool reads_source = world_.model().config().reads_source();
    if (drafters[0] == "model" && (world_.has_states() || reads_source)) continue;
    EngineConfig config = world_.config();
    config.speculation.drafters = drafters;
    config.speculation.branches = branches;
    config.speculation.verify =
        SpeculationConfig::Verify::kAll;  // the model drafts for itself, and shares its blocks
    // A sequence with states needs one more while a draft is verified.
    if (drafters.size() > 1) config.kv_bytes = world_.bytes_for(world_.has_states() ? 24 : 12);
    Engine engine = world_.engine(config);
    Recorder recorder(engine);
    const int turns = drafters[0] == "suffix" ? 2 : 1;  // the second time the tenant's texts are known
    for (int turn = 0; turn < turns; ++turn) {
      std::vector<RequestId> ids;
      for (const Request& request : requests) ids.push_back(recorder.submit(request));
      engine.run();
      for (size_t i = 0; i < ids.size(); ++i) EXPECT_EQ(recorder.of(ids[i]), expected[i]) << drafters[0] << i;
    }
    if (GetParam().policy.evict.on()) continue;
    std::int64_t accepted = 0;
    for (const DrafterCounts& one : engine.speculator().counts().drafters) accepted += one.accepted;
    EXPECT_GT(accepted, drafters[0] == "ngram" ? -1 : world_.has_states() ? 5 : 20) << drafters[0];
  }
}

// The same of a head that reads what the model makes of tokens, and so follows every step and has some of them
// computed again: cold, behind hits, and in little memory. What it finds of the model's own text is what is found
// without it.
TEST_P(DraftLaw, AHeadThatFollowsChangesNoAnswer) {
  if (world_.model().config().reads_source()) GTEST_SKIP() << "its tokens are not all of what it answers to";
  std::vector<Request> requests{request_of(some_tokens(37, 41), 30, 1), request_of(some_tokens(20, 42), 24, 2),
                                request_of(some_tokens(49, 43), 17, 3)};
  requests[1].sampling.temperature = 0;
  std::vector<Trace> expected;
  for (const Request& request : requests) expected.push_back(run_alone(world_, world_.config(), request));
  std::vector<Request> next = requests;  // each goes on behind its answer
  std::vector<Trace> then;
  for (size_t i = 0; i < next.size(); ++i) {
    next[i].prompt.insert(next[i].prompt.end(), expected[i].tokens.begin(), expected[i].tokens.end());
    then.push_back(run_alone(world_, world_.config(), next[i]));
  }
  Engine without = world_.engine(world_.config());
  Recorder plain(without);
  for (const Request& request : requests) plain.submit(request);
  without.run();
  std::vector<RequestId> found;
  for (const Request& request : next) found.push_back(plain.submit(request));
  without.run();
  for (const std::int64_t blocks : {0, 14}) {
    EngineConfig config = world_.config();
    if (blocks > 0) config.kv_bytes = world_.bytes_for(blocks);
    config.speculation.branches = blocks > 0 ? 1 : 3;
    Engine engine = world_.engine_with_head(config);
    Recorder recorder(engine);
    std::vector<RequestId> ids;
    for (const Request& request : requests) ids.push_back(recorder.submit(request));
    engine.run();
    for (size_t i = 0; i < ids.size(); ++i) EXPECT_EQ(recorder.of(ids[i]), expected[i]) << i << " of " << blocks;
    ids.clear();
    for (const Request& request : next) ids.push_back(recorder.submit(request));
    engine.run();
    for (size_t i = 0; i < ids.size(); ++i) {
      EXPECT_EQ(recorder.of(ids[i]), then[i]) << i << " of " << blocks;
      if (blocks > 0) continue;
      EXPECT_EQ(recorder.of(ids[i]).record.reuse.reused_tokens, plain.of(found[i]).record.reuse.reused_tokens) << i;
    }
    EXPECT_EQ(engine.cache().pool(0).held(), 0);
    if (blocks == 0 && !GetParam().policy.evict.on()) {
      EXPECT_GT(engine.speculator().counts().drafters.at(0).proposed, world_.has_states() ? 10 : 40);
    }
  }
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
