#include "layout/codec.h"

#include <fmt/format.h>

#include <string>

#include "base/error.h"

namespace kvasir {
namespace {

// Of a row: K and V differ in how integers are packed, and in nothing else.
template <class Packed>
std::int64_t code_bytes(KvFormat format, int dim, const Packed& packed) {
  return visit_codec(format, [&](auto codec) -> std::int64_t {
    using Codec = decltype(codec);
    if constexpr (kIsPacked<Codec>) {
      return packed(codec);
    } else if constexpr (kIsPruned<Codec>) {
      return Codec::row_bytes(dim);
    } else {
      return static_cast<std::int64_t>(sizeof(typename Codec::Stored)) * dim;
    }
  });
}

}  // namespace

bool is_packed(KvFormat format) {
  return visit_codec(format, [](auto codec) { return kIsPacked<decltype(codec)>; });
}

bool is_pruned(KvFormat format) {
  return visit_codec(format, [](auto codec) { return kIsPruned<decltype(codec)>; });
}

bool has_scale(KvFormat format) {
  return visit_codec(format, [](auto codec) { return kHasScale<decltype(codec)>; });
}

bool is_rotated(KvFormat format) {
  return visit_codec(format, [](auto codec) {
    if constexpr (requires { codec.kRotated; }) return codec.kRotated;
    return false;
  });
}

std::int64_t k_code_bytes(KvFormat format, int k_dim) {
  return code_bytes(format, k_dim, [&](auto codec) { return std::int64_t{kCodeQuad} * codec.k_groups(k_dim); });
}

std::int64_t v_code_bytes(KvFormat format, int v_dim) {
  return code_bytes(format, v_dim, [&](auto codec) -> std::int64_t { return codec.v_columns(v_dim); });
}

std::string_view format_name(KvFormat format) {
  return visit_codec(format, [](auto codec) { return std::string_view(decltype(codec)::kName); });
}

KvFormat parse_kv_format(std::string_view name) {
  if (name == "fp8") return KvFormat::kE4M3;
  std::string known;
  for (const KvFormat format : kAllKvFormats) {
    if (format_name(format) == name) return format;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", format_name(format));
  }
  fail_usage(fmt::format("'{}' is not a KV format", name), "--kv", "use one of " + known);
}

}  // namespace kvasir
