// Ops of recurrent layers against ref, and however a text is cut into chunks.
#include <numeric>

#include "backend/backends.h"

namespace kvasir::testing {
namespace {

class RecurrentTest : public OpTest {};

INSTANTIATE_TEST_SUITE_P(Forms, RecurrentTest, ::testing::ValuesIn(all_forms()), form_name);

constexpr StateShape kShapes[] = {{5, 3, 2, 4, 6},   {40, 1, 6, 8, 16},    {64, 3, 3, 20, 37},
                                  {6, 7, 2, 48, 40}, {130, 2, 2, 128, 64}, {9, 4, 1, 200, 33}};

// Two texts of different lengths, in chunks of this many rows, in a storage whose blocks hold noise at first. Whoever
// runs an op is given all sequences of a chunk at once.
class Scene {
 public:
  Scene(Backend& backend, const StateShape& shape) : backend_(backend), storage_(storage_of(backend, shape)) {}

  template <class Run>
  void each_chunk(int chunk, const Run& run) {
    for (int from = 0; from < kRows[1]; from += chunk) {
      std::vector<SequenceView> views;
      for (size_t i = 0; i < kRows.size(); ++i) {
        const int rows = std::min(chunk, kRows[i] - from);
        if (rows <= 0) continue;
        views.push_back({&blocks_[i], from, first_row(i) + from, rows});
        views.back().block_count = 1;
      }
      run(storage_.state_view(0, 0), SequenceViews(std::span<const SequenceView>(views)));
    }
  }
  std::vector<std::byte> states() {
    std::vector<std::byte> out;
    for (const BlockId block : blocks_) {
      std::vector<std::byte> one(static_cast<size_t>(storage_.block_bytes(0)));
      storage_.read_block(0, block, one);
      out.insert(out.end(), one.begin(), one.end());
    }
    return out;
  }
  static int rows() { return kRows[0] + kRows[1]; }

 private:
  static int first_row(size_t i) { return i == 0 ? 0 : kRows[0]; }
  static KvStorage storage_of(Backend& backend, const StateShape& shape) {
    KvGroup group;
    group.layers = {0};
    group.state = shape;
    const std::int64_t bytes = block_bytes_of(group, 16);
    KvStorage storage(backend, {4, bytes}, 16);
    storage.set_group(0, group);
    const std::vector<float> noise = noise_vector(static_cast<size_t>(bytes) / sizeof(float), 9);
    for (BlockId block = 0; block < 4; ++block) storage.write_block(0, block, std::as_bytes(std::span(noise)));
    return storage;
  }

  static constexpr std::array<int, 2> kRows{9, 37};
  static constexpr std::array<BlockId, 2> blocks_{3, 1};
  Backend& backend_;
  KvStorage storage_;
};

// What every chunk size gives must be one and the same, and near to what ref makes of it.
template <class Run>
void expect_as_ref(Backend& tested, Backend& ref, const StateShape& shape, int columns, const Run& run) {
  OwnedMatrix expected(Scene::rows(), columns);
  Scene by_ref(ref, shape);
  by_ref.each_chunk(100, [&](const StateView& state, SequenceViews views) { run(ref, state, views, expected.view); });
  std::vector<float> whole;
  std::vector<std::byte> states;
  for (const int chunk : {100, 1, 4}) {
    OwnedMatrix got(Scene::rows(), columns);
    Scene scene(tested, shape);
    scene.each_chunk(chunk,
                     [&](const StateView& state, SequenceViews views) { run(tested, state, views, got.view); });
    EXPECT_LT(relative_error(got.values, expected.values), 1e-5) << chunk;
    if (whole.empty()) {
      whole = got.values;
      states = scene.states();
    }
    EXPECT_EQ(got.values, whole) << chunk;
    EXPECT_EQ(scene.states(), states) << chunk;
  }
}

TEST_P(RecurrentTest, Convolutions) {
  for (const StateShape& shape : kShapes) {
    const auto channels = static_cast<size_t>(shape.conv_channels);
    const OwnedMatrix x(Scene::rows(), shape.conv_channels, 1);
    const std::vector<float> weight = noise_vector(channels * static_cast<size_t>(shape.conv_inputs + 1), 2);
    const std::vector<float> bias = noise_vector(channels, 3);
    for (const auto bend : {CausalConvOp::Bend::kNone, CausalConvOp::Bend::kSilu}) {
      const float* own = bend == CausalConvOp::Bend::kNone ? bias.data() : nullptr;
      expect_as_ref(*tested_, *ref_, shape, shape.conv_channels,
                    [&](Backend& backend, const StateView& state, SequenceViews views, Matrix out) {
                      backend.run(CausalConvOp{x.view, weight.data(), own, bend, state, views, out});
                    });
    }
  }
}

TEST_P(RecurrentTest, StatesOfEveryRule) {
  using enum RecurrenceOp::Rule;
  for (const StateShape& shape : kShapes) {
    const int k_heads = shape.heads % 2 == 0 ? shape.heads / 2 : shape.heads;
    OwnedMatrix q(Scene::rows(), k_heads * shape.k_dim, 4);
    OwnedMatrix k(Scene::rows(), k_heads * shape.k_dim, 5);
    const float unit = 1.2F / std::sqrt(static_cast<float>(shape.k_dim));  // of longer keys what is written grows
    for (float& value : k.values) value *= unit;
    const OwnedMatrix v(Scene::rows(), shape.heads * shape.v_dim, 6);
    const OwnedMatrix strength(Scene::rows(), shape.heads, 7);
    const std::vector<float> skip = noise_vector(static_cast<size_t>(shape.heads), 8);
    for (const int own : {1, shape.k_dim}) {
      OwnedMatrix decay(Scene::rows(), shape.heads * own, 9);
      for (float& value : decay.values) value = 1.0F / (1.0F + std::exp(-2.0F - value));
      for (const auto rule : {kDelta, kAdd}) {
        const float* skips = rule == kAdd ? skip.data() : nullptr;
        expect_as_ref(*tested_, *ref_, shape, shape.heads * shape.v_dim,
                      [&](Backend& backend, const StateView& state, SequenceViews views, Matrix out) {
                        backend.run(RecurrenceOp{rule, q.view, k.view, v.view, decay.view, strength.view, skips,
                                                 state, views, out});
                      });
      }
    }
  }
}

// States that are rounded, kept and gone on from: every backend has the bits of ref.
TEST_P(RecurrentTest, RoundedStates) {
  if (tested_->limits().states == BackendLimits::States::kF32) GTEST_SKIP() << "not on this device";
  for (const StateShape& shape : kShapes) {
    for (const auto format : {StateFormat::kBF16, StateFormat::kInt8}) {
      std::vector<std::byte> expected;
      for (Backend* backend : {ref_.get(), tested_.get()}) {
        KvGroup live;
        live.layers = {0, 1};
        live.state = shape;
        live.state_format = format;
        KvGroup kept = live;
        live.state_use = KvGroup::StateUse::kLive;
        kept.state_use = KvGroup::StateUse::kKept;
        const std::int64_t bytes = block_bytes_of(live, 16);
        KvStorage storage(*backend, {6, bytes}, 16);
        storage.set_group(0, live);
        storage.set_group(1, kept);
        const std::vector<float> noise = noise_vector(static_cast<size_t>(bytes) / sizeof(float), 9);
        storage.write_block(0, 2, std::as_bytes(std::span(noise)));
        const BlockId block = 2;
        std::vector<SequenceView> views{{&block, 0, 0, 16}};
        views[0].block_count = 1;
        for (const int layer : {0, 1}) {
          for (const auto part : {StateRoundOp::Part::kConvInputs, StateRoundOp::Part::kMatrices}) {
            backend->run(StateRoundOp{format, part, storage.state_view(0, layer), SequenceViews(views)});
          }
        }
        const BlockId place = 3 * static_cast<BlockId>(bytes / storage.block_bytes(1));  // in the fourth page
        storage.copy_block(0, 2, 1, place);
        storage.copy_block(1, place, 0, 5);
        std::vector<std::byte> rounded(static_cast<size_t>(bytes));
        std::vector<std::byte> back(static_cast<size_t>(bytes));
        storage.read_block(0, 2, rounded);
        storage.read_block(0, 5, back);
        EXPECT_EQ(rounded, back);
        EXPECT_FALSE(std::ranges::equal(rounded, std::as_bytes(std::span(noise))));
        if (expected.empty()) expected = rounded;
        EXPECT_EQ(rounded, expected);
      }
    }
  }
}

TEST_P(RecurrentTest, Decays) {
  const OwnedMatrix x(7, 12, 10);
  const std::vector<float> bias = noise_vector(12, 11);
  std::vector<float> rate = noise_vector(4, 12);
  for (float& value : rate) value = -std::exp(value);
  for (const float most : {std::numeric_limits<float>::infinity(), 0.9F}) {
    OwnedMatrix steps[] = {OwnedMatrix(7, 12), OwnedMatrix(7, 12)};
    OwnedMatrix decays[] = {OwnedMatrix(7, 12), OwnedMatrix(7, 12)};
    Backend* const backends[] = {ref_.get(), tested_.get()};
    for (size_t i = 0; i < 2; ++i) {
      backends[i]->run(DecayOp{x.view, bias.data(), rate.data(), 4, steps[i].view, decays[i].view, 0.1F, most});
    }
    EXPECT_LT(relative_error(steps[1].values, steps[0].values), 1e-6);
    EXPECT_LT(relative_error(decays[1].values, decays[0].values), 1e-6);
  }
}

}  // namespace
}  // namespace kvasir::testing
