// The formats of codes in safetensors, each as a CodedMatrix over a file's bytes. Every shape is checked here.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "model/quantized/coded_matrix.h"
#include "model/quantized/file_tensor.h"
#include "model/quantized/quantization_config.h"
#include "model/quantized/quantized_tensors.h"

namespace kvasir {

// The tensors of one module, for messages and by suffix.
class ModuleTensors {
 public:
  ModuleTensors(const AskedMatrix& asked, const FindTensor& find, const std::string& where);

  int rows() const { return asked_.rows; }
  int cols() const { return asked_.cols; }
  const std::string& name() const { return asked_.name; }

  std::string called(std::string_view suffix) const { return module_ + std::string(suffix); }
  std::optional<FileTensor> find(std::string_view suffix) const { return find_(called(suffix)); }
  FileTensor get(std::string_view suffix) const;  // Error when it is missing
  // The same, of this type and shape.
  FileTensor get(std::string_view suffix, std::string_view type, std::initializer_list<std::int64_t> shape) const;
  FileTensor floats(std::string_view suffix) const;  // of a type of floats

  [[noreturn]] void fail_shape(std::string_view suffix, const FileTensor& tensor, const std::string& expected) const;
  [[noreturn]] void fail(std::string problem) const;

 private:
  const AskedMatrix& asked_;
  const FindTensor& find_;
  const std::string& where_;
  std::string module_;  // the asked name without ".weight"
};

// X.weight in bytes: e4m3 or int8.
std::unique_ptr<CodedMatrix> byte_matrix(const ModuleTensors& module, const QuantizationConfig& config);
// X.weight_packed.
std::unique_ptr<CodedMatrix> packed_matrix(const ModuleTensors& module);
// X.qweight.
std::unique_ptr<CodedMatrix> gptq_matrix(const ModuleTensors& module, const QuantizationConfig& config);
std::unique_ptr<CodedMatrix> awq_matrix(const ModuleTensors& module);

// N_blocks and N_scales, of one expert, as rows of the type mxfp4.
RelaidMatrix mxfp4_matrix(const AskedMatrix& asked, const FindTensor& find, const std::string& where);

}  // namespace kvasir
