// Another backend, but that one head's K or V goes through a format on its way into the cache. A cache in f32 then
// shows what that format does to that head alone.
#pragma once

#include <optional>
#include <vector>

#include "backend/forwarding_backend.h"
#include "layout/kv_format.h"

namespace kvasir {

struct HeadDisturbance {
  int layer = 0;  // of the model
  int head = 0;   // KV head
  int part = 0;   // 0: K, 1: V
  KvFormat format = KvFormat::kF32;

  friend bool operator==(const HeadDisturbance&, const HeadDisturbance&) = default;
};

// What is left of a row that was kept in a format: encoded, decoded, turned back.
void round_trip(KvFormat format, std::span<float> row);

class DisturbedBackend final : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;

  // From now on; nullopt: as the plain backend. REQUIRES, while disturbed: all layers are one group of the cache.
  void disturb(std::optional<HeadDisturbance> what) { what_ = what; }

  void kv_write(Matrix k, Matrix v, const KvView& view, std::span<const SequenceView> sequences) override;
  void rope_kv_write(const UnturnedRows& rows, const KvView& view, std::span<const SequenceView> sequences) override {
    Backend::rope_kv_write(rows, view, sequences);  // NOLINT(bugprone-parent-virtual-call): of this one's ops
  }

 private:
  std::optional<HeadDisturbance> what_;
  std::vector<float> host_rows_;
  Buffer rows_;  // the disturbed part's: the model's own stay as they are
};

}  // namespace kvasir
