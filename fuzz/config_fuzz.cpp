// Any bytes as a config.json: an Error is fine, anything else is a bug. What parses must also plan.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "model/config.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const std::string_view json(reinterpret_cast<const char*>(data), size);
    const kvasir::ModelSpec config = kvasir::parse_config(json, "fuzz");
    if (kvasir::parameter_count(config) == 0) std::abort();
    std::size_t layers = 0;
    for (const kvasir::KvGroup& group :
         kvasir::kv_groups(config, {kvasir::KvFormat::kF32, kvasir::KvFormat::kF16, {}})) {
      if (!group.keeps_state() && kvasir::bytes_per_token(group) <= 0) std::abort();
      layers += group.layers.size();
    }
    std::size_t caching = 0;
    for (const kvasir::LayerSpec& layer : config.layers) {
      if (!layer.attention.none() && layer.attention.owns_kv())
        ++caching;                             // others read what an earlier layer caches
      if (!layer.recurrent.none()) ++caching;  // beside attention, or in its place
    }
    if (layers != (config.generates() ? caching : 0)) std::abort();  // encoders and classifiers cache nothing
    kvasir::check_runnable(config, "fuzz");
  } catch (const kvasir::Error&) {
  }
  return 0;
}
