// Paged attention and kv_write against ref: formats, groupings, block sizes, retentions, ragged batches.
#include <algorithm>
#include <functional>
#include <numeric>

#include "backend/backends.h"
#include "backend/cpu/attention_plan.h"
#include "backend/kv_storage.h"
#include "layout/codec.h"
#include "layout/kv_policy.h"

namespace kvasir::testing {
namespace {

struct Case {
  int heads, kv_heads, k_dim, v_dim;
  KvPolicy formats;
  int block_tokens;
  Retention retention;
  std::int64_t page_rest = 64;  // bytes behind the blocks of a page: the fastest kernels of GPUs want 128 or none
};

KvPolicy both(KvFormat format) { return uniform_policy(format); }

struct Span {
  Position start;
  int rows;
};

// A cache whose earlier positions hold noise, and a ragged batch on top of it.
class Scene {
 public:
  // The sequences listed in `like_first` begin with the blocks of the first, as far as `shared` tokens reach. Blocks
  // are full of `before` until they are written.
  Scene(Backend& backend, const Case& c, const std::vector<Span>& spans, Position shared = 0,
        const std::vector<size_t>& like_first = {}, std::byte before = {})
      : backend_(backend), case_(c), spans_(spans) {
    const KvGroup group{{0, 1}, {c.kv_heads, c.k_dim, c.v_dim}, c.formats.k_format, c.formats.v_format, c.retention};
    std::int64_t blocks = 0;
    for (const Span& span : spans) {
      tables_.emplace_back();
      for (Position p = 0; p < span.start + span.rows; p += c.block_tokens)
        tables_.back().push_back(static_cast<BlockId>(blocks++));
    }
    // Blocks lie backwards in memory: no kernel may count on their order.
    for (auto& table : tables_) {
      for (BlockId& block : table) block = static_cast<BlockId>(blocks) - 1 - block;
    }
    for (const size_t i : like_first) {
      std::copy_n(tables_[0].begin(), std::min(shared / c.block_tokens, std::ssize(tables_[i])), tables_[i].begin());
    }
    // Pages of three blocks with a rest, so that no kernel may count on blocks lying side by side.
    const std::int64_t page_bytes = 3 * make_layout(group, c.block_tokens).block_bytes() + c.page_rest;
    storage_ = std::make_unique<KvStorage>(backend, KvStorage::Pages{(blocks + 2) / 3, page_bytes}, c.block_tokens);
    storage_->set_group(0, group);
    blocks_ = blocks;
    const std::vector<std::byte> old(static_cast<size_t>(storage_->layout(0).block_bytes()), before);
    for (BlockId block = 0; block < blocks; ++block) storage_->write_block(0, block, old);
    fill();
  }

  // Another sequence, over the blocks of the first from `first` on, around their end. REQUIRES: as many tokens at
  // most.
  void add_rotated(const Span& span, size_t first) {
    spans_.push_back(span);
    std::vector<BlockId> table = tables_[0];
    std::ranges::rotate(table, table.begin() + static_cast<std::ptrdiff_t>(first % table.size()));
    tables_.push_back(std::move(table));
  }

  std::vector<std::byte> bytes() const {
    const auto size = static_cast<size_t>(storage_->layout(0).block_bytes());
    std::vector<std::byte> out(static_cast<size_t>(blocks_) * size);
    for (BlockId block = 0; block < blocks_; ++block) {
      storage_->read_block(0, block, std::span(out).subspan(static_cast<size_t>(block) * size, size));
    }
    return out;
  }

  // The rows of one sequence alone, with the queries they have in the batch.
  std::vector<float> attend_alone(size_t sequence) {
    std::vector<SequenceView> all = views(true);
    const OwnedMatrix q(all.back().first_row + all.back().rows, case_.heads * case_.k_dim, 77);
    OwnedMatrix out(q.view.rows, case_.heads * case_.v_dim);
    const float scale = 1.0F / std::sqrt(static_cast<float>(case_.k_dim));
    const std::vector<SequenceView> one{all[sequence]};
    backend_.attention({q.view, storage_->view(0, 1), one, case_.heads, scale}, out.view);
    const float* first = out.view.row(all[sequence].first_row);
    return {first, first + static_cast<std::ptrdiff_t>(all[sequence].rows) * out.view.cols};
  }

  std::vector<float> attend() {
    const int rows =
        std::accumulate(spans_.begin(), spans_.end(), 0, [](int sum, const Span& s) { return sum + s.rows; });
    const OwnedMatrix q(rows, case_.heads * case_.k_dim, 77);
    OwnedMatrix out(rows, case_.heads * case_.v_dim);
    const float scale = 1.0F / std::sqrt(static_cast<float>(case_.k_dim));
    backend_.attention({q.view, storage_->view(0, 1), views(true), case_.heads, scale}, out.view);
    return out.values;
  }

  // The same, each sequence's rows as sequences of their own, `rows` at a time.
  std::vector<float> attend_in_pieces(int rows) {
    std::vector<SequenceView> pieces;
    for (const SequenceView& whole : views(true)) {
      for (int row = 0; row < whole.rows; row += rows) {
        pieces.push_back({whole.blocks, whole.start + row, whole.first_row + row, std::min(rows, whole.rows - row)});
      }
    }
    const int all = pieces.back().first_row + pieces.back().rows;
    const OwnedMatrix q(all, case_.heads * case_.k_dim, 77);
    OwnedMatrix out(all, case_.heads * case_.v_dim);
    const float scale = 1.0F / std::sqrt(static_cast<float>(case_.k_dim));
    backend_.attention({q.view, storage_->view(0, 1), pieces, case_.heads, scale}, out.view);
    return out.values;
  }

  void move(size_t sequence, const std::vector<RowMove>& moves) {
    backend_.kv_move(storage_->view(0, 1), tables_[sequence].data(), moves);
  }

  // What is noted of one sequence's rows from `first` on, the rows in chunks of `chunk`: [KV heads][end].
  std::vector<float> watch(size_t sequence, int first, AttentionWatch::Note note, int chunk = 1000) {
    const SequenceView whole = views(true)[sequence];
    const OwnedMatrix q(whole.first_row + whole.rows, case_.heads * case_.k_dim, 77);
    const float scale = 1.0F / std::sqrt(static_cast<float>(case_.k_dim));
    AttentionWatch watch;
    watch.note = note;
    watch.stride = whole.start + whole.rows;
    std::vector<float> scores(static_cast<size_t>(watch.stride * case_.kv_heads));
    watch.scores = scores.data();
    for (int row = 0; row < whole.rows; row += chunk) {
      SequenceView part = whole;
      part.start += row;
      part.first_row += row;
      part.rows = std::min(chunk, whole.rows - row);
      watch.first = std::max(first - row, 0);
      watch.position = 1000 + std::max(first, row);
      if (watch.first < part.rows) {
        backend_.watch_attention({q.view, storage_->view(0, 1), {&part, 1}, case_.heads, scale}, watch);
      }
    }
    return scores;
  }

  // Recent keys and sinks read apart from all others, and merged.
  std::vector<float> attend_in_two(const Retention& recent) {
    const std::vector<SequenceView> all = views(true);
    const int rows = all.back().first_row + all.back().rows;
    const OwnedMatrix q(rows, case_.heads * case_.k_dim, 77);
    OwnedMatrix fine(rows, case_.heads * case_.v_dim);
    OwnedMatrix rest(rows, case_.heads * case_.v_dim);
    std::vector<SoftmaxState> fine_states(static_cast<size_t>(rows * case_.heads));
    std::vector<SoftmaxState> rest_states(fine_states.size(), {7, 7});
    const float scale = 1.0F / std::sqrt(static_cast<float>(case_.k_dim));
    KvView view = storage_->view(0, 1);
    view.finer = recent;
    backend_.attention({q.view, view, all, case_.heads, scale, rest_states.data()}, rest.view);
    for (const SequenceView& sequence : all) {  // too young to have anything but recent keys
      for (int row = 0; row < sequence.rows; ++row) {
        const bool nothing = sequence.start + row < recent.window;
        const size_t at = static_cast<size_t>((sequence.first_row + row) * case_.heads);
        EXPECT_TRUE(!nothing || (rest_states[at].empty() && rest.view.row(sequence.first_row + row)[0] == 0));
      }
    }
    view.finer = {};
    view.retention = recent;
    backend_.attention({q.view, view, all, case_.heads, scale, fine_states.data()}, fine.view);
    backend_.merge_attention({fine.view, fine_states.data(), case_.heads},
                             {rest.view, rest_states.data(), case_.heads}, all);
    return fine.values;
  }

 private:
  // Either the batch itself, or all positions from 0: what has to be written first.
  std::vector<SequenceView> views(bool batch) const {
    std::vector<SequenceView> out;
    int row = 0;
    for (size_t i = 0; i < spans_.size(); ++i) {
      const int rows = spans_[i].rows + (batch ? 0 : static_cast<int>(spans_[i].start));
      out.push_back({tables_[i].data(), batch ? spans_[i].start : 0, row, rows});
      row += rows;
    }
    return out;
  }

  void fill() {
    const std::vector<SequenceView> all = views(false);
    const int rows = all.back().first_row + all.back().rows;
    const OwnedMatrix k(rows, case_.kv_heads * case_.k_dim, 55);
    const OwnedMatrix v(rows, case_.kv_heads * case_.v_dim, 66);
    for (const SequenceView& one : all) {  // those that share blocks write them too, in this order
      backend_.kv_write(k.view, v.view, storage_->view(0, 1), {&one, 1});
    }
  }

  Backend& backend_;
  Case case_;
  std::vector<Span> spans_;
  std::vector<std::vector<BlockId>> tables_;
  std::unique_ptr<KvStorage> storage_;
  std::int64_t blocks_ = 0;
};

class AttentionTest : public OpTest {
 protected:
  static double tolerance(const KvPolicy& formats) { return attention_tolerance(GetParam(), formats); }
};
INSTANTIATE_TEST_SUITE_P(Forms, AttentionTest, ::testing::ValuesIn(all_forms()), form_name);

// Every format for both, and each for K or V alone.
std::vector<KvPolicy> all_formats() {
  std::vector<KvPolicy> out;
  for (const KvFormat format : kAllKvFormats) out.push_back(both(format));
  for (size_t i = 0; i < kAllKvFormats.size(); ++i) {
    out.push_back({kAllKvFormats[i], kAllKvFormats[(i + 3) % kAllKvFormats.size()], {}});
  }
  return out;
}

// Those that have kernels of their own for blocks and heads of usual sizes.
std::vector<KvFormat> formats_with_kernels(const Form& form) {
  std::vector<KvFormat> out{KvFormat::kF16, KvFormat::kBF16, KvFormat::kInt8, KvFormat::kInt4, KvFormat::kInt2};
  if (on_gpu(form)) out.insert(out.end(), {KvFormat::kE4M3, KvFormat::kE5M2});
  return out;
}

const std::vector<Span> kRagged{{0, 1}, {0, 19}, {40, 1}, {255, 3}, {300, 1}, {10, 50}};

TEST_P(AttentionTest, EqualsRefOverFormatsGroupsAndHeads) {
  for (const KvPolicy& formats : all_formats()) {
    std::vector<Case> cases{{6, 2, 64, 64, formats, 16, {}}, {3, 1, 6, 10, formats, 16, {}}};
    if (formats.k_format == formats.v_format) {
      cases.push_back({4, 4, 16, 16, formats, 16, {}});
      cases.push_back({4, 1, 20, 20, formats, 16, {}});
      cases.push_back({8, 1, 128, 128, formats, 32, {}});
    }
    for (const Case& c : cases) {
      const std::vector<float> expected = Scene(*ref_, c, kRagged).attend();
      EXPECT_LT(relative_error(Scene(*tested_, c, kRagged).attend(), expected), tolerance(formats))
          << c.heads << "/" << c.kv_heads << " x " << c.k_dim << " " << to_text(formats);
    }
  }
}

// Two rows of one head that change places give the same, but for the order of sums; one that is lost does not.
TEST_P(AttentionTest, RowsAreReadWhereTheyWereMoved) {
  for (const KvFormat format : kAllKvFormats) {
    for (Backend* backend : {ref_.get(), tested_.get()}) {
      Scene scene(*backend, {6, 2, 20, 20, both(format), 16, {}}, {{39, 1}});  // of its third block eight are free
      const std::vector<float> before = scene.attend();
      scene.move(0, {{1, 5, 45}, {1, 20, 5}, {1, 45, 20}});
      EXPECT_LT(relative_error(scene.attend(), before), tolerance(both(format))) << format_name(format);
      scene.move(0, {{1, 20, 5}});
      EXPECT_GT(relative_error(scene.attend(), before), 1e-3) << format_name(format);
    }
  }
}

TEST_P(AttentionTest, WatchesWhatRefWatches) {
  using Note = AttentionWatch::Note;
  for (const KvPolicy& formats : all_formats()) {
    for (const int block : {16, 3}) {
      const Case c{6, 2, 20, 20, formats, block, {}};
      Scene of_ref(*ref_, c, kRagged);
      Scene of_tested(*tested_, c, kRagged);
      for (const size_t sequence : {size_t{1}, size_t{3}, size_t{5}}) {
        const int first = kRagged[sequence].rows / 2;
        const std::vector<float> expected = of_ref.watch(sequence, first, Note::kShares);
        const std::vector<float> got = of_tested.watch(sequence, first, Note::kShares);
        EXPECT_LT(relative_error(got, expected), on_gpu(GetParam()) ? tolerance(formats) : 1e-5) << to_text(formats);
        EXPECT_NEAR(std::accumulate(got.begin(), got.end(), 0.0), 6.0 * (kRagged[sequence].rows - first), 1e-3);
        const std::vector<float> last = of_ref.watch(sequence, first, Note::kLastQuery);
        const std::vector<float> noted = of_tested.watch(sequence, first, Note::kLastQuery);
        std::int64_t agree = 0;  // a share may be equal to all but the last bit
        for (size_t i = 0; i < last.size(); ++i) agree += noted[i] == last[i];
        EXPECT_GE(agree, std::ssize(last) - (on_gpu(GetParam()) ? std::ssize(last) / 20 : 1));
        EXPECT_EQ(noted.back(), static_cast<float>(1000 + kRagged[sequence].rows - 1));
      }
    }
  }
}

TEST_P(AttentionTest, WhatIsWatchedDoesNotDependOnChunks) {
  for (const KvFormat format : {KvFormat::kF16, KvFormat::kInt4}) {
    for (Backend* backend : {ref_.get(), tested_.get()}) {
      Scene scene(*backend, {6, 2, 20, 20, both(format), 16, {}}, kRagged);
      for (const auto note : {AttentionWatch::Note::kShares, AttentionWatch::Note::kLastQuery}) {
        const std::vector<float> whole = scene.watch(5, 3, note);
        for (const int chunk : {1, 7, 16}) EXPECT_EQ(scene.watch(5, 3, note, chunk), whole) << chunk;
      }
    }
  }
}

TEST_P(AttentionTest, WritesTheBytesThatRefWrites) {
  for (const KvPolicy& formats : all_formats()) {
    for (const int block_tokens : {3, 16}) {
      const Case c{4, 2, 20, 10, formats, block_tokens, {}};
      EXPECT_EQ(Scene(*tested_, c, {{0, 19}, {5, 9}}).bytes(), Scene(*ref_, c, {{0, 19}, {5, 9}}).bytes())
          << to_text(formats);
    }
  }
}

// Slots that were never written, and blocks that a table does not have, may hold anything: here what reads as NaN.
TEST_P(AttentionTest, WhatWasNeverWrittenIsNeverSeen) {
  for (const KvPolicy& formats : all_formats()) {
    for (const Retention& retention : std::vector<Retention>{{}, {20, 3}}) {
      for (const int block_tokens : {5, 16}) {
        const Case c{4, 2, 20, 24, formats, block_tokens, retention};
        const std::vector<Span> spans{{0, 3}, {300, 2}};
        const std::vector<float> clean = Scene(*tested_, c, spans).attend();
        EXPECT_EQ(Scene(*tested_, c, spans, 0, {}, std::byte{0xff}).attend(), clean) << to_text(formats);
      }
    }
  }
  // Blocks and heads of usual sizes, and rows enough for a prompt.
  for (const KvFormat format : formats_with_kernels(GetParam())) {
    for (const Retention& retention : std::vector<Retention>{{}, {20, 3}}) {
      for (const int dim : on_gpu(GetParam()) ? std::vector{64, 128} : std::vector{64}) {
        const Case c{4, 2, dim, dim, both(format), 16, retention, 128};
        const std::vector<Span> spans{{0, 3}, {300, 2}, {5, 77}};
        const std::vector<float> clean = Scene(*tested_, c, spans).attend();
        EXPECT_EQ(Scene(*tested_, c, spans, 0, {}, std::byte{0xff}).attend(), clean) << format_name(format);
      }
    }
  }
}

TEST_P(AttentionTest, EqualsRefOverBlockSizes) {
  for (const KvFormat format :
       {KvFormat::kBF16, KvFormat::kInt8, KvFormat::kInt4, KvFormat::kInt2, KvFormat::kE4M3, KvFormat::kTop50}) {
    for (const int block_tokens : {1, 2, 4, 5, 16, 24, 48, 512}) {
      const Case c{4, 2, 20, 16, both(format), block_tokens, {}};
      EXPECT_LT(relative_error(Scene(*tested_, c, kRagged).attend(), Scene(*ref_, c, kRagged).attend()),
                tolerance(both(format)))
          << block_tokens << " " << format_name(format);
    }
  }
}

TEST_P(AttentionTest, EqualsRefOverWindowsAndSinks) {
  for (const Retention& retention :
       std::vector<Retention>{{1, 0}, {7, 0}, {16, 4}, {33, 1}, {64, 20}, {257, 0}, {100, 300}, {1000, 2}}) {
    for (const KvFormat format :
         {KvFormat::kF16, KvFormat::kInt8, KvFormat::kInt4, KvFormat::kE5M2, KvFormat::kTop25}) {
      const Case c{4, 2, 16, 16, both(format), 16, retention};
      EXPECT_LT(relative_error(Scene(*tested_, c, kRagged).attend(), Scene(*ref_, c, kRagged).attend()),
                tolerance(both(format)))
          << retention.window << "+" << retention.sinks << " " << format_name(format);
    }
  }
}

TEST_P(AttentionTest, TwoGroupsReadEachKeyOnceAndMergeToTheWhole) {
  const std::vector<Span> spans{{0, 1}, {0, 19}, {40, 1}, {255, 3}, {300, 1}, {10, 50}, {900, 1}, {500, 40}};
  for (const Retention& recent : std::vector<Retention>{{1, 0}, {7, 0}, {16, 4}, {64, 20}, {257, 0}, {300, 270}}) {
    for (const Retention& kept : std::vector<Retention>{{}, {400, 0}}) {
      if (!kept.full() && recent.sinks > 0) continue;  // such a layer has none
      const Case c{6, 2, 64, 20, both(KvFormat::kF16), 16, kept};
      const std::vector<float> whole = Scene(*ref_, c, spans).attend();
      EXPECT_LT(relative_error(Scene(*ref_, c, spans).attend_in_two(recent), whole), 5e-6) << recent.window;
      EXPECT_LT(relative_error(Scene(*tested_, c, spans).attend_in_two(recent), whole), tolerance(c.formats))
          << recent.window << "+" << recent.sinks << " of " << kept.window;
    }
  }
}

TEST_P(AttentionTest, ARowsBitsDoNotDependOnWhatIsBesideIt) {
  for (const Retention& retention : std::vector<Retention>{{}, {40, 4}}) {
    const Case c{6, 2, 64, 64, both(KvFormat::kF16), 16, retention};
    const int width = c.heads * c.v_dim;
    const std::vector<float> together = Scene(*tested_, c, {{0, 300}}).attend();
    // The same queries, one chunk after the other: row r of a chunk's q is row r of the noise, so compare row 0 of
    // each chunk against a scene in which that row is alone.
    const std::vector<float> alone = Scene(*tested_, c, {{0, 1}}).attend();
    EXPECT_EQ(std::vector(together.begin(), together.begin() + width), alone);
    const std::vector<float> tile = Scene(*tested_, c, {{290, 9}}).attend();
    const std::vector<float> first = Scene(*tested_, c, {{290, 1}}).attend();
    EXPECT_EQ(std::vector(tile.begin(), tile.begin() + width), first);
  }
}

// Many sequences behind one prefix, ragged, with others among them: reading the prefix once for all changes no bit.
TEST_P(AttentionTest, SharedBlocksGiveEachSequenceItsOwnBits) {
  const std::vector<Span> spans{{700, 1}, {530, 1},  {512, 3}, {600, 1}, {511, 2},
                                {800, 1}, {513, 40}, {900, 2}, {20, 5}};
  const std::vector<size_t> sharers{1, 2, 4, 5, 6, 7};
  for (const KvFormat one : kAllKvFormats) {
    const KvPolicy format = both(one);
    std::vector<Case> cases{{6, 2, 64, 64, format, 16, {}}, {2, 2, 16, 24, format, 24, {}}};
    if (!has_scale(one)) {
      cases.push_back({8, 1, 20, 20, format, 32, {}});
      cases.push_back({4, 2, 16, 16, format, 16, {300, 4}});
    }
    for (const Case& c : cases) {
      Scene scene(*tested_, c, spans, 480, sharers);
      const std::vector<float> together = scene.attend();
      EXPECT_LT(relative_error(together, Scene(*ref_, c, spans, 480, sharers).attend()), tolerance(format));
      auto at = together.begin();
      for (size_t s = 0; s < spans.size(); ++s) {
        const std::vector<float> alone = scene.attend_alone(s);
        EXPECT_EQ(std::vector(at, at + static_cast<std::ptrdiff_t>(alone.size())), alone) << "sequence " << s;
        at += static_cast<std::ptrdiff_t>(alone.size());
      }
    }
  }
}

// All sequences of the batch at once, and each alone, to the bit.
void expect_each_as_alone(Scene& scene, const std::vector<Span>& spans, const std::string& what) {
  const std::vector<float> together = scene.attend();
  auto at = together.begin();
  for (size_t s = 0; s < spans.size(); ++s) {
    const std::vector<float> alone = scene.attend_alone(s);
    EXPECT_EQ(std::vector(at, at + static_cast<std::ptrdiff_t>(alone.size())), alone) << what << ", sequence " << s;
    at += static_cast<std::ptrdiff_t>(alone.size());
  }
  EXPECT_EQ(scene.attend(), together) << what;
}

std::string shape_name(const Case& c) {
  return std::string(format_name(c.formats.k_format)) + " " + std::to_string(c.heads) + " x " +
         std::to_string(c.k_dim);
}

// So long a prefix of so many that a GPU reads it once: in several groups of rows, each in several pieces. Of 20
// sequences two share less, and one nothing.
TEST_P(AttentionTest, LongPrefixesGiveEachSequenceItsOwnBits) {
  if (!on_gpu(GetParam())) GTEST_SKIP() << "smaller ones do elsewhere";
  std::vector<Span> spans(20, Span{9 * 256, 1});
  std::vector<size_t> sharers(spans.size() - 2);
  std::iota(sharers.begin(), sharers.end(), 1);
  for (size_t i = 0; i < spans.size(); ++i) spans[i].start += static_cast<Position>(i * i);
  spans[3] = {9 * 256, 3};
  spans[5] = {5 * 256 + 100, 2};
  spans[6] = {255, 1};
  for (const KvFormat format : {KvFormat::kF16, KvFormat::kBF16}) {
    for (const Case& c : std::vector<Case>{{8, 2, 128, 128, both(format), 16, {}, 128},
                                           {112, 8, 128, 128, both(format), 16, {}, 128},
                                           {24, 8, 64, 64, both(format), 16, {}, 128}}) {
      Scene scene(*tested_, c, spans, 9 * 256, sharers);
      expect_each_as_alone(scene, spans, shape_name(c));
    }
  }
}

// On fewer processors than pieces of the prefix keep busy, so that some go through what is behind it meanwhile:
// tests/backend/cuda_prefix_test.cpp holds that they do.
TEST_P(AttentionTest, PrefixesOnFewProcessorsGiveEachSequenceItsOwnBits) {
  if (!on_gpu(GetParam())) GTEST_SKIP() << "elsewhere all processors share all";
  StagedBackend few(make_cuda_backend(0, Activations::kAsWeights, 5));
  std::vector<Span> spans(12, Span{8 * 256, 1});
  std::vector<size_t> sharers(spans.size() - 1);
  std::iota(sharers.begin(), sharers.end(), 1);
  for (size_t i = 0; i < spans.size(); ++i) spans[i].start += static_cast<Position>(i * i * 9);
  for (const int dim : {64, 128}) {
    const Case c{24, 8, dim, dim, both(KvFormat::kBF16), 16, {}, 128};
    Scene scene(few, c, spans, 8 * 256, sharers);
    expect_each_as_alone(scene, spans, shape_name(c));
    EXPECT_EQ(scene.attend(), Scene(*tested_, c, spans, 8 * 256, sharers).attend()) << shape_name(c);
  }
}

// Prefixes of formats with scales, which a GPU widens for all that share them: more of these must, the fewer bits.
TEST_P(AttentionTest, LongPrefixesOfFormatsWithScalesGiveEachSequenceItsOwnBits) {
  if (!on_gpu(GetParam())) GTEST_SKIP() << "smaller ones do elsewhere";
  struct Shape {
    KvFormat format;
    int dim;
    size_t sequences;
  };
  for (const auto& [format, dim, count] :
       {Shape{KvFormat::kE4M3, 128, 28}, Shape{KvFormat::kInt8, 64, 36}, Shape{KvFormat::kInt4, 128, 52}}) {
    std::vector<Span> spans(count, Span{9 * 256, 1});
    for (size_t i = 0; i < count; ++i) spans[i].start += static_cast<Position>(i * 7);
    spans[3] = {9 * 256, 3};
    std::vector<size_t> sharers(count - 2);
    std::iota(sharers.begin(), sharers.end(), 1);
    const Case c{24, 8, dim, dim, both(format), 16, {}, 128};
    Scene scene(*tested_, c, spans, 9 * 256, sharers);
    expect_each_as_alone(scene, spans, shape_name(c));
  }
}

// Prefixes that end with a span of splits, inside one, and one split behind it, in contexts of more than two spans. A
// GPU goes through some of them split by split; where there are enough rows, as in the second shape, span by span.
TEST_P(AttentionTest, PrefixesOfSeveralSpansGiveEachSequenceItsOwnBits) {
  if (!on_gpu(GetParam())) GTEST_SKIP() << "elsewhere a row's splits are folded as ever";
  for (const int splits : {15, 16, 17}) {
    std::vector<Span> spans(16, Span{splits * 256, 2});
    for (size_t i = 0; i < spans.size(); ++i) spans[i].start += static_cast<Position>(i * i * 4);
    std::vector<size_t> sharers(spans.size() - 1);
    std::iota(sharers.begin(), sharers.end(), 1);
    const KvFormat format = splits == 16 ? KvFormat::kF16 : KvFormat::kBF16;
    for (const Case& c : std::vector<Case>{{8, 2, 128, 128, both(format), 16, {}, 128},
                                           {256, 2, 128, 128, both(format), 16, {}, 128},
                                           {512, 4, 64, 64, both(format), 16, {}, 128}}) {
      Scene scene(*tested_, c, spans, splits * 256, sharers);
      expect_each_as_alone(scene, spans, shape_name(c) + ", " + std::to_string(splits) + " splits");
    }
  }
}

TEST(AttentionPlanTest, SequencesWithTheSameBlocksReadASplitTogether) {
  const KvGroup group{{0}, {2, 16, 16}, KvFormat::kF16, KvFormat::kF16, {}};
  AttentionBatch batch;
  batch.heads = 8;  // four a KV head: eight sequences of one row are a unit
  batch.view.layout = make_layout(group, 16);
  std::vector<std::vector<BlockId>> tables(20);
  std::vector<SequenceView> sequences;
  for (size_t s = 0; s < tables.size(); ++s) {
    for (int b = 0; b < 40; ++b) tables[s].push_back(s < 17 && b < 32 ? b : static_cast<BlockId>(1000 * s) + b);
    sequences.push_back({tables[s].data(), 600, static_cast<int>(s), 1});
  }
  batch.sequences = sequences;
  cpu::AttentionPlan plan;
  plan.build(batch);
  EXPECT_EQ(plan.spread_tiles().size(), 17U);
  EXPECT_EQ(plan.splits(), (std::vector<std::int64_t>{0, 1, 2}));
  std::vector<std::vector<int>> sizes(3);
  for (const cpu::SplitUnit& unit : plan.units()) sizes[static_cast<size_t>(unit.split)].push_back(unit.count);
  for (auto& counts : sizes) std::ranges::sort(counts, std::greater<>());
  EXPECT_EQ(sizes[0], (std::vector<int>{8, 8, 1, 1, 1, 1}));  // 17 that share, three that do not
  EXPECT_EQ(sizes[1], sizes[0]);
  EXPECT_EQ(sizes[2], std::vector<int>(20, 1));  // the split that is still being written
  EXPECT_EQ(plan.order().size(), 60U);
}

// Before its end a split holds tokens that some of them must not see, and blocks that not all of them have.
TEST(AttentionPlanTest, ASplitIsSharedOnlyByThoseWhollyBehindIt) {
  const KvGroup group{{0}, {2, 16, 16}, KvFormat::kF16, KvFormat::kF16, {}};
  AttentionBatch batch;
  batch.heads = 8;
  batch.view.layout = make_layout(group, 16);
  std::vector<BlockId> table(32);
  std::iota(table.begin(), table.end(), 0);
  for (const Position start : {200, 255, 256, 300}) {
    const std::vector<SequenceView> sequences{{table.data(), start, 0, 1}, {table.data(), start, 1, 1}};
    batch.sequences = sequences;
    cpu::AttentionPlan plan;
    plan.build(batch);
    EXPECT_EQ(plan.units().front().count, start < 256 ? 1 : 2) << start;
    EXPECT_EQ(plan.spread_tiles().size(), start < 256 ? 0U : 2U) << start;
  }
}

// Backends have kernels for prompts, for single rows, and for blocks and heads of usual sizes: all give the same
// bits.
TEST_P(AttentionTest, EveryKernelHasTheSameBits) {
  const std::vector<Span> spans{{0, 150}, {700, 1}, {40, 9}, {250, 70}, {511, 3}, {600, 40}};
  const bool scalar = !on_gpu(GetParam()) && GetParam().isa == Isa::kScalar;  // the others' source, many times slower
  for (const KvFormat format : formats_with_kernels(GetParam())) {
    for (const int dim : scalar ? std::vector{64} : std::vector{64, 128}) {
      for (const Retention& retention : std::vector<Retention>{{}, {70, 5}}) {
        Case c{8, 2, dim, dim, both(format), 16, retention, 128};
        Scene usual(*tested_, c, spans);
        const std::vector<float> bits = usual.attend();
        for (const int rows : scalar ? std::vector{5} : std::vector{1, 5, 64}) {
          EXPECT_EQ(usual.attend_in_pieces(rows), bits) << format_name(format) << " " << dim << " by " << rows;
        }
        c.page_rest = 64;
        EXPECT_EQ(Scene(*tested_, c, spans).attend(), bits) << format_name(format) << " " << dim;
        c.block_tokens = 24;
        Scene unusual(*tested_, c, spans);
        EXPECT_EQ(unusual.attend(), bits) << format_name(format) << " " << dim;
        EXPECT_EQ(unusual.attend_in_pieces(5), bits) << format_name(format) << " " << dim << " by 5";
      }
    }
  }
}

// Where K and V are not in one format, and where numbers are left out: prompts and single rows.
TEST_P(AttentionTest, EveryKernelHasTheSameBitsOverMixedFormats) {
  const std::vector<Span> spans{{0, 150}, {700, 1}, {250, 70}, {600, 40}};
  std::vector<KvPolicy> mixes{both(KvFormat::kTop50), both(KvFormat::kTop25)};
  for (const auto& [k, v] : {std::pair{KvFormat::kInt8, KvFormat::kInt4},
                             {KvFormat::kE4M3, KvFormat::kInt8},
                             {KvFormat::kInt4, KvFormat::kE5M2},
                             {KvFormat::kF16, KvFormat::kInt4},
                             {KvFormat::kInt8, KvFormat::kBF16},
                             {KvFormat::kInt8, KvFormat::kF16},
                             {KvFormat::kBF16, KvFormat::kInt8},
                             {KvFormat::kF16, KvFormat::kBF16}}) {
    KvPolicy mix = both(k);
    mix.v_format = v;
    mixes.push_back(mix);
  }
  for (const KvPolicy& mix : mixes) {
    for (const Retention& retention : std::vector<Retention>{{}, {70, 5}}) {
      const Case c{8, 2, 64, 64, mix, 16, retention, 128};
      Scene scene(*tested_, c, spans);
      const std::vector<float> bits = scene.attend();
      const std::string what = shape_name(c) + ", V of " + std::string(format_name(mix.v_format));
      EXPECT_EQ(scene.attend_in_pieces(5), bits) << what;
      if (!on_gpu(GetParam())) continue;  // elsewhere EqualsRefOverFormatsGroupsAndHeads has seen them
      EXPECT_LT(relative_error(bits, Scene(*ref_, c, spans).attend()), tolerance(mix)) << what;
    }
  }
}

// A prompt behind so much, with so many heads, that a GPU has no room to widen all of it at once.
TEST_P(AttentionTest, APromptBehindMoreThanIsWidenedAtOnceHasTheBitsOfItsRows) {
  if (!on_gpu(GetParam())) GTEST_SKIP() << "nothing is widened elsewhere";
  const Case c{40, 40, 128, 128, both(KvFormat::kInt2), 16, {}, 128};
  Scene scene(*tested_, c, {{13500, 70}});
  EXPECT_EQ(scene.attend_in_pieces(7), scene.attend());
}

// The same in contexts of more than two spans of splits: prompts that cross from one into the next, rows in the
// third, and windows and sinks with spans between them that nobody sees.
TEST_P(AttentionTest, EveryKernelHasTheSameBitsInLongContexts) {
  if (!on_gpu(GetParam())) GTEST_SKIP() << "elsewhere a row's splits are folded as ever";
  const std::vector<Span> spans{{4200, 1}, {2030, 60}, {4090, 150}, {2047, 2}, {4351, 3}};
  for (const KvFormat format : formats_with_kernels(GetParam())) {
    for (const int dim : {64, 128}) {
      for (const Retention& retention : std::vector<Retention>{{}, {70, 5}, {1900, 600}}) {
        Case c{8, 2, dim, dim, both(format), 16, retention, 128};
        Scene usual(*tested_, c, spans);
        const std::vector<float> bits = usual.attend();
        const std::string what = shape_name(c) + ", window of " + std::to_string(retention.window);
        if (dim == 64 && (format == KvFormat::kF16 || format == KvFormat::kBF16)) {
          EXPECT_LT(relative_error(bits, Scene(*ref_, c, spans).attend()), tolerance(c.formats)) << what;
        }
        for (const int rows : {1, 64}) EXPECT_EQ(usual.attend_in_pieces(rows), bits) << what << " by " << rows;
        c.block_tokens = 24;
        EXPECT_EQ(Scene(*tested_, c, spans).attend(), bits) << what;
      }
    }
  }
}

// So many sequences that a GPU's thread blocks take whole spans of splits, one or two each, where alone a sequence's
// splits are spread over all of them: one to eight splits, whole spans, and rows in the third.
TEST_P(AttentionTest, ManySequencesHaveTheBitsOfEachAlone) {
  if (!on_gpu(GetParam())) GTEST_SKIP() << "elsewhere a row's splits are folded as ever";
  std::vector<Span> spans;
  for (int i = 0; i < 24; ++i) spans.push_back({i * 97, 1});
  spans[3] = {2047, 1};
  spans[8] = {2048, 2};
  spans[13] = {4200, 3};
  for (const KvFormat format : formats_with_kernels(GetParam())) {
    for (const int dim : {64, 128}) {
      const int kv_heads = dim == 64 ? 4 : 8;
      const Case c{3 * kv_heads, kv_heads, dim, dim, both(format), 16, {}, 128};
      Scene scene(*tested_, c, spans);
      expect_each_as_alone(scene, spans, shape_name(c));
    }
  }
}

// Single tokens of sequences that begin at `first`, `first` + `step`, …, in another order, over the same blocks in
// other orders; three tokens, in two tiles, of those in `with_three`.
struct ManyRows {
  size_t count;
  int kv_heads, dim;
  Position first, step;
  std::vector<size_t> with_three;
};
void expect_rows_as_alone(Backend& backend, const ManyRows& rows, KvFormat format) {
  std::vector<Span> spans(rows.count);
  for (size_t i = 0; i < rows.count; ++i) {
    spans[i] = {rows.first + static_cast<Position>(i * 16 % rows.count) * rows.step, 1};
  }
  for (const size_t i : rows.with_three) spans[i].rows = 3;
  std::ranges::swap(spans[0], *std::ranges::max_element(spans, {}, &Span::start));
  const Case c{3 * rows.kv_heads, rows.kv_heads, rows.dim, rows.dim, both(format), 16, {}, 128};
  Scene scene(backend, c, {spans[0]});
  for (size_t i = 1; i < rows.count; ++i) scene.add_rotated(spans[i], i * 5);
  expect_each_as_alone(scene, spans, shape_name(c));
}

// So many that a GPU of 132 processors gives each whole rows, of one to three spans: tests/backend/cuda_cut_test.cpp
// holds that it does.
TEST_P(AttentionTest, ManyWholeRowsHaveTheBitsOfEachAlone) {
  if (!on_gpu(GetParam())) GTEST_SKIP() << "elsewhere a row's splits are folded as ever";
  for (const KvFormat format : formats_with_kernels(GetParam())) {
    expect_rows_as_alone(*tested_, {33, 8, 128, 3099, 41, {}}, format);
    expect_rows_as_alone(*tested_, {31, 16, 64, 1029, 37, {4, 20}}, format);
  }
}

// Twenty rows for three processors, six each and two that are drawn: what a sanitizer has the time for.
// cuda_cut_test.cpp holds that they are whole.
TEST_P(AttentionTest, WholeRowsOnFewProcessorsHaveTheBitsOfEachAlone) {
  if (!on_gpu(GetParam())) GTEST_SKIP() << "elsewhere a row's splits are folded as ever";
  StagedBackend few(make_cuda_backend(0, Activations::kAsWeights, 3));
  for (const KvFormat format : formats_with_kernels(GetParam())) {
    expect_rows_as_alone(few, {5, 4, 128, 4139, 41, {}}, format);
    expect_rows_as_alone(few, {9, 2, 64, 4139, 37, {2}}, format);
  }
}

// So few that it has two processors share each: with one or two spans for each of them, and a last span that is not
// whole.
TEST_P(AttentionTest, RowsInPartsHaveTheBitsOfEachAlone) {
  if (!on_gpu(GetParam())) GTEST_SKIP() << "elsewhere a row's splits are folded as ever";
  for (const KvFormat format : {KvFormat::kF16, KvFormat::kBF16}) {
    expect_rows_as_alone(*tested_, {7, 8, 128, 7940, 30, {2}}, format);
    expect_rows_as_alone(*tested_, {4, 16, 64, 3850, 40, {}}, format);
    expect_rows_as_alone(*tested_, {8, 8, 128, 15900, 60, {}}, format);
  }
}

// As many heads to a KV head as no number of rows is a multiple of, more than a tile has rows, and one.
TEST_P(AttentionTest, EveryKernelHasTheSameBitsWithAnyNumberOfHeads) {
  const std::vector<Span> spans{{0, 100}, {250, 130}};
  for (const int heads : {1, 3, 12}) {
    Case c{2 * heads, 2, 64, 64, both(KvFormat::kBF16), 16, {}, 128};
    const std::vector<float> bits = Scene(*tested_, c, spans).attend();
    EXPECT_EQ(Scene(*tested_, c, spans).attend_in_pieces(7), bits) << heads;
    c.block_tokens = 24;
    EXPECT_EQ(Scene(*tested_, c, spans).attend(), bits) << heads;
  }
}

TEST_P(AttentionTest, AnInfiniteValueStaysWithTheRowsThatSeeIt) {
  // A value too large for f16 becomes infinite; rows before it must not become NaN for having shared its tile.
  constexpr int kHeads = 4;
  struct Shape {
    int dim, rows, infinite;
  };
  for (const auto [dim, rows, infinite] :
       {Shape{16, 16, 9}, Shape{64, 20, 10}, Shape{64, 150, 70}, Shape{128, 150, 127}, Shape{128, 300, 271}}) {
    const KvGroup group{{0}, {kHeads, dim, dim}, KvFormat::kF16, KvFormat::kF16, {}};
    KvStorage storage(*tested_, {20, make_layout(group, 16).block_bytes()}, 16);
    storage.set_group(0, group);
    std::vector<BlockId> blocks(20);
    std::iota(blocks.begin(), blocks.end(), 0);
    const std::vector<SequenceView> sequences{{blocks.data(), 0, 0, rows}};
    std::vector<SequenceView> in_threes;  // a tile of a GPU has rows that see the value and rows that do not
    for (int row = 0; row < rows; row += 3) {
      in_threes.push_back({blocks.data(), row, row, std::min(3, rows - row)});
    }
    const OwnedMatrix k(rows, kHeads * dim, 1);
    OwnedMatrix v(rows, kHeads * dim, 2);
    v.view.row(infinite)[3] = 1e9F;
    tested_->kv_write(k.view, v.view, storage.view(0, 0), sequences);
    const OwnedMatrix q(rows, kHeads * dim, 3);
    for (const auto& batch : {sequences, in_threes}) {
      OwnedMatrix out(rows, kHeads * dim);
      tested_->attention({q.view, storage.view(0, 0), batch, kHeads, 0.25F}, out.view);
      for (int row = 0; row < rows; ++row) {
        EXPECT_EQ(std::isfinite(out.view.row(row)[3]), row < infinite) << row;
        EXPECT_TRUE(std::isfinite(out.view.row(row)[4])) << row;
      }
    }
  }
}

}  // namespace
}  // namespace kvasir::testing
