// Formats of quantized safetensors, written byte by byte as they are described: what the reader is held against.
#pragma once

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <ostream>
#include <string>
#include <vector>

#include "backend/weight_type.h"
#include "layout/codec.h"
#include "support/random_data.h"

namespace kvasir::testing {

struct WrittenTensor {
  std::string type;
  std::vector<std::int64_t> shape;
  std::string bytes;
};
using WrittenTensors = std::map<std::string, WrittenTensor>;

template <class T>
inline std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

// config.json and model.safetensors.
inline void write_model(const std::filesystem::path& folder, const WrittenTensors& tensors,
                        const std::string& config) {
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "config.json") << config;
  std::string header = "{";
  std::string data;
  for (const auto& [name, tensor] : tensors) {
    std::string shape;
    for (const std::int64_t extent : tensor.shape) shape += (shape.empty() ? "" : ",") + std::to_string(extent);
    header += (header.size() == 1 ? "\"" : ",\"") + name + R"(":{"dtype":")" + tensor.type + R"(","shape":[)" +
              shape + R"(],"data_offsets":[)" + std::to_string(data.size()) + "," +
              std::to_string(data.size() + tensor.bytes.size()) + "]}";
    data += tensor.bytes;
  }
  header += "}";
  const std::uint64_t size = header.size();
  std::ofstream file(folder / "model.safetensors", std::ios::binary);
  file.write(reinterpret_cast<const char*>(&size), sizeof size);
  file << header << data;
}

// Of a small Llama.
inline void write_folder(const std::filesystem::path& folder, const WrittenTensors& tensors,
                         const std::string& quantization) {
  write_model(
      folder, tensors,
      R"({"model_type":"llama","hidden_size":64,"intermediate_size":96,"num_hidden_layers":1,"vocab_size":40,)"
      R"("num_attention_heads":4,"num_key_value_heads":2,"head_dim":16,"rms_norm_eps":1e-5,)"
      R"("max_position_embeddings":128,"tie_word_embeddings":false)" +
          (quantization.empty() ? "" : ",\"quantization_config\":" + quantization) + "}");
}

// One matrix: codes, and for each output and group a scale and a zero.
struct Codes {
  int rows = 0;
  int cols = 0;
  int groups = 1;
  std::vector<int> code;  // [rows][cols]
  std::vector<float> scale;
  std::vector<int> zero;      // [rows][groups]
  std::vector<int> group_of;  // by input
  bool e4m3 = false;

  int at(int r, int c) const { return code[static_cast<size_t>(r * cols + c)]; }
  size_t index(int r, int c) const { return static_cast<size_t>(r * groups + group_of[static_cast<size_t>(c)]); }
  float value(int r, int c) const {
    return scale[index(r, c)] * (e4m3 ? number(at(r, c)) : static_cast<float>(at(r, c) - zero[index(r, c)]));
  }
  // 1.4.3: exponents from -6 on, and below 2^-6 multiples of 2^-9.
  static float number(int code) {
    const int exponent = code >> 3 & 15;
    const int mantissa = code & 7;
    const double size = exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
    return static_cast<float>((code & 0x80) != 0 ? -size : size);
  }
};

// How a test quantizes: what of it the format has.
struct Scheme {
  int bits = 4;
  int group = 32;      // inputs; 0: all
  int block_rows = 1;  // outputs with one scale; 0: all
  bool own_zeros = false;
  bool act_order = false;
  bool e4m3 = false;
};

inline Codes make_codes(const Scheme& scheme, int rows, int cols, std::uint64_t seed) {
  Codes out;
  out.rows = rows;
  out.cols = cols;
  out.e4m3 = scheme.e4m3;
  const int group = scheme.group == 0 ? cols : scheme.group;
  const int block_rows = scheme.block_rows == 0 ? rows : scheme.block_rows;
  out.groups = (cols + group - 1) / group;
  for (int i = 0; i < rows * cols; ++i) {
    const auto bits = static_cast<int>(mix(seed, static_cast<std::uint64_t>(i), 1) & ((1U << scheme.bits) - 1U));
    out.code.push_back(scheme.e4m3 && (bits & 0x7f) == 0x7f ? bits ^ 0x40 : bits);
  }
  const int middle = 1 << (scheme.bits - 1);
  for (int r = 0; r < rows; ++r) {
    for (int g = 0; g < out.groups; ++g) {
      const auto at = static_cast<std::uint64_t>(r / block_rows * out.groups + g);
      const float size = (scheme.e4m3        ? 0.002F
                          : scheme.bits == 8 ? 0.002F
                                             : 0.03F) *
                         (1 + 0.5F * noise(seed + 1, at));
      out.scale.push_back(CodecF16::decode(CodecF16::encode(size)));
      out.zero.push_back(scheme.own_zeros ? middle - 3 + static_cast<int>(mix(seed + 2, at, 1) % 6) : middle);
    }
  }
  for (int c = 0; c < cols; ++c) {
    out.group_of.push_back(scheme.act_order ? (c * 7 + c / 5) % cols / group : c / group);
  }
  return out;
}

inline std::string packed(std::int64_t words, int bits,
                          const std::function<int(std::int64_t word, int place)>& code) {
  std::vector<std::uint32_t> out(static_cast<size_t>(words));
  for (std::int64_t w = 0; w < words; ++w) {
    for (int i = 0; i < 32 / bits; ++i)
      out[static_cast<size_t>(w)] |= static_cast<std::uint32_t>(code(w, i)) << (bits * i);
  }
  return bytes_of(out);
}

inline std::string halves(const std::vector<float>& values) {
  std::vector<std::uint16_t> out;
  for (const float value : values) out.push_back(CodecF16::encode(value));
  return bytes_of(out);
}

inline WrittenTensor order_of(const Codes& codes) {
  return {"I32", {codes.cols}, bytes_of(std::vector<std::int32_t>(codes.group_of.begin(), codes.group_of.end()))};
}

// [outputs][inputs] bytes.
inline WrittenTensor rows_of_bytes(const Codes& codes, const std::string& type) {
  std::string bytes;
  for (const int code : codes.code) bytes.push_back(static_cast<char>(type == "I8" ? code - 128 : code));
  return {type, {codes.rows, codes.cols}, bytes};
}

struct Written {
  WrittenTensors& to;
  std::string module;
  void put(const std::string& suffix, WrittenTensor tensor) const { to[module + suffix] = std::move(tensor); }
};

// AutoGPTQ's: eight inputs of an output in a word; zeros of eight outputs in one, less `offset`.
inline void write_gptq(const Codes& m, int bits, int offset, const Written& out) {
  const int in_word = 32 / bits;
  out.put(".qweight", {"I32",
                       {m.cols / in_word, m.rows},
                       packed(static_cast<std::int64_t>(m.cols / in_word) * m.rows, bits, [&](std::int64_t w, int i) {
                         return m.at(static_cast<int>(w % m.rows), static_cast<int>(w / m.rows) * in_word + i);
                       })});
  const int across = m.rows / in_word;
  out.put(".qzeros", {"I32",
                      {m.groups, across},
                      packed(static_cast<std::int64_t>(m.groups) * across, bits, [&](std::int64_t w, int i) {
                        const auto row = static_cast<int>(w % across) * in_word + i;
                        const auto group = static_cast<int>(w / across);
                        return m.zero[static_cast<size_t>(row * m.groups + group)] - offset;
                      })});
  std::vector<float> scales;
  for (int g = 0; g < m.groups; ++g) {
    for (int r = 0; r < m.rows; ++r) scales.push_back(m.scale[static_cast<size_t>(r * m.groups + g)]);
  }
  out.put(".scales", {"F16", {m.groups, m.rows}, halves(scales)});
  out.put(".g_idx", order_of(m));
}

// AutoAWQ's: eight outputs of an input in a word, those of even number first.
inline void write_awq(const Codes& m, const Written& out) {
  constexpr int kOrder[] = {0, 2, 4, 6, 1, 3, 5, 7};
  const int across = m.rows / 8;
  const auto words = [&](int lines, const std::function<int(int line, int row)>& code) {
    return WrittenTensor{
        "I32", {lines, across}, packed(static_cast<std::int64_t>(lines) * across, 4, [&](std::int64_t w, int i) {
          return code(static_cast<int>(w / across), static_cast<int>(w % across) * 8 + kOrder[i]);
        })};
  };
  out.put(".qweight", words(m.cols, [&](int input, int row) { return m.at(row, input); }));
  out.put(".qzeros",
          words(m.groups, [&](int group, int row) { return m.zero[static_cast<size_t>(row * m.groups + group)]; }));
  std::vector<float> scales;
  for (int g = 0; g < m.groups; ++g) {
    for (int r = 0; r < m.rows; ++r) scales.push_back(m.scale[static_cast<size_t>(r * m.groups + g)]);
  }
  out.put(".scales", {"F16", {m.groups, m.rows}, halves(scales)});
}

// compressed-tensors': inputs of an output in words; zeros down the outputs.
inline void write_packed(const Codes& m, int bits, const Written& out) {
  const int in_word = 32 / bits;
  const int across = m.cols / in_word;
  out.put(
      ".weight_packed",
      {"I32", {m.rows, across}, packed(static_cast<std::int64_t>(m.rows) * across, bits, [&](std::int64_t w, int i) {
         return m.at(static_cast<int>(w / across), static_cast<int>(w % across) * in_word + i);
       })});
  out.put(".weight_scale", {"F16", {m.rows, m.groups}, halves(m.scale)});
  out.put(".weight_shape", {"I64", {2}, bytes_of(std::vector<std::int64_t>{m.rows, m.cols})});
}
inline void write_packed_zeros(const Codes& m, int bits, const Written& out) {
  write_packed(m, bits, out);
  const int in_word = 32 / bits;
  out.put(".weight_zero_point",
          {"I32",
           {m.rows / in_word, m.groups},
           packed(static_cast<std::int64_t>(m.rows / in_word) * m.groups, bits, [&](std::int64_t w, int i) {
             const auto row = static_cast<int>(w / m.groups) * in_word + i;
             return m.zero[static_cast<size_t>(row * m.groups + static_cast<int>(w % m.groups))];
           })});
}

// The scales of blocks, one for each: those of a codes' rows are alike within one.
inline WrittenTensor block_scales(const Codes& m, int block_rows) {
  std::vector<float> scales;
  for (int r = 0; r < m.rows; r += block_rows) {
    for (int g = 0; g < m.groups; ++g) scales.push_back(m.scale[static_cast<size_t>(r * m.groups + g)]);
  }
  return {"F32", {(m.rows + block_rows - 1) / block_rows, m.groups}, bytes_of(scales)};
}

struct Format {
  std::string name;
  std::string config;
  Scheme scheme;
  DType type;  // in memory
  std::function<void(const Codes&, const Written&)> write;
};
inline std::ostream& operator<<(std::ostream& out, const Format& format) { return out << format.name; }

inline const std::string kCompressed =
    R"({"quant_method":"compressed-tensors","format":"pack-quantized","config_groups":)"
    R"({"group_0":{"targets":["Linear"],"weights":{"num_bits":4,"type":"int"}}}})";
inline const std::string kGptq = R"({"quant_method":"gptq","bits":4,"group_size":32,"desc_act":false,"sym":false})";
inline const std::string kGptq2 = R"({"quant_method":"gptq","bits":4,"checkpoint_format":"gptq_v2"})";

inline std::vector<Format> all_quantized_formats() {
  using enum DType;
  const auto bytes = [](const char* type, bool one) {
    return [type, one](const Codes& m, const Written& out) {
      out.put(".weight", rows_of_bytes(m, type));
      if (one) out.put(".weight_scale", {"F32", {}, bytes_of(std::vector{m.scale[0]})});
      if (!one) out.put(".weight_scale", {"F16", {m.rows, m.groups}, halves(m.scale)});
    };
  };
  const auto blocks = [](const Codes& m, const Written& out) {
    out.put(".weight", rows_of_bytes(m, "F8_E4M3"));
    out.put(".weight_scale_inv", block_scales(m, 48));
  };
  const auto zeros = [&bytes](const Codes& m, const Written& out) {
    bytes("I8", false)(m, out);
    std::string stored;
    for (const int zero : m.zero) stored.push_back(static_cast<char>(zero - 128));
    out.put(".weight_zero_point", {"I8", {m.rows, m.groups}, stored});
  };
  const auto gptq = [](int bits, int offset) {
    return [bits, offset](const Codes& m, const Written& out) { write_gptq(m, bits, offset, out); };
  };
  const auto pack = [](int bits) {
    return [bits](const Codes& m, const Written& out) { write_packed(m, bits, out); };
  };
  const auto packed_order = [](const Codes& m, const Written& out) {
    write_packed_zeros(m, 4, out);
    out.put(".weight_g_idx", order_of(m));
  };
  const Scheme fp8{.bits = 8, .group = 0, .e4m3 = true};
  Scheme fp8_all = fp8;
  fp8_all.block_rows = 0;
  Scheme fp8_blocks = fp8;
  fp8_blocks.group = 64;
  fp8_blocks.block_rows = 48;
  return {
      {"fp8_blocks", R"({"quant_method":"fp8","weight_block_size":[48,64],"fmt":"e4m3"})", fp8_blocks, kFp8x32,
       blocks},
      {"fp8_outputs", kCompressed, fp8, kFp8x32, bytes("F8_E4M3", false)},
      {"fp8_tensor", R"({"quant_method":"fp8","activation_scheme":"static"})", fp8_all, kFp8x32,
       bytes("F8_E4M3", true)},
      {"int8_outputs", kCompressed, {.bits = 8, .group = 0}, kInt8x32, bytes("I8", false)},
      {"int8_groups", kCompressed, {.bits = 8, .group = 32}, kInt8x32, bytes("I8", false)},
      {"int8_zeros", kCompressed, {.bits = 8, .group = 0, .own_zeros = true}, kF32, zeros},
      {"int4_groups", kCompressed, {}, kInt4x32, pack(4)},
      {"int4_outputs", kCompressed, {.group = 0}, kInt4x32, pack(4)},
      {"int4_small_groups", kCompressed, {.group = 16}, kF32, pack(4)},
      {"int4_zeros",
       kCompressed,
       {.own_zeros = true},
       kInt4x32,
       [](const Codes& m, const Written& out) { write_packed_zeros(m, 4, out); }},
      {"int4_order", kCompressed, {.own_zeros = true, .act_order = true}, kF32, packed_order},
      {"int8_packed", kCompressed, {.bits = 8, .group = 32}, kInt8x32, pack(8)},
      {"awq",
       R"({"quant_method":"awq","bits":4,"group_size":32,"version":"gemm","zero_point":true})",
       {.own_zeros = true},
       kInt4x32,
       write_awq},
      {"gptq", kGptq, {.own_zeros = true}, kInt4x32, gptq(4, 1)},
      {"gptq_v2", kGptq2, {.own_zeros = true}, kInt4x32, gptq(4, 0)},
      {"gptq_order", kGptq, {.act_order = true}, kF32, gptq(4, 1)},
      {"gptq_8_bits", R"({"quant_method":"gptq","bits":8})", {.bits = 8, .group = 0}, kInt8x32, gptq(8, 1)},
  };
}

}  // namespace kvasir::testing
