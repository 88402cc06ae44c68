#include "model/quantized/coded_formats.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.h"

namespace kvasir {
namespace {

using Code = CodedMatrix::Code;

constexpr const char* kOtherModel = "check that the config and the weights belong together";
constexpr int kWordBits = 32;

std::string text_of(std::span<const std::int64_t> shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

int words_for(int codes, int bits) { return static_cast<int>((static_cast<std::int64_t>(codes) * bits + 31) / 32); }

// Code `index` of a run of words, lowest bits first. `bits` divides 32.
int code_in(const FileTensor& words, std::int64_t first, int index, int bits) {
  const int in_word = kWordBits / bits;
  const auto word = words.at<std::uint32_t>(first + index / in_word);
  return static_cast<int>(word >> (index % in_word * bits) & ((1U << bits) - 1U));
}

// A number for each output and group: [rows][groups], or [groups][rows].
struct ScaleTable {
  FileTensor tensor;
  std::int64_t row_step = 0;
  std::int64_t group_step = 0;

  float at(int row, int group) const { return tensor.number(row * row_step + group * group_step); }
};

// How many groups a row has, by the extent of a tensor; each has the same number of inputs.
int checked_groups(const ModuleTensors& module, std::string_view suffix, std::int64_t groups) {
  if (groups < 1 || groups > module.cols() || module.cols() % groups != 0) {
    module.fail(fmt::format("'{}' has {} groups, which do not divide {} inputs", module.called(suffix), groups,
                            module.cols()));
  }
  return static_cast<int>(groups);
}

// Where inputs of a group do not lie together: the group of each. Empty where they do, or where nothing says so.
std::vector<int> act_order(const ModuleTensors& module, std::string_view suffix, int groups) {
  const std::optional<FileTensor> stored = module.find(suffix);
  if (!stored) return {};
  const FileTensor order = module.get(suffix, "I32", {module.cols()});
  std::vector<int> out;
  bool in_order = true;
  bool unset = true;
  for (int col = 0; col < module.cols(); ++col) {
    const auto group = order.at<std::int32_t>(col);
    unset = unset && group == -1;
    in_order = in_order && group == col / (module.cols() / groups);
    out.push_back(group);
  }
  if (in_order || unset) return {};
  const auto bad = std::ranges::find_if(out, [groups](int group) { return group < 0 || group >= groups; });
  if (bad == out.end()) return out;
  module.fail(fmt::format("'{}' puts an input into group {}, and there are {}", module.called(suffix), *bad, groups));
}

// Bytes: [rows][cols] of e4m3 or int8.
class ByteMatrix final : public CodedMatrix {
 public:
  struct Scales {
    ScaleTable table;
    int rows_of_one = 1;  // outputs with one scale
    int group = 1;        // inputs
  };
  ByteMatrix(const ModuleTensors& module, Code code, FileTensor codes, const Scales& scales,
             std::optional<ScaleTable> zeros)
      : CodedMatrix(module.name(), {code, module.rows(), module.cols(), scales.group}),
        codes_(codes),
        scales_(scales),
        zeros_(zeros) {}

  void read_codes(int first, int count, std::uint8_t* out) const override {
    const auto cols = static_cast<size_t>(shape().cols);
    std::memcpy(out, codes_.bytes.data() + static_cast<size_t>(first) * cols, static_cast<size_t>(count) * cols);
    if (shape().code != Code::kInt8) return;
    for (size_t i = 0; i < static_cast<size_t>(count) * cols; ++i) out[i] ^= 0x80U;
  }
  float scale(int row, int group) const override { return scales_.table.at(row / scales_.rows_of_one, group); }
  int zero(int row, int group) const override {
    if (!zeros_) return 128;
    return 128 + zeros_->tensor.at<std::int8_t>(row * zeros_->row_step + group * zeros_->group_step);
  }

 private:
  FileTensor codes_;
  Scales scales_;
  std::optional<ScaleTable> zeros_;
};

// What a scale of bytes is for is told by its shape: all, an output, a group of an output's inputs, or a block.
ByteMatrix::Scales scales_of_bytes(const ModuleTensors& module, const QuantizationConfig& config) {
  const std::string_view suffix = module.find(".weight_scale_inv") ? ".weight_scale_inv" : ".weight_scale";
  const FileTensor tensor = module.floats(suffix);
  const auto& shape = tensor.shape;
  const int rows = module.rows();
  const int cols = module.cols();
  if (shape.empty() || (shape.size() == 1 && shape[0] == 1)) return {{tensor, 0, 0}, 1, cols};
  if (shape.size() == 1 && shape[0] == rows) return {{tensor, 1, 0}, 1, cols};
  if (shape.size() == 2 && shape[0] == rows && shape[1] == 1) return {{tensor, 1, 0}, 1, cols};
  const auto [block_rows, block_cols] = config.block;
  const std::int64_t down = (rows + block_rows - 1) / block_rows;
  const std::int64_t across = (cols + block_cols - 1) / block_cols;
  if (shape.size() == 2 && shape[0] == down && shape[1] == across) {
    return {{tensor, across, 1},
            static_cast<int>(block_rows),
            static_cast<int>(std::min<std::int64_t>(block_cols, cols))};
  }
  if (shape.size() == 2 && shape[0] == rows) {
    return {{tensor, shape[1], 1}, 1, cols / checked_groups(module, suffix, shape[1])};
  }
  module.fail_shape(suffix, tensor,
                    fmt::format("[1], [{}, 1], [{}, groups] or, for blocks of {} x {}, [{}, {}]", rows, rows,
                                block_rows, block_cols, down, across));
}

// Words along the inputs of an output: [rows][words].
class PackedMatrix final : public CodedMatrix {
 public:
  struct Zeros {
    std::optional<FileTensor> tensor;  // none: in the middle
    bool packed = false;               // [rows * bits / 32][groups] words, or [rows][groups] bytes
  };
  PackedMatrix(const ModuleTensors& module, int bits, FileTensor words, ScaleTable scales, Zeros zeros)
      : CodedMatrix(module.name(), {bits == 4 ? Code::kInt4 : Code::kInt8, module.rows(), module.cols(),
                                    module.cols() / static_cast<int>(scales.row_step)}),
        bits_(bits),
        words_(words),
        scales_(scales),
        zeros_(zeros) {}

  void read_codes(int first, int count, std::uint8_t* out) const override {
    const int words = words_for(shape().cols, bits_);
    for (int row = first; row < first + count; ++row) {
      const std::int64_t begin = static_cast<std::int64_t>(row) * words;
      for (int col = 0; col < shape().cols; ++col)
        *out++ = static_cast<std::uint8_t>(code_in(words_, begin, col, bits_));
    }
  }
  float scale(int row, int group) const override { return scales_.at(row, group); }
  int zero(int row, int group) const override {
    const int middle = 1 << (bits_ - 1);
    if (!zeros_.tensor) return middle;
    if (!zeros_.packed)
      return middle + zeros_.tensor->at<std::int8_t>(static_cast<std::int64_t>(row) * groups() + group);
    const int in_word = kWordBits / bits_;
    const auto word = zeros_.tensor->at<std::uint32_t>(static_cast<std::int64_t>(row / in_word) * groups() + group);
    return static_cast<int>(word >> (row % in_word * bits_) & ((1U << bits_) - 1U));
  }

 private:
  int bits_;
  FileTensor words_;
  ScaleTable scales_;
  Zeros zeros_;
};

// Words of GPTQ, along the inputs, and of AWQ, along the outputs; both [inputs …][outputs …], zeros along the
// outputs.
struct GroupedWords {
  FileTensor codes;
  FileTensor zeros;
  ScaleTable scales;
  int bits = 4;
  int groups = 1;
};

class GptqMatrix final : public CodedMatrix {
 public:
  GptqMatrix(const ModuleTensors& module, const GroupedWords& words, int zero_offset)
      : CodedMatrix(module.name(), {words.bits == 4 ? Code::kInt4 : Code::kInt8, module.rows(), module.cols(),
                                    module.cols() / words.groups}),
        words_(words),
        zero_offset_(zero_offset) {}

  void read_codes(int first, int count, std::uint8_t* out) const override {
    const int in_word = kWordBits / words_.bits;
    const std::uint32_t mask = (1U << words_.bits) - 1U;
    const int cols = shape().cols;
    for (int col = 0; col < cols; col += in_word) {
      const std::int64_t begin = static_cast<std::int64_t>(col / in_word) * shape().rows + first;
      for (int row = 0; row < count; ++row) {
        auto word = words_.codes.at<std::uint32_t>(begin + row);
        for (int i = 0; i < in_word; ++i, word >>= words_.bits) {
          out[row * cols + col + i] = static_cast<std::uint8_t>(word & mask);
        }
      }
    }
  }
  float scale(int row, int group) const override { return words_.scales.at(row, group); }
  int zero(int row, int group) const override {
    const std::int64_t begin = static_cast<std::int64_t>(group) * words_for(shape().rows, words_.bits);
    return code_in(words_.zeros, begin, row, words_.bits) + zero_offset_;
  }

 private:
  GroupedWords words_;
  int zero_offset_;
};

// The nibble of a word in which AWQ has each of eight outputs.
constexpr std::array<int, 8> kAwqNibble{0, 4, 1, 5, 2, 6, 3, 7};

class AwqMatrix final : public CodedMatrix {
 public:
  AwqMatrix(const ModuleTensors& module, const GroupedWords& words)
      : CodedMatrix(module.name(), {Code::kInt4, module.rows(), module.cols(), module.cols() / words.groups}),
        words_(words) {}

  void read_codes(int first, int count, std::uint8_t* out) const override {
    static_assert(kStripRows == 8, "a strip is a word");
    const int cols = shape().cols;
    for (int col = 0; col < cols; ++col) {
      const auto word =
          words_.codes.at<std::uint32_t>(static_cast<std::int64_t>(col) * (shape().rows / 8) + first / 8);
      for (int row = 0; row < count; ++row) {
        out[row * cols + col] = static_cast<std::uint8_t>(word >> (4 * kAwqNibble[static_cast<size_t>(row)]) & 15U);
      }
    }
  }
  float scale(int row, int group) const override { return words_.scales.at(row, group); }
  int zero(int row, int group) const override { return output_of(words_.zeros, group, row); }

 private:
  int output_of(const FileTensor& words, int line, int row) const {
    const auto word = words.at<std::uint32_t>(static_cast<std::int64_t>(line) * (shape().rows / 8) + row / 8);
    return static_cast<int>(word >> (4 * kAwqNibble[static_cast<size_t>(row % 8)]) & 15U);
  }

  GroupedWords words_;
};

// [groups][rows] scales, and as many groups of zeros.
GroupedWords grouped_words(const ModuleTensors& module, FileTensor codes, int bits) {
  const FileTensor scales = module.floats(".scales");
  if (scales.shape.size() != 2 || scales.shape[1] != module.rows()) {
    module.fail_shape(".scales", scales, fmt::format("[groups, {}]", module.rows()));
  }
  const int groups = checked_groups(module, ".scales", scales.shape[0]);
  const FileTensor zeros = module.get(".qzeros", "I32", {groups, words_for(module.rows(), bits)});
  return {codes, zeros, {scales, 1, module.rows()}, bits, groups};
}

}  // namespace

ModuleTensors::ModuleTensors(const AskedMatrix& asked, const FindTensor& find, const std::string& where)
    : asked_(asked), find_(find), where_(where), module_(asked.name) {
  constexpr std::string_view kSuffix = ".weight";
  if (module_.ends_with(kSuffix)) module_.resize(module_.size() - kSuffix.size());
}

void ModuleTensors::fail(std::string problem) const { fail_input(std::move(problem), where_, kOtherModel); }

void ModuleTensors::fail_shape(std::string_view suffix, const FileTensor& tensor, const std::string& expected) const {
  fail(fmt::format("tensor '{}' is {} of {}, and the config calls for {}", called(suffix), text_of(tensor.shape),
                   tensor.type, expected));
}

FileTensor ModuleTensors::get(std::string_view suffix) const {
  const std::optional<FileTensor> tensor = find(suffix);
  if (!tensor) fail(fmt::format("tensor '{}' is missing", called(suffix)));
  return *tensor;
}

FileTensor ModuleTensors::get(std::string_view suffix, std::string_view type,
                              std::initializer_list<std::int64_t> shape) const {
  const FileTensor tensor = get(suffix);
  if (tensor.type != type || !std::ranges::equal(tensor.shape, shape)) {
    fail_shape(suffix, tensor, fmt::format("[{}] of {}", fmt::join(shape, ", "), type));
  }
  return tensor;
}

FileTensor ModuleTensors::floats(std::string_view suffix) const {
  const FileTensor tensor = get(suffix);
  if (!tensor.has_floats())
    fail(fmt::format("tensor '{}' has type {}, and scales are F32, F16 or BF16", called(suffix), tensor.type));
  return tensor;
}

std::unique_ptr<CodedMatrix> byte_matrix(const ModuleTensors& module, const QuantizationConfig& config) {
  const FileTensor codes = module.get(".weight");
  const bool floats = codes.type == "F8_E4M3";
  module.get(".weight", codes.type, {module.rows(), module.cols()});
  const ByteMatrix::Scales scales = scales_of_bytes(module, config);
  std::optional<ScaleTable> zeros;
  if (!floats && module.find(".weight_zero_point")) {
    const int groups = (module.cols() + scales.group - 1) / scales.group;
    zeros = ScaleTable{module.get(".weight_zero_point", "I8", {module.rows(), groups}), groups, 1};
  }
  return std::make_unique<ByteMatrix>(module, floats ? Code::kE4m3 : Code::kInt8, codes, scales, zeros);
}

std::unique_ptr<CodedMatrix> packed_matrix(const ModuleTensors& module) {
  const FileTensor words = module.get(".weight_packed");
  const bool matrix = words.type == "I32" && words.shape.size() == 2 && words.shape[0] == module.rows();
  const int bits = !matrix                                         ? 0
                   : words.shape[1] == words_for(module.cols(), 4) ? 4
                   : words.shape[1] == words_for(module.cols(), 8) ? 8
                                                                   : 0;
  if (bits == 0) {
    module.fail_shape(".weight_packed", words,
                      fmt::format("[{}, {}] or [{}, {}] of I32: 4 or 8 bits a weight", module.rows(),
                                  words_for(module.cols(), 4), module.rows(), words_for(module.cols(), 8)));
  }
  const FileTensor scales = module.floats(".weight_scale");
  const bool by_row = scales.shape.size() == 1 && scales.shape[0] == module.rows();
  if (!by_row && (scales.shape.size() != 2 || scales.shape[0] != module.rows())) {
    module.fail_shape(".weight_scale", scales, fmt::format("[{}, groups]", module.rows()));
  }
  const int groups = by_row ? 1 : checked_groups(module, ".weight_scale", scales.shape[1]);
  PackedMatrix::Zeros zeros{module.find(".weight_zero_point"), false};
  if (zeros.tensor) {
    zeros.packed = zeros.tensor->type == "I32";
    zeros.tensor = zeros.packed ? module.get(".weight_zero_point", "I32", {words_for(module.rows(), bits), groups})
                                : module.get(".weight_zero_point", "I8", {module.rows(), groups});
  }
  auto out = std::make_unique<PackedMatrix>(module, bits, words, ScaleTable{scales, groups, 1}, zeros);
  out->set_group_of(act_order(module, ".weight_g_idx", groups));
  return out;
}

std::unique_ptr<CodedMatrix> gptq_matrix(const ModuleTensors& module, const QuantizationConfig& config) {
  const FileTensor words = module.get(".qweight");
  const bool eight = !words.shape.empty() && words.shape[0] == words_for(module.cols(), 8);
  const int bits = eight ? 8 : 4;
  module.get(".qweight", "I32", {words_for(module.cols(), bits), module.rows()});
  if (module.cols() % (kWordBits / bits) != 0) {
    module.fail(fmt::format("'{}' has {} inputs, which are no whole words", module.name(), module.cols()));
  }
  const GroupedWords grouped = grouped_words(module, words, bits);
  auto out = std::make_unique<GptqMatrix>(module, grouped, config.zero_offset);
  out->set_group_of(act_order(module, ".g_idx", grouped.groups));
  return out;
}

std::unique_ptr<CodedMatrix> awq_matrix(const ModuleTensors& module) {
  if (module.rows() % 8 != 0) {
    module.fail(fmt::format("'{}' has {} outputs, and AWQ packs eight into a word", module.name(), module.rows()));
  }
  const FileTensor words = module.get(".qweight", "I32", {module.cols(), module.rows() / 8});
  return std::make_unique<AwqMatrix>(module, grouped_words(module, words, 4));
}

}  // namespace kvasir
