#include "backend/profile_backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

namespace kvasir {
namespace {

double bytes_of(Matrix x) { return static_cast<double>(sizeof(float)) * x.rows * x.cols; }

// The keys and values that the batch's queries see, once for each sequence: what reading them without sharing costs.
double cached_bytes(const AttentionBatch& batch) {
  const KvLayout& layout = batch.view.layout;
  const double token_bytes = static_cast<double>(layout.layer_bytes()) / layout.block_tokens;
  double tokens = 0;
  for (const SequenceView& sequence : batch.sequences) {
    const Position end = sequence.start + sequence.rows;
    const Retention& kept = batch.view.retention;
    const Position begin = kept.window_begin(sequence.start);
    tokens += static_cast<double>(end - begin + std::min<Position>(kept.sinks, begin));
  }
  return tokens * token_bytes;
}

}  // namespace

template <class Call>
void ProfileBackend::timed(const std::string& name, double bytes, const Call& call) {
  const auto start = std::chrono::steady_clock::now();
  call();
  inner_.finish();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  auto op = std::ranges::find(ops_, name, &OpProfile::name);
  if (op == ops_.end()) op = ops_.insert(ops_.end(), OpProfile{name, 0, 0, 0});
  ++op->calls;
  op->seconds += seconds;
  op->bytes += bytes;
}

void ProfileBackend::forget() { ops_.clear(); }

void ProfileBackend::embed(const Weight& table, std::span<const TokenId> tokens, Matrix out) {
  timed("embed", bytes_of(out), [&] { inner_.embed(table, tokens, out); });
}

void ProfileBackend::rms_norm(Matrix x, const float* weight, float eps, Matrix out) {
  timed("rms_norm", bytes_of(x), [&] { inner_.rms_norm(x, weight, eps, out); });
}

void ProfileBackend::layer_norm(Matrix x, const float* weight, const float* bias, float eps, Matrix out) {
  timed("layer_norm", bytes_of(x), [&] { inner_.layer_norm(x, weight, bias, eps, out); });
}

void ProfileBackend::matmul(const Weight& weight, Matrix x, const float* bias, Matrix out) {
  timed(fmt::format("matmul {} x {}", weight.outputs(), weight.inputs()), static_cast<double>(weight.memory().size()),
        [&] { inner_.matmul(weight, x, bias, out); });
}

void ProfileBackend::rope(Matrix x, int heads, const RopeTable& table) {
  timed("rope", bytes_of(x), [&] { inner_.rope(x, heads, table); });
}

void ProfileBackend::project(Matrix x, int heads, const HeadMatrices& by, std::span<const SequenceView> sequences,
                             Matrix out) {
  timed("project", bytes_of(x), [&] { inner_.project(x, heads, by, sequences, out); });
}

void ProfileBackend::kv_write(Matrix k, Matrix v, const KvView& view, std::span<const SequenceView> sequences) {
  timed("kv_write", bytes_of(k) + bytes_of(v), [&] { inner_.kv_write(k, v, view, sequences); });
}

void ProfileBackend::attention(const AttentionBatch& batch, Matrix out) {
  timed("attention", cached_bytes(batch), [&] { inner_.attention(batch, out); });
}

void ProfileBackend::merge_attention(AttentionPart into, AttentionPart from,
                                     std::span<const SequenceView> sequences) {
  timed("merge attention", bytes_of(into.out) + bytes_of(from.out),
        [&] { inner_.merge_attention(into, from, sequences); });
}

void ProfileBackend::watch_attention(const AttentionBatch& batch, const AttentionWatch& watch) {
  AttentionBatch one = batch;
  one.sequences = batch.sequences.subspan(static_cast<size_t>(watch.sequence), 1);
  timed("watch attention", cached_bytes(one), [&] { inner_.watch_attention(batch, watch); });
}

void ProfileBackend::kv_move(const KvView& view, const BlockId* blocks, std::span<const RowMove> moves) {
  const double row = static_cast<double>(view.layout.head_bytes()) / view.layout.block_tokens;
  timed("kv_move", row * static_cast<double>(moves.size()), [&] { inner_.kv_move(view, blocks, moves); });
}

void ProfileBackend::swiglu(Matrix gate, Matrix up, Matrix out) {
  timed("swiglu", bytes_of(gate) + bytes_of(up), [&] { inner_.swiglu(gate, up, out); });
}

void ProfileBackend::add(Matrix x, Matrix y) {
  timed("add", bytes_of(x) + bytes_of(y), [&] { inner_.add(x, y); });
}

void ProfileBackend::add_rms_norm(Matrix x, Matrix y, const NormRule& norm, Matrix out) {
  timed("add and rms_norm", bytes_of(x) + bytes_of(y), [&] { inner_.add_rms_norm(x, y, norm, out); });
}

void ProfileBackend::gated_matmul(const Weight& weight, Matrix gate, Matrix up, const float* bias, Matrix out) {
  timed(fmt::format("gated matmul {} x {}", weight.outputs(), weight.inputs()),
        static_cast<double>(weight.memory().size()), [&] { inner_.gated_matmul(weight, gate, up, bias, out); });
}

void ProfileBackend::rope_kv_write(const UnturnedRows& rows, const KvView& view,
                                   std::span<const SequenceView> sequences) {
  timed("rope and kv_write", bytes_of(rows.q) + bytes_of(rows.k) + bytes_of(rows.v),
        [&] { inner_.rope_kv_write(rows, view, sequences); });
}

DrawTicket ProfileBackend::draw(Matrix logits, std::span<const DrawRule> rules) {
  DrawTicket ticket = kNoDraw;
  timed("draw", bytes_of(logits), [&] { ticket = inner_.draw(logits, rules); });
  return ticket;
}

}  // namespace kvasir
