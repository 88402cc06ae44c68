#include "model/quantized/quantized_tensors.h"

#include <fmt/format.h>

#include <memory>

#include "base/error.h"
#include "model/quantized/coded_formats.h"

namespace kvasir {

std::optional<RelaidMatrix> QuantizedTensors::read(const AskedMatrix& asked, const FindTensor& find) const {
  if (const std::optional<FileTensor> plain = find(asked.name)) {
    if (plain->type != "F8_E4M3" && plain->type != "I8") return std::nullopt;
    const ModuleTensors module(asked, find, where_);
    return relay(*byte_matrix(module, config_.value_or(QuantizationConfig{})), where_);
  }
  if (find(asked.name + "_blocks")) return mxfp4_matrix(asked, find, where_);
  const ModuleTensors module(asked, find, where_);
  if (module.find(".weight_packed")) return relay(*packed_matrix(module), where_);
  if (!module.find(".qweight")) return std::nullopt;
  if (config_ && config_->method == QuantizationConfig::Method::kGptq)
    return relay(*gptq_matrix(module, *config_), where_);
  if (config_ && config_->method == QuantizationConfig::Method::kAwq) return relay(*awq_matrix(module), where_);
  fail_input(fmt::format("tensor '{}' is packed, and the config has no quantization_config of gptq or awq",
                         module.called(".qweight")),
             where_, "use the config.json that belongs to these weights");
}

}  // namespace kvasir
