// Draft trees: every row of a tree has the bits of its own path, computed alone as a chain.
#include "backend/score_scene.h"

namespace kvasir::testing {
namespace {

// By row its parent; -1: it follows the text.
struct Tree {
  std::vector<int> parents;

  int rows() const { return static_cast<int>(parents.size()); }
  std::vector<std::uint64_t> ancestors() const {
    std::vector<std::uint64_t> out;
    for (const int parent : parents) {
      out.push_back(parent < 0 ? 0 : out[static_cast<size_t>(parent)] | std::uint64_t{1} << parent);
    }
    return out;
  }
  // From the text to the row, which is the last.
  std::vector<int> path(int row) const {
    std::vector<int> out;
    for (; row >= 0; row = parents[static_cast<size_t>(row)]) out.insert(out.begin(), row);
    return out;
  }
};

Tree some_tree(int rows, std::uint64_t seed) {
  Tree tree;
  for (int row = 0; row < rows; ++row) {
    tree.parents.push_back(static_cast<int>(mix(seed, static_cast<std::uint64_t>(row), 1) % (row + 1U)) - 1);
  }
  return tree;
}

// One that is a chain, one that is all branches, and some between; as many rows as there may be.
std::vector<Tree> trees() {
  std::vector<Tree> out{
      {{-1, 0, 1, 2, 3, 4}}, {{-1, -1, -1, -1}}, some_tree(9, 1), some_tree(30, 2), some_tree(64, 3)};
  Tree deep = some_tree(64, 4);
  for (int row = 40; row < 64; ++row) deep.parents[static_cast<size_t>(row)] = row - 1;
  out.push_back(deep);
  return out;
}

// Keys and values of row i of the tree are rows kTree + i of the noise, and so are its queries.
constexpr int kTree = 1000;

void expect_paths_as_chains(Backend& backend, const RuleCase& c, Position start, const Tree& tree) {
  ScoreScene scene(backend, c, 2, start + tree.rows());
  scene.write_first(0, start);
  scene.write(0, start, counted(kTree, tree.rows()));
  scene.write_first(1, start);
  const std::vector<std::uint64_t> ancestors = tree.ancestors();
  SequenceView whole = scene.sequence(0, start, tree.rows());
  whole.ancestors = ancestors.data();
  const ScoreScene::Result together = scene.attend(whole, counted(kTree, tree.rows()));
  const int width = c.heads * c.shape.v_dim;
  for (int row = 0; row < tree.rows(); ++row) {
    std::vector<int> path = tree.path(row);
    for (int& one : path) one += kTree;
    scene.write(1, start, path);
    const auto depth = static_cast<Position>(path.size()) - 1;
    const ScoreScene::Result alone = scene.attend(scene.sequence(1, start + depth, 1), {kTree + row});
    const auto at = together.out.begin() + static_cast<std::ptrdiff_t>(row) * width;
    ASSERT_EQ(std::vector(at, at + width), alone.out) << text_of(c) << " at " << start << " row " << row;
    for (int head = 0; head < c.heads; ++head) {
      const SoftmaxState& state = together.states[static_cast<size_t>(row * c.heads + head)];
      ASSERT_EQ(state.m, alone.states[static_cast<size_t>(head)].m);
      ASSERT_EQ(state.d, alone.states[static_cast<size_t>(head)].d);
    }
  }
}

class TreeTest : public OpTest {};
INSTANTIATE_TEST_SUITE_P(Forms, TreeTest, ::testing::ValuesIn(all_forms()), form_name);

TEST_P(TreeTest, EachPathHasTheBitsOfAChainOverFormats) {
  for (const KvFormat format : kAllKvFormats) {
    for (const int block : {16, 5}) {
      const RuleCase c{6, {2, 20, 12}, format, block, {}, {}};
      // Inside a split, over the end of one, and behind it.
      for (const Position start : {0, 250, 256}) expect_paths_as_chains(*tested_, c, start, some_tree(20, 7));
      if (GetParam().isa == available_isas().back()) expect_paths_as_chains(*ref_, c, 30, some_tree(20, 7));
    }
  }
}

TEST_P(TreeTest, EachPathHasTheBitsOfAChainOverTreesAndRules) {
  for (const Tree& tree : trees()) {
    for (const KvFormat format : {KvFormat::kF16, KvFormat::kInt4}) {
      expect_paths_as_chains(*tested_, {4, {2, 16, 16}, format, 16, {}, {}}, 230, tree);
    }
  }
  for (const Retention& retention : std::vector<Retention>{{}, {6, 2}, {40, 4}, {0, 0, 32}}) {
    const RuleCase c{4, {2, 16, 16}, KvFormat::kBF16, 16, retention, {2.0F, true, RuleFields::Bias::kTable, {}}};
    expect_paths_as_chains(*tested_, c, 240, some_tree(40, 9));
    expect_paths_as_chains(*ref_, c, 60, some_tree(20, 9));
  }
  const RuleCase shared{40, {1, 24, 16, {}, {}, 8}, KvFormat::kInt8, 16, {}, {}};
  expect_paths_as_chains(*tested_, shared, 240, some_tree(30, 11));
}

// Trees beside chains, over the same blocks: nobody's bits change.
TEST_P(TreeTest, ATreeBesideOthersHasItsOwnBits) {
  const RuleCase c{4, {2, 16, 16}, KvFormat::kF16, 16, {}, {}};
  ScoreScene scene(*tested_, c, 1, 620);
  scene.write_first(0, 600);
  scene.write(0, 600, counted(kTree, 20));
  const std::vector<std::uint64_t> ancestors = some_tree(20, 5).ancestors();
  std::vector<SequenceView> all{scene.sequence(0, 600, 20), scene.sequence(0, 600, 20), scene.sequence(0, 590, 3)};
  all[0].ancestors = ancestors.data();
  all[1].first_row = 20;
  all[2].first_row = 40;
  const OwnedMatrix q = scene.queries(counted(kTree, 43));
  const auto run = [&](const std::vector<SequenceView>& some) {
    OwnedMatrix out(43, 64);
    tested_->run(AttentionOp{{q.view, scene.view(), some, 4, scene.rule()}, out.view});
    return out.values;
  };
  const std::vector<float> together = run(all);
  for (const SequenceView& one : all) {
    const std::vector<float> alone = run({one});
    const auto first = static_cast<std::ptrdiff_t>(one.first_row) * 64;
    EXPECT_TRUE(std::equal(alone.begin() + first, alone.begin() + first + one.rows * 64, together.begin() + first));
  }
  EXPECT_FALSE(std::equal(together.begin(), together.begin() + 20 * 64, together.begin() + 20 * 64));
}

}  // namespace
}  // namespace kvasir::testing
