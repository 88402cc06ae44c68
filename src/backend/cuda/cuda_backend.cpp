#include "backend/cuda/cuda_backend.h"

#include <cuda_runtime.h>
#include <fmt/format.h>

#include <algorithm>
#include <type_traits>
#include <utility>

#include "backend/cuda/attention/cuda_attention.h"
#include "backend/cuda/experts/cuda_experts.h"
#include "backend/cuda/gemm/cuda_matmul.h"
#include "backend/cuda/graph/graph_cache.h"
#include "backend/cuda/graph/replayable_batch.h"
#include "backend/cuda/op_launcher.h"
#include "backend/cuda/runtime/cuda_check.h"
#include "backend/cuda/runtime/cuda_stream.h"
#include "backend/cuda/runtime/device_sequences.h"
#include "backend/cuda/runtime/host_copies.h"
#include "backend/cuda/runtime/pinned_memory.h"
#include "backend/cuda/runtime/staging.h"
#include "backend/cuda/sample/sampled_tokens.h"
#include "base/check.h"
#include "base/error.h"

namespace kvasir {
namespace cuda {
namespace {

// All work goes along one stream, in order, except for blocks that are saved on the host. Only download() and
// take_sampled() wait for it.
class CudaBackend final : public Backend {
 public:
  CudaBackend(int device, ActivationPrecision activations, int sm_count)
      : device_(device), activations_(activations), attention_(stream_, staging_, tables_, sm_count) {
    check(cudaGetDeviceProperties(&properties_, device), "looking at the device");
  }
  ~CudaBackend() override { cudaStreamSynchronize(stream_); }

  std::string description() const override {
    return fmt::format("cuda:{}, {}, {:.0f} GiB", device_, properties_.name,
                       static_cast<double>(properties_.totalGlobalMem) / (1024.0 * 1024.0 * 1024.0));
  }
  std::string kernel_version() const override { return fmt::format("cuda-5-{}", name_of(activations_)); }

  BackendLimits limits() const override { return {.head_dim = kMostHeadDim, .states = BackendLimits::States::kF32}; }

  Buffer allocate(size_t bytes) override {
    void* at = nullptr;
    check(cudaMalloc(&at, std::max<size_t>(bytes, 1)), "allocating device memory");
    Buffer out(at, bytes, [](void* data, size_t) { cudaFree(data); });
    check(cudaMemsetAsync(at, 0, bytes, stream_), "clearing device memory");
    check(cudaStreamSynchronize(stream_), "clearing device memory");  // another stream may use it first
    return out;
  }
  // The memory that weights left, less workspaces: GEMM inputs of larger batches, partials of attention and
  // dequantized blocks, up to 256 MB each.
  std::uint64_t default_cache_bytes() const override {
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
    const Staging::Region region = staging_.take(from.size());
    std::ranges::copy(from, region.host);
    if (recording_) {
      replayable_.note_other();
      return perform(CopyOp{to, region.device, from.size()});
    }
    check(cudaMemcpyAsync(to, region.host, from.size(), cudaMemcpyHostToDevice, stream_), "uploading");
  }
  void download(std::span<std::byte> to, const std::byte* from) override {
    stop_recording();
    check(cudaMemcpyAsync(to.data(), from, to.size(), cudaMemcpyDeviceToHost, stream_), "downloading");
    check(cudaStreamSynchronize(stream_), "downloading");
  }
  Buffer allocate_on_host(size_t bytes) override { return pinned_memory(bytes); }
  void save(std::span<const HostCopy> copies) override {
    stop_recording();
    host_copies_.save(copies);
  }
  void restore(std::span<const HostCopy> copies) override {
    stop_recording();
    host_copies_.restore(copies);
  }
  void finish() override {
    stop_recording();
    check(cudaStreamSynchronize(stream_), "waiting for the device");
  }

  void begin_batch(std::span<const std::vector<SequenceView>> groups, int block_tokens) override;
  BatchId end_batch() override;
  bool replay_batch(BatchId batch, const BatchInputs& inputs) override;
  const std::int32_t* upload_rope_rows(std::span<const std::int32_t> rope_rows) override {
    CHECK(tables_.in_batch());
    return replayable_.note_rope_rows(staging_.send(rope_rows));
  }

  std::unique_ptr<Weight> load(std::span<const HostWeight> stacked) override { return matmul_.load(stacked); }

  void run(const Op& op) override {
    std::visit([this](const auto& one) { take(one); }, op);
  }
  SampleTicket sample(Matrix logits, std::span<const SampleRule> rules) override;
  SampleTicket last_sample() const override { return sampled_.last(); }
  void take_sampled(SampleTicket ticket, std::span<TokenId> tokens) override {
    run_ready();
    staging_.was_seen(sampled_.take(ticket, tokens));
  }

 private:
  static constexpr size_t kSmall = size_t{4} << 20;  // uploads up to here go through staging memory, without waiting
  static constexpr int kMostRecorded = 256;          // rows: beyond, launching takes little time beside computing

  // Between batches the uploads of earlier ops are not needed any more.
  void leave_batch_alone() {
    run_ready();
    if (!tables_.in_batch()) staging_.reset();
  }

  template <class T>
  static constexpr bool kNeverRecorded = std::is_same_v<T, MergeAttentionOp> || std::is_same_v<T, WatchAttentionOp>;

  // Uploads what the op needs, then launches or records it.
  template <class T>
  void take(const T& op) {
    if constexpr (kNeverRecorded<T>) {
      launch_now(op);
    } else {
      perform(op);
    }
  }
  void take(const EmbedOp& op) {
    leave_batch_alone();
    CHECK(op.out.rows == std::ssize(op.tokens));
    perform(EmbedRowsOp{
        op.table, {replayable_.note_tokens(staging_.send(std::span(op.tokens))), sampled_.on_device()}, op.out});
  }
  void take(const KvWriteOp& op) {
    leave_batch_alone();
    perform(op);
  }
  void take(const RopeKvWriteOp& op) {
    leave_batch_alone();
    perform(op);
  }
  void take(const AttentionOp& op) {
    leave_batch_alone();
    perform(op);
  }
  void take(const CausalConvOp& op) {
    leave_batch_alone();
    perform(op);
  }
  void take(const RecurrenceOp& op) {
    leave_batch_alone();
    perform(op);
  }
  // See limits(): no policy asks for them.
  void take(const StateRoundOp&) { CHECK(false); }
  void take(const StateEncodeOp&) { CHECK(false); }
  void take(const StateDecodeOp&) { CHECK(false); }
  // Rows of neighbouring sequences lie one after the other, and are projected together. Sequences of the batch's
  // groups may have other rows when it comes again, and what is recorded is of these rows.
  void take(const ProjectOp& op) {
    if (tables_.knows(op.sequences)) stop_recording();
    const auto rows_of = [](const Matrix& m, int first, int rows) {
      return Matrix{m.row(first), rows, m.cols, m.stride};
    };
    for (size_t i = 0; i < op.sequences.size();) {
      const int first = op.sequences[i].first_row;
      int end = first;
      while (i < op.sequences.size() && op.sequences[i].first_row == end) end += op.sequences[i++].rows;
      perform(ProjectedRows{rows_of(op.x, first, end - first), op.heads, op.by, rows_of(op.out, first, end - first)});
    }
  }
  void take(const KvMoveOp& op) {
    if (!op.moves.empty()) launch_now(op);
  }

  template <class T>
  void launch_now(const T& op) {
    stop_recording();
    leave_batch_alone();
    launcher_.launch(op);
  }
  // Launches it now, or at the end of the batch.
  template <class T>
  void perform(const T& op) {
    if (recording_) return key_.ops.add(op);
    run_ready();
    launcher_.launch(op);
  }

  void run_recorded() {
    for (const BatchOp& op : key_.ops.list()) launcher_.launch(op);
  }
  // A recorded batch waits for its sampling, which joins it, or for any other call.
  void run_ready() {
    if (std::exchange(ready_, false)) {
      run_batch();
      leave_batch();
    }
  }
  void leave_batch() {
    matmul_.forget_rows();  // a graph leaves other rows there than its capture did
    attention_.forget();
    tables_.end();
  }
  // Runs the recorded ops now and later ones at once: an op came that is not recorded, or the caller waits.
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
  SampleArgs sample_args(Matrix logits, std::span<const SampleRule> rules, TokenId* on_host);

  int device_;
  ActivationPrecision activations_;
  cudaDeviceProp properties_{};
  Stream stream_;
  HostCopies host_copies_{stream_};
  Staging staging_{stream_};
  SequenceTables tables_{staging_};
  CudaAttention attention_;
  CudaMatmul matmul_{stream_, activations_};
  CudaExperts experts_{stream_};
  OpLauncher launcher_{*this, stream_, staging_, tables_, attention_, matmul_, experts_};
  GraphCache graphs_{stream_};
  SampledTokens sampled_{stream_};
  bool recording_ = false;
  bool ready_ = false;  // recorded, and not on the stream yet
  GraphKey key_;        // of the recorded batch
  ReplayableBatch replayable_;
};

// Batches of single tokens recur with every decode step: they are recorded, and run at their end.
void CudaBackend::begin_batch(std::span<const std::vector<SequenceView>> groups, int block_tokens) {
  run_ready();
  leave_batch();
  staging_.reset();
  const int rows = rows_of_single_tokens(groups);
  recording_ = rows > 0 && rows <= kMostRecorded;
  key_.ops.begin();
  if (recording_) staging_.hold();
  tables_.begin(groups, block_tokens);
  replayable_.begin(groups);
}

BatchId CudaBackend::end_batch() {
  ready_ = std::exchange(recording_, false);
  if (ready_) return replayable_.end(key_.ops.count());
  leave_batch();
  return kNoBatch;
}

// Its ops are still recorded, and refer to staging memory: new data is uploaded to the same addresses.
bool CudaBackend::replay_batch(BatchId batch, const BatchInputs& inputs) {
  if (!replayable_.is(batch, inputs.groups)) return false;
  run_ready();
  leave_batch();
  staging_.reset();
  staging_.hold();
  tables_.begin(inputs.groups, inputs.block_tokens);
  const TokenId* tokens = staging_.send(inputs.tokens);
  if (!replayable_.looks_at(tokens, staging_.send(inputs.rope_rows))) {  // tables have outgrown their regions
    tables_.end();
    return false;
  }
  key_.ops.begin_again(replayable_.ops());
  ready_ = true;
  return true;
}

// Adds the kernels' parameters that the ops do not say. False: it cannot be a graph.
bool CudaBackend::complete_key() {
  key_.shapes.clear();
  for (const AttentionBatch* batch : key_.ops.attention()) {
    const std::optional<AttentionShape> shape = attention_.shape(*batch);
    if (!shape) return false;
    key_.shapes.push_back(*shape);
  }
  const auto [rows, swiglu_rows] = matmul_.rows_at();
  key_.workspaces = {rows, swiglu_rows, experts_.workspace()};
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
    case GraphCache::Seen::kNever:
      run_recorded();
      complete_key();  // workspaces may have grown
      return graphs_.remember(key_);
    case GraphCache::Seen::kOnce:
      if (graphs_.capture(key_, [this] { run_recorded(); })) {
        CHECK(graphs_.launch(key_));
        return;
      }
      break;
    case GraphCache::Seen::kHopeless:
      break;
  }
  run_recorded();
}

SampleTicket CudaBackend::sample(Matrix logits, std::span<const SampleRule> rules) {
  CHECK(logits.rows == std::ssize(rules));
  const SampledTokens::Ticket entry = sampled_.add(rules.size());
  if (ready_) {
    key_.ops.add(SampleOp{sample_args(logits, rules, entry.on_host)});
    run_ready();
  } else {
    stop_recording();
    leave_batch_alone();
    launcher_.launch(SampleOp{sample_args(logits, rules, entry.on_host)});
  }
  if (!rules.empty()) sampled_.note(entry.ticket, staging_.will_be_seen());
  return entry.ticket;
}

// Rules and the tokens' address change with every sampling; they lie at constant addresses, so that graphs can be
// reused.
SampleArgs CudaBackend::sample_args(Matrix logits, std::span<const SampleRule> rules, TokenId* on_host) {
  const SampleRule* sent = staging_.send(rules);
  return {logits, sent, staging_.send(std::span<TokenId* const>(&on_host, 1)), sampled_.on_device()};
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

std::unique_ptr<Backend> make_cuda_backend(int device, ActivationPrecision activations, int sm_count) {
  cuda::check(cudaSetDevice(device), "choosing the device");
  return std::make_unique<cuda::CudaBackend>(device, activations, sm_count);
}

}  // namespace kvasir
