// Memory and arithmetic of one kind of device. Models are written against this, once for all of them.
//
// The contract that every backend keeps, and tests/laws checks:
//   - a row's result depends on that row (and its sequence's cached rows) alone: not on the other rows of the batch,
//     on how a sequence was cut into chunks, on the block size, on where blocks lie, or on the number of threads;
//   - attention reads K and V in the cache's own format, the newest tokens included.
// Only the ops of the cache (writing, moving and reading rows) know KV formats. Nothing here knows models, sequences'
// owners or policy.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/buffer.h"
#include "backend/ops.h"
#include "backend/tensor.h"
#include "base/bytes.h"
#include "base/ids.h"
#include "base/sample_rule.h"
#include "layout/kv_view.h"

namespace kvasir {

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
  std::span<const TokenId> tokens;          // of embed()
  std::span<const std::int32_t> rope_rows;  // of upload_rope_rows()
};
using BatchId = std::uint64_t;  // of one backend
inline constexpr BatchId kNoBatch = 0;

using SampleTicket = std::uint64_t;  // of one backend, ascending
inline constexpr SampleTicket kNoSample = 0;

// What a backend can run at most. A model is held to it when it is loaded, and a KV policy when it is asked for: what
// is beyond is an Error that names the config's field, its value and the limit.
struct BackendLimits {
  int head_dim = std::numeric_limits<int>::max();                                     // of K, and of V
  enum class States : std::uint8_t { kF32, kAnyFormat } states = States::kAnyFormat;  // of recurrent layers
};

class Backend {
 public:
  virtual ~Backend() = default;

  virtual std::string description() const = 0;  // "cpu, avx512, 2 threads"
  // Names the arithmetic: two backends with one version give the same bits. Part of every block's name.
  virtual std::string kernel_version() const = 0;

  virtual BackendLimits limits() const { return {}; }

  // Memory. allocate() gives zeros, aligned to 64 bytes at least.
  virtual Buffer allocate(size_t bytes) = 0;
  // The most that a cache should take when nobody says how much.
  virtual std::uint64_t default_cache_bytes() const { return physical_memory() / 2; }
  virtual void upload(std::byte* to, std::span<const std::byte> from) = 0;
  virtual void download(std::span<std::byte> to, const std::byte* from) = 0;
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
  // By what replay_batch() knows the batch; kNoBatch where it cannot be repeated. Ops that wait until here may wait
  // for one more call, as sample(), to go with it: the sequences stay as they are until then.
  virtual BatchId end_batch() { return kNoBatch; }
  // All of that batch again, from begin_batch() to end_batch(), with other inputs. False, and nothing done, if
  // another one was between, or something else prevents it: then its ops must be given as the first time. REQUIRES:
  // one embed() of all tokens and one upload_rope_rows() are all that its ops were given but what is the same.
  virtual bool replay_batch(BatchId /*batch*/, const BatchInputs& /*inputs*/) { return false; }
  // The rows of a RopeTable that the batch's rows have, where ops find them until end_batch(); the caller's stay as
  // they are until then. REQUIRES: the batch has begun.
  virtual const std::int32_t* upload_rope_rows(std::span<const std::int32_t> rope_rows) { return rope_rows.data(); }

  // Ops, in order. A backend without a kernel for a fused op lowers it (lower.h).
  virtual void run(const Op& op) = 0;

  // Tokens without their logits leaving the backend: one of each row, as sample/sampler.h samples it with these
  // parameters. Nobody waits for them but take_sampled(), and embed() knows those of the last sample as
  // sampled_token(row) even before. Every sample is taken once. kNoSample, and nothing done: the host must do it.
  virtual SampleTicket sample(Matrix /*logits*/, std::span<const SampleRule> /*rules*/) { return kNoSample; }
  virtual SampleTicket last_sample() const { return kNoSample; }
  // The tokens of a sample, one for each of its rows; -1 where the logits are no numbers.
  virtual void take_sampled(SampleTicket /*ticket*/, std::span<TokenId> /*tokens*/) {}
};

}  // namespace kvasir
