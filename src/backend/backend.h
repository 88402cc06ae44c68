// Memory and arithmetic of one kind of device. Models are written against this, once for all of them.
//
// The contract that every backend keeps, and tests/laws checks:
//   - a row's result depends on that row (and its sequence's cached rows) alone: not on the other rows of the batch,
//     on how a sequence was cut into chunks, on the block size, on where blocks lie, or on the number of threads;
//   - attention reads K and V in the cache's own format, the newest tokens included.
// Only kv_write, kv_move and attention know KV formats. Nothing here knows models, sequences' owners or policy.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/buffer.h"
#include "backend/tensor.h"
#include "base/bytes.h"
#include "base/draw.h"
#include "base/ids.h"
#include "layout/host_device.h"
#include "layout/kv_view.h"
#include "layout/softmax_state.h"
#include "layout/token_eviction.h"

namespace kvasir {

// A matrix of weights in the form its backend reads fastest: [outputs][inputs], y = W x.
class Weight {
 public:
  Weight(int outputs, int inputs) : outputs_(outputs), inputs_(inputs) {}
  virtual ~Weight() = default;
  int outputs() const { return outputs_; }
  int inputs() const { return inputs_; }
  virtual std::span<const std::byte> memory() const = 0;  // where it lies: to measure how fast it can be read at best

 private:
  int outputs_;
  int inputs_;
};

// cos and sin of angles: [places][pairs] each. Element i of a head pairs with element i + pairs.
struct RopeTable {
  const float* cos = nullptr;
  const float* sin = nullptr;
  int pairs = 0;                         // half the head's dimension
  const std::int32_t* places = nullptr;  // [rows of the batch], in the backend's memory; null: row r's is place r

  // Of a row's cosines, and of its sines.
  KVASIR_HD std::int64_t first(int row) const {
    return static_cast<std::int64_t>(places != nullptr ? places[row] : row) * pairs;
  }
};

// Inputs of one attention call. Row r of q holds its heads one after the other: [heads][k_dim].
// Query head h reads KV head h / (heads / view.layout.shape.heads).
struct AttentionBatch {
  Matrix q;
  KvView view;
  std::span<const SequenceView> sequences;
  int heads = 0;
  float scale = 1.0F;
  SoftmaxState* states = nullptr;  // [rows][heads], where wanted: what each row's output is a mean of
};

// The outputs of attention over some keys, and what they are means of: [rows][heads * v_dim] and [rows][heads].
struct AttentionPart {
  Matrix out;
  SoftmaxState* states = nullptr;
  int heads = 0;
};

// Queries whose attention is watched, for whoever evicts rows: what each cached row gets of it is noted.
struct AttentionWatch {
  enum class Note : std::uint8_t {
    kShares,     // the row's softmax weights, of all query heads of its KV head, are added up, query after query
    kLastQuery,  // the position of the last query that gave the row more than an equal share, or that it is of
  };
  int sequence = 0;       // of the batch's
  int first = 0;          // row of the sequence, as all behind it
  Position position = 0;  // of the token in row `first`
  Note note = Note::kShares;
  float* scores = nullptr;  // [KV heads][stride], a number a cached row; those of new rows are 0 before
  std::int64_t stride = 0;
};

inline constexpr int kHeadMatrixLanes = 16;

// A matrix for each KV head, x becomes x M: of [inputs][stride] numbers the first `outputs` of each row.
struct HeadMatrices {
  const float* at = nullptr;
  int heads = 0;  // KV heads; query head h has the matrix of h / (query heads / heads)
  int inputs = 0;
  int outputs = 0;
  int stride = 0;                // a multiple of kHeadMatrixLanes, zeros behind the last column
  std::int64_t head_stride = 0;  // between the matrices of two heads
};

// A piece of the device's memory, and where it lies on the host meanwhile: in memory of allocate_on_host().
struct HostCopy {
  std::byte* host = nullptr;
  std::byte* device = nullptr;
  size_t bytes = 0;
};

// What a batch is given anew when it comes again with the same ops: its sequences, at the same addresses and as many
// as before in each group, and as many rows.
struct BatchInputs {
  std::span<const std::vector<SequenceView>> groups;
  int block_tokens = 0;
  std::span<const TokenId> tokens;       // of embed()
  std::span<const std::int32_t> places;  // of send_places()
};
using BatchId = std::uint64_t;  // of one backend
inline constexpr BatchId kNoBatch = 0;

using DrawTicket = std::uint64_t;  // of one backend, ascending
inline constexpr DrawTicket kNoDraw = 0;

struct NormRule {
  const float* weight = nullptr;
  float eps = 0;
};

// x += y; normed = norm(x)
struct NormedRows {
  Matrix x;
  Matrix y;
  NormRule norm;
  Matrix normed;
};

struct GatedLayer {
  const Weight* gate_up = nullptr;      // [2 ffn][inputs]: gates, then as many ups
  const float* gate_up_bias = nullptr;  // or none
  const Weight* down = nullptr;         // [outputs][ffn]
  const float* down_bias = nullptr;     // or none
};

struct UnturnedRows {
  Matrix q;  // [rows][heads * k_dim]
  Matrix k;  // [rows][kv_heads * k_dim]
  Matrix v;  // [rows][kv_heads * v_dim]
  int heads = 0;
  int kv_heads = 0;
  RopeTable table;
};

class Backend {
 public:
  virtual ~Backend() = default;

  virtual std::string description() const = 0;  // "cpu, avx512, 2 threads"
  // Names the arithmetic: two backends with one version give the same bits. Part of every block's name.
  virtual std::string kernel_version() const = 0;

  // Memory. allocate() gives zeros, aligned to 64 bytes at least.
  virtual Buffer allocate(size_t bytes) = 0;
  // The most that a cache should take when nobody says how much.
  virtual std::uint64_t room_for_cache() const { return physical_memory() / 2; }
  virtual void upload(std::byte* to, std::span<const std::byte> from) = 0;
  virtual void download(std::span<std::byte> to, const std::byte* from) = 0;
  virtual void copy(std::byte* to, const std::byte* from, size_t bytes) = 0;
  // Host memory that the device reaches without help.
  virtual Buffer allocate_on_host(size_t bytes) { return allocate_host(bytes); }
  // From the device, and back to it: in order with all ops, but nobody waits for them. What lies on the host is for
  // the device alone until finish().
  virtual void save(std::span<const HostCopy> pieces) {
    for (const HostCopy& piece : pieces) download({piece.host, piece.bytes}, piece.device);
  }
  virtual void restore(std::span<const HostCopy> pieces) {
    for (const HostCopy& piece : pieces) upload(piece.device, {piece.host, piece.bytes});
  }
  // Until every op so far is done: for who measures them. download() waits by itself.
  virtual void finish() {}

  // The weights one below the other, as one matrix. All have the same inputs and type.
  virtual std::unique_ptr<Weight> load(std::span<const HostWeight> stacked) = 0;

  // Around the ops of one batch: the sequences that they will be given, by cache group. A backend with a memory of
  // its own sends their tables there once for all layers. Ops outside of a batch take any sequences.
  virtual void begin_batch(std::span<const std::vector<SequenceView>> /*groups*/, int /*block_tokens*/) {}
  // By what repeat_batch() knows the batch; kNoBatch where it cannot be repeated. Ops that wait until here may wait
  // for one more call, as draw(), to go with it: the sequences stay as they are until then.
  virtual BatchId end_batch() { return kNoBatch; }
  // All of that batch again, from begin_batch() to end_batch(), with other inputs. False, and nothing done, if
  // another one was between, or something else prevents it: then its ops must be given as the first time. REQUIRES:
  // one embed() of all tokens and one send_places() are all that its ops were given but what is the same.
  virtual bool repeat_batch(BatchId /*batch*/, const BatchInputs& /*inputs*/) { return false; }
  // The places of the batch's rows in a RopeTable, where ops find them until end_batch(); the caller's stay as they
  // are until then. REQUIRES: the batch has begun.
  virtual const std::int32_t* send_places(std::span<const std::int32_t> places) { return places.data(); }

  // Ops. x and out may be the same matrix where the shapes agree, except in matmul, project and attention.
  virtual void embed(const Weight& table, std::span<const TokenId> tokens, Matrix out) = 0;  // or drawn_token()s
  virtual void rms_norm(Matrix x, const float* weight, float eps, Matrix out) = 0;
  virtual void layer_norm(Matrix x, const float* weight, const float* bias, float eps, Matrix out) = 0;
  virtual void matmul(const Weight& weight, Matrix x, const float* bias, Matrix out) = 0;  // bias may be null
  virtual void rope(Matrix x, int heads, const RopeTable& table) = 0;                      // in place
  // Of the sequences' rows: [rows][heads * inputs] becomes [rows][heads * outputs], each head by its matrix.
  virtual void project(Matrix x, int heads, const HeadMatrices& by, std::span<const SequenceView> sequences,
                       Matrix out) = 0;
  virtual void kv_write(Matrix k, Matrix v, const KvView& view, std::span<const SequenceView> sequences) = 0;
  // out: [rows][heads * v_dim]. A row that sees nothing gets zeros and, where wanted, an empty state.
  virtual void attention(const AttentionBatch& batch, Matrix out) = 0;
  // The sequences' rows of `into` become attention over the keys of both, which have none in common.
  virtual void merge_attention(AttentionPart into, AttentionPart from, std::span<const SequenceView> sequences) = 0;
  // After the batch's attention. Each score is a sum in the order of the queries, so chunks change nothing.
  virtual void watch_attention(const AttentionBatch& batch, const AttentionWatch& watch) = 0;
  // Rows of one layer of one sequence change their places, one move after the other; their codes stay as they are.
  virtual void kv_move(const KvView& view, const BlockId* blocks, std::span<const RowMove> moves) = 0;
  virtual void swiglu(Matrix gate, Matrix up, Matrix out) = 0;  // silu(gate) * up
  virtual void add(Matrix x, Matrix y) = 0;                     // x += y

  // Several ops as one, where that saves something: with the same bits.
  virtual void add_rms_norm(Matrix x, Matrix y, const NormRule& norm, Matrix out) {  // x += y; out = norm(x)
    add(x, y);
    rms_norm(x, norm.weight, norm.eps, out);
  }

  // out = weight * (silu(gate) * up); gate holds anything afterwards. Gates and ups may be rounded first to what rows
  // are rounded to that meet the weight, and silu need be no better than that.
  virtual void gated_matmul(const Weight& weight, Matrix gate, Matrix up, const float* bias, Matrix out) {
    swiglu(gate, up, gate);
    matmul(weight, gate, bias, out);
  }
  // out = weight * norm(x + y); rows.normed holds anything afterwards.
  virtual void norm_matmul(const NormedRows& rows, const Weight& weight, const float* bias, Matrix out) {
    add_rms_norm(rows.x, rows.y, rows.norm, rows.normed);
    matmul(weight, rows.normed, bias, out);
  }
  // The same and a gated_matmul() behind it; gate_up, [rows][2 ffn], holds anything afterwards, too.
  virtual void feed_forward(const NormedRows& rows, const GatedLayer& layer, Matrix gate_up, Matrix out) {
    norm_matmul(rows, *layer.gate_up, layer.gate_up_bias, gate_up);
    const int ffn = layer.down->inputs();
    gated_matmul(*layer.down, gate_up.columns(0, ffn), gate_up.columns(ffn, ffn), layer.down_bias, out);
  }
  // q and k are turned in place, and k and v written. REQUIRES: every row is one of the sequences'.
  virtual void rope_kv_write(const UnturnedRows& rows, const KvView& view, std::span<const SequenceView> sequences) {
    rope(rows.q, rows.heads, rows.table);
    rope(rows.k, rows.kv_heads, rows.table);
    kv_write(rows.k, rows.v, view, sequences);
  }

  // Tokens without their logits leaving the backend: one of each row, as sample/sampler.h draws it with these
  // parameters. Nobody waits for them but take_drawn(), and embed() knows those of the last draw as drawn_token(row)
  // even before. Every draw is taken once. kNoDraw, and nothing done: the host must do it.
  virtual DrawTicket draw(Matrix /*logits*/, std::span<const DrawRule> /*rules*/) { return kNoDraw; }
  virtual DrawTicket last_draw() const { return kNoDraw; }
  // The tokens of a draw, one for each of its rows; -1 where the logits are no numbers.
  virtual void take_drawn(DrawTicket /*ticket*/, std::span<TokenId> /*tokens*/) {}
};

}  // namespace kvasir
