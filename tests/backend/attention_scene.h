// A cache that holds noise, and attention to it by ragged batches: what the tests of attention have in common.
#pragma once

#include <algorithm>
#include <cmath>
#include <numeric>

#include "backend/backends.h"
#include "backend/kv_storage.h"
#include "layout/kv_policy.h"

namespace kvasir::testing {

struct Case {
  int heads, kv_heads, k_dim, v_dim;
  KvPolicy formats;
  int block_tokens;
  Retention retention;
  std::int64_t page_rest = 64;  // bytes behind the blocks of a page: the fastest kernels of GPUs want 128 or none
};

inline KvPolicy both(KvFormat format) { return uniform_policy(format); }

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
    std::rotate(table.begin(), table.begin() + static_cast<std::ptrdiff_t>(first % table.size()), table.end());
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
    backend_.run(AttentionOp{{q.view, storage_->view(0, 1), one, case_.heads, {scale}}, out.view});
    const float* first = out.view.row(all[sequence].first_row);
    return {first, first + static_cast<std::ptrdiff_t>(all[sequence].rows) * out.view.cols};
  }

  std::vector<float> attend() {
    const int rows =
        std::accumulate(spans_.begin(), spans_.end(), 0, [](int sum, const Span& s) { return sum + s.rows; });
    const OwnedMatrix q(rows, case_.heads * case_.k_dim, 77);
    OwnedMatrix out(rows, case_.heads * case_.v_dim);
    const float scale = 1.0F / std::sqrt(static_cast<float>(case_.k_dim));
    backend_.run(AttentionOp{{q.view, storage_->view(0, 1), views(true), case_.heads, {scale}}, out.view});
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
    backend_.run(AttentionOp{{q.view, storage_->view(0, 1), pieces, case_.heads, {scale}}, out.view});
    return out.values;
  }

  void move(size_t sequence, const std::vector<RowMove>& moves) {
    backend_.run(KvMoveOp{storage_->view(0, 1), tables_[sequence].data(), moves});
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
        backend_.run(WatchAttentionOp{{q.view, storage_->view(0, 1), {&part, 1}, case_.heads, {scale}}, watch});
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
    view.recent_override = recent;
    backend_.run(AttentionOp{{q.view, view, all, case_.heads, {scale}, rest_states.data()}, rest.view});
    for (const SequenceView& sequence : all) {  // too young to have anything but recent keys
      for (int row = 0; row < sequence.rows; ++row) {
        const bool nothing = sequence.start + row < recent.window;
        const size_t at = static_cast<size_t>((sequence.first_row + row) * case_.heads);
        EXPECT_TRUE(!nothing || (rest_states[at].empty() && rest.view.row(sequence.first_row + row)[0] == 0));
      }
    }
    view.recent_override = {};
    view.retention = recent;
    backend_.run(AttentionOp{{q.view, view, all, case_.heads, {scale}, fine_states.data()}, fine.view});
    backend_.run(MergeAttentionOp{
        {fine.view, fine_states.data(), case_.heads}, {rest.view, rest_states.data(), case_.heads}, all});
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
      backend_.run(KvWriteOp{k.view, v.view, storage_->view(0, 1), {&one, 1}});
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

// Of what only a GPU splits in ways of its own, or widens first: elsewhere a row's chunks merge as ever, and smaller
// scenes than these have shown that.
class AttentionOnGpuTest : public AttentionTest {};

// Those that have kernels of their own for blocks and heads of usual sizes.
inline std::vector<KvFormat> formats_with_kernels(const Form& form) {
  std::vector<KvFormat> out{KvFormat::kF16, KvFormat::kBF16, KvFormat::kInt8, KvFormat::kInt4, KvFormat::kInt2};
  if (on_gpu(form)) out.insert(out.end(), {KvFormat::kE4M3, KvFormat::kE5M2});
  return out;
}

inline std::string shape_name(const Case& c) {
  return std::string(format_name(c.formats.k_format)) + " " + std::to_string(c.heads) + " x " +
         std::to_string(c.k_dim);
}

// All sequences of the batch at once, and these alone, to the bit.
inline void expect_as_alone(Scene& scene, const std::vector<Span>& spans, const std::vector<size_t>& which,
                            const std::string& what) {
  const std::vector<float> together = scene.attend();
  const auto width =
      std::ssize(together) / std::accumulate(spans.begin(), spans.end(), std::ptrdiff_t{0},
                                             [](auto sum, const Span& span) { return sum + span.rows; });
  std::ptrdiff_t row = 0;
  for (size_t s = 0; s < spans.size(); row += spans[s++].rows) {
    if (std::ranges::find(which, s) == which.end()) continue;
    const auto at = together.begin() + row * width;
    EXPECT_EQ(std::vector(at, at + spans[s].rows * width), scene.attend_alone(s)) << what << ", sequence " << s;
  }
  EXPECT_EQ(scene.attend(), together) << what;
}

inline void expect_each_as_alone(Scene& scene, const std::vector<Span>& spans, const std::string& what) {
  std::vector<size_t> all(spans.size());
  std::iota(all.begin(), all.end(), size_t{0});
  expect_as_alone(scene, spans, all, what);
}

}  // namespace kvasir::testing
