// Another backend, but that one head's K or V goes through a format on its way into the cache. A cache in f32 then
// shows what that format does to that head alone.
#pragma once

#include <optional>
#include <vector>

#include "backend/forwarding_backend.h"
#include "layout/kv_format.h"

namespace kvasir {

struct QuantizedHead {
  int layer = 0;  // of the model
  int head = 0;   // KV head
  int part = 0;   // 0: K, 1: V
  KvFormat format = KvFormat::kF32;

  friend bool operator==(const QuantizedHead&, const QuantizedHead&) = default;
};

// What is left of a row that was kept in a format: encoded, decoded, turned back.
void round_trip(KvFormat format, std::span<float> row);

class QuantizeOneHeadBackend final : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;

  // From now on; nullopt: as the plain backend. REQUIRES, while quantized: all layers are one group of the cache.
  void quantize(std::optional<QuantizedHead> what) { what_ = what; }

  void run(const Op& op) override;

 private:
  void write_quantized(KvWriteOp op);

  std::optional<QuantizedHead> what_;
  std::vector<float> host_rows_;
  Buffer rows_;  // the quantized part's: the model's own stay as they are
};

}  // namespace kvasir
