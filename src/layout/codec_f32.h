#pragma once

#include "layout/host_device.h"
#include "layout/kv_format.h"

namespace kvasir {

struct CodecF32 {
  using Stored = float;
  static constexpr KvFormat kFormat = KvFormat::kF32;
  static constexpr const char* kName = "f32";

  KVASIR_HD static float decode(Stored stored) { return stored; }
  KVASIR_HD static Stored encode(float value) { return value; }
};

}  // namespace kvasir
