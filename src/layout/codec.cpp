#include "layout/codec.h"

#include <fmt/format.h>

#include <string>

#include "base/error.h"

namespace kvasir {

size_t bytes_per_element(KvFormat format) {
  return visit_codec(format, [](auto codec) { return sizeof(typename decltype(codec)::Stored); });
}

std::string_view format_name(KvFormat format) {
  return visit_codec(format, [](auto codec) { return std::string_view(decltype(codec)::kName); });
}

KvFormat parse_kv_format(std::string_view name) {
  std::string known;
  for (const KvFormat format : kAllKvFormats) {
    if (format_name(format) == name) return format;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", format_name(format));
  }
  fail_usage(fmt::format("'{}' is not a KV format", name), "--kv", "use one of " + known);
}

}  // namespace kvasir
