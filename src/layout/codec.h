// Number formats of cached rows. One traits struct each, in codec_*.h, and one line here.
//
// A traits struct has: Stored (what lies in memory), kFormat, kBytes, decode(Stored) -> float, encode(float) ->
// Stored. encode rounds to nearest even; decode is exact.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "layout/codec_bf16.h"
#include "layout/codec_f16.h"
#include "layout/codec_f32.h"
#include "layout/kv_format.h"

namespace kvasir {

// Calls visitor(Codec{}) with the traits of `format`: the one switch over formats.
template <class Visitor>
decltype(auto) visit_codec(KvFormat format, Visitor&& visitor) {
  switch (format) {
    case KvFormat::kF16:
      return visitor(CodecF16{});
    case KvFormat::kBF16:
      return visitor(CodecBF16{});
    case KvFormat::kF32:
      break;
  }
  return visitor(CodecF32{});
}

size_t bytes_per_element(KvFormat format);
std::string_view format_name(KvFormat format);    // "f16"
KvFormat parse_kv_format(std::string_view name);  // throws Error listing the known names

}  // namespace kvasir
