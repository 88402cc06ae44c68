// Small models with quantized weights, made on the spot: what no committed fixture is small enough for.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <string>

#include "backend/weight_type.h"
#include "model/convert.h"
#include "model/known_models.h"
#include "model/random_model.h"

namespace kvasir::testing {

inline constexpr const char* kQuantizedShape = "layers=2,hidden=256,ffn=256,heads=4,kv_heads=2,vocab=101,context=512";

// A GGUF file of random weights in that type, in a folder that goes with this object.
class QuantizedModel {
 public:
  explicit QuantizedModel(DType type) {
    std::filesystem::remove_all(folder_);
    write_random_model(parse_shape(kQuantizedShape), folder_ / "plain", {});
    ConvertOptions options;
    options.weights = type;
    convert_to_gguf(folder_ / "plain", path(), {}, options);
  }
  ~QuantizedModel() { std::filesystem::remove_all(folder_); }
  QuantizedModel(const QuantizedModel&) = delete;
  QuantizedModel& operator=(const QuantizedModel&) = delete;

  std::filesystem::path path() const { return folder_ / "model.gguf"; }

 private:
  std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("kvasir-quantized-" + std::to_string(::getpid()));
};

}  // namespace kvasir::testing
