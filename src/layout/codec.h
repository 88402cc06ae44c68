// Number formats of cached rows. One traits struct each, in codec_*.h, and one line here.
//
// Every traits struct has kFormat and kName. Formats of single numbers have Stored (what lies in memory),
// decode(Stored) -> float, exact, and encode(float) -> Stored, which rounds to nearest even; with kLargest, a row's
// numbers are divided by a scale of the row before. Integer formats (codec_int.h) pack several numbers in a byte and
// always have a scale. Pruned formats (codec_top.h) keep some of a row's numbers and have rows of kept() numbers and
// a mask. row_codec.h writes and reads rows of any format.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "base/check.h"
#include "layout/codec_bf16.h"
#include "layout/codec_f16.h"
#include "layout/codec_f32.h"
#include "layout/codec_fp8.h"
#include "layout/codec_int.h"
#include "layout/codec_top.h"
#include "layout/host_device.h"
#include "layout/kv_format.h"

namespace kvasir {

// Calls visitor(Codec{}) with the traits of `format`: the one switch over formats, on the host and in kernels.
#if defined(__CUDACC__)
#pragma nv_exec_check_disable
#endif
template <class Visitor>
KVASIR_HD decltype(auto) visit_codec(KvFormat format, Visitor&& visitor) {
  switch (format) {
    case KvFormat::kF32:
      return visitor(CodecF32{});
    case KvFormat::kF16:
      return visitor(CodecF16{});
    case KvFormat::kBF16:
      return visitor(CodecBF16{});
    case KvFormat::kInt8:
      return visitor(CodecInt8{});
    case KvFormat::kInt4:
      return visitor(CodecInt4{});
    case KvFormat::kInt2:
      return visitor(CodecInt2{});
    case KvFormat::kE4M3:
      return visitor(CodecE4M3{});
    case KvFormat::kE5M2:
      return visitor(CodecE5M2{});
    case KvFormat::kTop50:
      return visitor(CodecTop50{});
    case KvFormat::kTop25:
      return visitor(CodecTop25{});
  }
  if constexpr (!std::is_void_v<decltype(visitor(CodecF32{}))>) return visitor(CodecF32{});  // there is no other
}

template <class Codec>
inline constexpr bool kIsPacked = requires {
  Codec::kPerByte;
};
template <class Codec>
inline constexpr bool kIsPruned = requires {
  Codec::kOneIn;
};
template <class Codec>
inline constexpr bool kHasScale = kIsPacked<Codec> || requires {
  Codec::kLargest;
};

bool is_packed(KvFormat format);   // integers
bool is_pruned(KvFormat format);   // some numbers of a row, and a mask
bool has_scale(KvFormat format);   // one bf16 a row
bool is_rotated(KvFormat format);  // rows are turned by hadamard(): the query must be too, and the output turned back

// Bytes that the numbers of one token and head take, without the scale.
std::int64_t k_code_bytes(KvFormat format, int k_dim);
std::int64_t v_code_bytes(KvFormat format, int v_dim);

std::string_view format_name(KvFormat format);    // "f16"
KvFormat parse_kv_format(std::string_view name);  // also fp8, which is fp8_e4m3; throws Error listing the known names

}  // namespace kvasir
