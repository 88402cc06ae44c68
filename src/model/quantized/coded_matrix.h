// A matrix of codes with scales for groups of a row's inputs: what every format of quantized safetensors comes down
// to, and the weight types that hold it exactly.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "backend/weight_type.h"

namespace kvasir {

// Weights that were laid out anew: row_bytes(dtype, cols) for each row.
struct RelaidMatrix {
  DType dtype = DType::kF32;
  std::vector<std::byte> bytes;
};

class CodedMatrix {
 public:
  enum class Code : std::uint8_t {
    kInt4,  // 0 … 15
    kInt8,  // 0 … 255
    kE4m3,  // without a zero
  };
  struct Shape {
    Code code = Code::kInt4;
    int rows = 0;
    int cols = 0;
    int group = 1;  // inputs with one scale; the last of a row may be fewer
  };

  CodedMatrix(std::string name, Shape shape) : name_(std::move(name)), shape_(shape) {}
  virtual ~CodedMatrix() = default;

  // A number is scale (code - zero), in float32: rounded once.
  virtual void read_codes(int first, int count, std::uint8_t* out) const = 0;  // [count][cols]; first is whole strips
  virtual float scale(int row, int group) const = 0;
  virtual int zero(int row, int group) const = 0;

  const std::string& name() const { return name_; }
  const Shape& shape() const { return shape_; }
  int groups() const { return (shape_.cols + shape_.group - 1) / shape_.group; }

  // Which group an input is in, where that is not by its place (act-order). Every one is below groups().
  void set_group_of(std::vector<int> group_of) { group_of_ = std::move(group_of); }
  int group_of(int col) const { return group_of_.empty() ? col / shape_.group : group_of_[static_cast<size_t>(col)]; }
  bool in_order() const { return group_of_.empty(); }

 private:
  std::string name_;
  Shape shape_;
  std::vector<int> group_of_;
};

inline constexpr int kStripRows = 8;  // that are read at a time: as many as one word of a file may hold

// In a type of blocks of 32: int4x32, int8x32 or fp8x32. Where none holds it (groups that are not whole blocks, or
// out of order; zeros of 8-bit codes), in f32. Throws Error for a scale that is not finite and for a code that is no
// number.
RelaidMatrix relay(const CodedMatrix& matrix, const std::string& where);

}  // namespace kvasir
