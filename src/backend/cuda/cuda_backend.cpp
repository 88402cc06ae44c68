#include "backend/cuda/cuda_backend.h"

#include <cuda_runtime.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "backend/cuda/attention_kernels.h"
#include "backend/cuda/batch_graphs.h"
#include "backend/cuda/cache_rows.h"
#include "backend/cuda/cuda_attention.h"
#include "backend/cuda/cuda_check.h"
#include "backend/cuda/cuda_matmul.h"
#include "backend/cuda/cuda_stream.h"
#include "backend/cuda/device_sequences.h"
#include "backend/cuda/drawn_tokens.h"
#include "backend/cuda/host_copies.h"
#include "backend/cuda/pinned_memory.h"
#include "backend/cuda/repeatable_batch.h"
#include "backend/cuda/row_ops.h"
#include "backend/cuda/staging.h"
#include "base/check.h"
#include "base/error.h"

namespace kvasir {
namespace cuda {
namespace {

// Everything of a backend goes along one stream, in order, but for blocks that are saved on the host: only download()
// and take_drawn() wait for it.
class CudaBackend final : public Backend {
 public:
  CudaBackend(int device, Activations activations, int processors)
      : device_(device), activations_(activations), attention_(stream_, staging_, tables_, processors) {
    check(cudaGetDeviceProperties(&properties_, device), "looking at the device");
  }
  ~CudaBackend() override { cudaStreamSynchronize(stream_); }

  std::string description() const override {
    return fmt::format("cuda:{}, {}, {:.0f} GiB", device_, properties_.name,
                       static_cast<double>(properties_.totalGlobalMem) / (1024.0 * 1024.0 * 1024.0));
  }
  std::string kernel_version() const override { return fmt::format("cuda-4-{}", name_of(activations_)); }

  Buffer allocate(size_t bytes) override {
    void* at = nullptr;
    check(cudaMalloc(&at, std::max<size_t>(bytes, 1)), "allocating device memory");
    Buffer out(at, bytes, [](void* data, size_t) { cudaFree(data); });
    check(cudaMemsetAsync(at, 0, bytes, stream_), "clearing device memory");
    check(cudaStreamSynchronize(stream_), "clearing device memory");  // another stream may be the first to use it
    return out;
  }
  // Nobody else wants the rest of what weights left, but for the rows of larger batches, sums of attention and blocks
  // that are widened for it: up to 256 MB each.
  std::uint64_t room_for_cache() const override {
    size_t free = 0;
    size_t all = 0;
    check(cudaMemGetInfo(&free, &all), "asking for the device's memory");
    return free - std::max(free / 10, std::min(free / 4, size_t{1} << 30));
  }
  void upload(std::byte* to, std::span<const std::byte> from) override {
    if (from.size() > kSmall) {
      stop_recording();
      check(cudaMemcpyAsync(to, from.data(), from.size(), cudaMemcpyHostToDevice, stream_), "uploading");
      check(cudaStreamSynchronize(stream_), "uploading");
      return;
    }
    leave_batch_alone();
    const Staging::Room room = staging_.take(from.size());
    std::ranges::copy(from, room.host);
    if (recording_) {
      repeatable_.note_other();
      return perform(CopyOp{to, room.device, from.size()});
    }
    check(cudaMemcpyAsync(to, room.host, from.size(), cudaMemcpyHostToDevice, stream_), "uploading");
  }
  void download(std::span<std::byte> to, const std::byte* from) override {
    stop_recording();
    check(cudaMemcpyAsync(to.data(), from, to.size(), cudaMemcpyDeviceToHost, stream_), "downloading");
    check(cudaStreamSynchronize(stream_), "downloading");
  }
  void copy(std::byte* to, const std::byte* from, size_t bytes) override { perform(CopyOp{to, from, bytes}); }
  Buffer allocate_on_host(size_t bytes) override { return pinned_memory(bytes); }
  void save(std::span<const HostCopy> pieces) override {
    stop_recording();
    host_copies_.save(pieces);
  }
  void restore(std::span<const HostCopy> pieces) override {
    stop_recording();
    host_copies_.restore(pieces);
  }
  void finish() override {
    stop_recording();
    check(cudaStreamSynchronize(stream_), "waiting for the device");
  }

  void begin_batch(std::span<const std::vector<SequenceView>> groups, int block_tokens) override;
  BatchId end_batch() override;
  bool repeat_batch(BatchId batch, const BatchInputs& inputs) override;
  const std::int32_t* send_places(std::span<const std::int32_t> places) override {
    CHECK(tables_.in_batch());
    return repeatable_.note_places(staging_.send(places));
  }

  std::unique_ptr<Weight> load(std::span<const HostWeight> stacked) override { return matmul_.load(stacked); }

  void embed(const Weight& table, std::span<const TokenId> tokens, Matrix out) override {
    leave_batch_alone();
    CHECK(out.rows == std::ssize(tokens));
    perform(EmbedOp{&table, {repeatable_.note_tokens(staging_.send(tokens)), drawn_.on_device()}, out});
  }
  void rms_norm(Matrix x, const float* weight, float eps, Matrix out) override {
    perform(NormOp{x, {weight, eps}, out});
  }
  void layer_norm(Matrix x, const float* weight, const float* bias, float eps, Matrix out) override {
    stop_recording();
    cuda::layer_norm({x, weight, bias, eps, out}, stream_);
  }
  void matmul(const Weight& weight, Matrix x, const float* bias, Matrix out) override {
    perform(MatmulOp{&weight, x, bias, out});
  }
  void rope(Matrix x, int heads, const RopeTable& table) override { perform(RopeOp{x, heads, table}); }
  void project(Matrix x, int heads, const HeadMatrices& by, std::span<const SequenceView> sequences,
               Matrix out) override {
    stop_recording();
    leave_batch_alone();
    const DeviceSequences& on_device = tables_.find(sequences, 0);
    cuda::project({x, heads, by, on_device.at, on_device.rows, out}, stream_);
  }
  void kv_write(Matrix k, Matrix v, const KvView& view, std::span<const SequenceView> sequences) override {
    leave_batch_alone();
    perform(WriteOp{k, v, view, sequences});
  }
  void attention(const AttentionBatch& batch, Matrix out) override {
    leave_batch_alone();
    perform(AttentionOp{batch, out});
  }
  void merge_attention(AttentionPart into, AttentionPart from, std::span<const SequenceView> sequences) override {
    stop_recording();
    leave_batch_alone();
    const DeviceSequences& on_device = tables_.find(sequences, 0);
    merge_rows({into.out, from.out, into.states, from.states, into.heads, on_device.at}, on_device.rows, stream_);
  }
  void watch_attention(const AttentionBatch& batch, const AttentionWatch& watch) override {
    stop_recording();
    leave_batch_alone();
    attention_.watch(batch, watch);
  }
  void kv_move(const KvView& view, const BlockId* blocks, std::span<const RowMove> moves) override;
  void swiglu(Matrix gate, Matrix up, Matrix out) override { perform(SwigluOp{gate, up, out}); }
  void add(Matrix x, Matrix y) override { perform(AddOp{x, y}); }
  void add_rms_norm(Matrix x, Matrix y, const NormRule& norm, Matrix out) override {
    perform(AddNormOp{x, y, norm, out});
  }
  void gated_matmul(const Weight& weight, Matrix gate, Matrix up, const float* bias, Matrix out) override {
    perform(GatedOp{&weight, gate, up, bias, out});
  }
  void norm_matmul(const NormedRows& rows, const Weight& weight, const float* bias, Matrix out) override {
    perform(NormMatmulOp{rows, &weight, bias, out});
  }
  void feed_forward(const NormedRows& rows, const GatedLayer& layer, Matrix gate_up, Matrix out) override {
    perform(FeedForwardOp{rows, layer, gate_up, out});
  }
  void rope_kv_write(const UnturnedRows& rows, const KvView& view, std::span<const SequenceView> sequences) override {
    leave_batch_alone();
    perform(TurnWriteOp{rows, view, sequences});
  }
  DrawTicket draw(Matrix logits, std::span<const DrawRule> rules) override;
  DrawTicket last_draw() const override { return drawn_.last(); }
  void take_drawn(DrawTicket ticket, std::span<TokenId> tokens) override {
    run_ready();
    staging_.was_seen(drawn_.take(ticket, tokens));
  }

 private:
  static constexpr size_t kSmall = size_t{4} << 20;  // what goes through staging memory: nobody waits for it
  static constexpr int kMostRecorded = 256;          // rows: beyond, launching is little beside computing

  // Between batches nothing that was sent is needed again once it was used.
  void leave_batch_alone() {
    run_ready();
    if (!tables_.in_batch()) staging_.reset();
  }

  // Now, or at the end of the batch.
  template <class Op>
  void perform(const Op& op) {
    if (recording_) return key_.ops.add(op);
    run_ready();
    run(op);
  }
  void run(const EmbedOp& op) {
    matmul_.forget_rows();
    matmul_.embed(*op.table, op.tokens, op.out);
  }
  void run(const CopyOp& op) {
    matmul_.forget_rows();
    check(cudaMemcpyAsync(op.to, op.from, op.bytes, cudaMemcpyDeviceToDevice, stream_), "copying");
  }
  void run(const NormOp& op) {
    matmul_.forget_rows();
    cuda::rms_norm({op.x, op.rule.weight, nullptr, op.rule.eps, op.out}, stream_);
  }
  void run(const AddNormOp& op);
  void run(const MatmulOp& op) { matmul_.multiply(*op.weight, op.x, op.bias, op.out); }
  void run(const GatedOp& op) { matmul_.multiply_gated(*op.weight, op.gate, op.up, op.bias, op.out); }
  void run(const NormMatmulOp& op);
  void run(const FeedForwardOp& op);
  void run(const RopeOp& op) {
    matmul_.forget_rows();
    cuda::rope(op.x, op.heads, op.table, stream_);
  }
  void run(const WriteOp& op) { write_rows(new_rows(op.k, op.v, op.view, op.sequences), stream_); }
  void run(const TurnWriteOp& op) {
    matmul_.forget_rows();
    turn_and_write_rows(op.rows, new_rows(op.rows.k, op.rows.v, op.view, op.sequences), stream_);
  }
  void run(const AttentionOp& op) {
    matmul_.forget_rows();
    const bool fills = CudaAttention::fills_rows(op.batch, op.out);
    attention_.attend(op.batch, op.out, fills ? matmul_.room_for(op.out) : RowsRoom{});
  }
  void run(const SwigluOp& op) {
    matmul_.forget_rows();
    cuda::swiglu(op.gate, op.up, op.out, stream_);
  }
  void run(const AddOp& op) {
    matmul_.forget_rows();
    cuda::add(op.x, op.y, stream_);
  }
  void run(const DrawOp& op) { draw_rows(op.rows, stream_); }
  void norm_into(const NormedRows& rows, RowsRoom room);
  NewRows new_rows(Matrix k, Matrix v, const KvView& view, std::span<const SequenceView> sequences) {
    const DeviceSequences& on_device = tables_.find(sequences, view.layout.block_tokens);
    return {k, v, view, on_device.at, static_cast<int>(sequences.size()), on_device.rows};
  }

  void run_recorded() {
    for (const BatchOp& op : key_.ops.list()) std::visit([this](const auto& one) { run(one); }, op);
  }
  // A batch that was recorded to its end waits for its draw, which goes with it; or for whatever else comes.
  void run_ready() {
    if (std::exchange(ready_, false)) {
      run_batch();
      leave_batch();
    }
  }
  void leave_batch() {
    matmul_.forget_rows();  // what a graph leaves there is not what its capture did
    attention_.forget();
    tables_.end();
  }
  // An op came that is not recorded, or somebody waits: what was recorded runs now, and the rest as it comes.
  void stop_recording() {
    run_ready();
    if (recording_) {
      recording_ = false;
      key_.ops.end();
      staging_.release();
      run_recorded();
    }
    matmul_.forget_rows();
  }
  bool complete_key();
  void run_batch();
  DrawnRows drawn_rows(Matrix logits, std::span<const DrawRule> rules, TokenId* on_host);

  int device_;
  Activations activations_;
  cudaDeviceProp properties_{};
  Stream stream_;
  HostCopies host_copies_{stream_};
  Staging staging_{stream_};
  SequenceTables tables_{staging_};
  CudaAttention attention_;
  CudaMatmul matmul_{stream_, activations_};
  BatchGraphs graphs_{stream_};
  DrawnTokens drawn_{stream_};
  bool recording_ = false;
  bool ready_ = false;  // recorded to its end, and not on the stream
  BatchKey key_;        // of the batch that is recorded
  RepeatableBatch repeatable_;
};

// The norm as floats and, where a product of such rows is known, as that one takes them.
void CudaBackend::run(const AddNormOp& op) {
  matmul_.forget_rows();
  const NormRows rows{op.x, op.rule.weight, nullptr, op.rule.eps, op.out};
  if (fits_add_rms_norm(op.x.cols)) return cuda::add_rms_norm(op.y, rows, matmul_.room_for(op.out), stream_);
  cuda::add(op.x, op.y, stream_);
  cuda::rms_norm(rows, stream_);
}

// Their sum, and the norm of it for a product alone.
void CudaBackend::norm_into(const NormedRows& rows, RowsRoom room) {
  cuda::add_rms_norm(rows.y, {rows.x, rows.norm.weight, nullptr, rows.norm.eps, {nullptr, rows.x.rows, rows.x.cols}},
                     room, stream_);
}

void CudaBackend::run(const NormMatmulOp& op) {
  if (!fits_add_rms_norm(op.rows.x.cols) || !CudaMatmul::can_fill(*op.weight, op.out.rows)) {
    return Backend::norm_matmul(op.rows, *op.weight, op.bias, op.out);  // nothing is recorded while ops run
  }
  matmul_.multiply(
      *op.weight, [&](RowsRoom room) { norm_into(op.rows, room); }, op.bias, op.out);
}

void CudaBackend::run(const FeedForwardOp& op) {
  if (fits_add_rms_norm(op.rows.x.cols) && CudaMatmul::can_gate(op.layer, op.out.rows)) {
    const auto fill = [&](RowsRoom room) { norm_into(op.rows, room); };
    return matmul_.multiply_gated(op.layer, fill, op.gate_up, op.out);
  }
  Backend::feed_forward(op.rows, op.layer, op.gate_up, op.out);
}

// Batches of single tokens come again, step after step: they are recorded, to run at their end.
void CudaBackend::begin_batch(std::span<const std::vector<SequenceView>> groups, int block_tokens) {
  run_ready();
  leave_batch();
  staging_.reset();
  const int rows = rows_of_single_tokens(groups);
  recording_ = rows > 0 && rows <= kMostRecorded;
  key_.ops.begin();
  if (recording_) staging_.hold();
  tables_.begin(groups, block_tokens);
  repeatable_.begin(groups);
}

BatchId CudaBackend::end_batch() {
  ready_ = std::exchange(recording_, false);
  if (ready_) return repeatable_.end(key_.ops.count());
  leave_batch();
  return kNoBatch;
}

// Its ops are recorded still, and name places in staging memory: what they find there is sent anew.
bool CudaBackend::repeat_batch(BatchId batch, const BatchInputs& inputs) {
  if (!repeatable_.is(batch, inputs.groups)) return false;
  run_ready();
  leave_batch();
  staging_.reset();
  staging_.hold();
  tables_.begin(inputs.groups, inputs.block_tokens);
  const TokenId* tokens = staging_.send(inputs.tokens);
  if (!repeatable_.looks_at(tokens, staging_.send(inputs.places))) {  // tables have outgrown their room
    tables_.end();
    return false;
  }
  key_.ops.begin_again(repeatable_.ops());
  ready_ = true;
  return true;
}

// What the ops do not say of the kernels' parameters. False: one graph will not do.
bool CudaBackend::complete_key() {
  key_.shapes.clear();
  for (const AttentionBatch* batch : key_.ops.attention()) {
    const std::optional<AttentionShape> shape = attention_.shape(*batch);
    if (!shape) return false;
    key_.shapes.push_back(*shape);
  }
  key_.rows = matmul_.rows_at();
  return true;
}

void CudaBackend::run_batch() {
  recording_ = false;
  key_.ops.end();
  const bool complete = complete_key();
  staging_.release();
  if (!complete) return run_recorded();
  if (graphs_.launch(key_)) return;
  switch (graphs_.seen(key_)) {
    case BatchGraphs::Seen::kNever:
      run_recorded();
      complete_key();  // there may be more memory now
      return graphs_.remember(key_);
    case BatchGraphs::Seen::kOnce:
      if (graphs_.capture(key_, [this] { run_recorded(); })) {
        CHECK(graphs_.launch(key_));
        return;
      }
      break;
    case BatchGraphs::Seen::kHopeless:
      break;
  }
  run_recorded();
}

// Only the tokens come back.
DrawTicket CudaBackend::draw(Matrix logits, std::span<const DrawRule> rules) {
  CHECK(logits.rows == std::ssize(rules));
  const DrawnTokens::Draw draw = drawn_.add(rules.size());
  if (ready_) {
    key_.ops.add(DrawOp{drawn_rows(logits, rules, draw.on_host)});
    run_ready();
  } else {
    stop_recording();
    leave_batch_alone();
    run(DrawOp{drawn_rows(logits, rules, draw.on_host)});
  }
  if (!rules.empty()) drawn_.note(draw.ticket, staging_.will_be_seen());
  return draw.ticket;
}

// Rules, and where tokens go: both change from draw to draw, the places where kernels find them do not.
DrawnRows CudaBackend::drawn_rows(Matrix logits, std::span<const DrawRule> rules, TokenId* on_host) {
  const DrawRule* sent = staging_.send(rules);
  return {logits, sent, staging_.send(std::span<TokenId* const>(&on_host, 1)), drawn_.on_device()};
}

void CudaBackend::kv_move(const KvView& view, const BlockId* blocks, std::span<const RowMove> moves) {
  if (moves.empty()) return;
  stop_recording();
  leave_batch_alone();
  move_rows(send_moves(view, blocks, moves, staging_), stream_);
}

}  // namespace
}  // namespace cuda

std::vector<std::string> cuda_devices() {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) {  // no driver, or no device: both are fine
    cudaGetLastError();
    return {};
  }
  std::vector<std::string> out;
  for (int i = 0; i < count; ++i) {
    cudaDeviceProp properties{};
    if (cudaGetDeviceProperties(&properties, i) == cudaSuccess) out.emplace_back(properties.name);
  }
  return out;
}

std::unique_ptr<Backend> make_cuda_backend(int device, Activations activations, int processors) {
  cuda::check(cudaSetDevice(device), "choosing the device");
  return std::make_unique<cuda::CudaBackend>(device, activations, processors);
}

}  // namespace kvasir
