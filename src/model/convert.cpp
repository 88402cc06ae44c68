#include "model/convert.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <list>
#include <map>
#include <optional>

#include "backend/quant/encode.h"
#include "backend/weight_reader.h"
#include "base/check.h"
#include "base/error.h"
#include "model/config.h"
#include "model/families/family.h"
#include "model/gguf/gguf_description.h"
#include "model/gguf/gguf_heads.h"
#include "model/tensors.h"
#include "model/weights.h"

namespace kvasir {
namespace {

// general.file_type: what most tensors are.
std::uint32_t file_type_of(DType type) {
  switch (type) {
    case DType::kF32:
      return 0;
    case DType::kF16:
      return 1;
    case DType::kQ4_0:
      return 2;
    case DType::kQ8_0:
      return 7;
    case DType::kQ4_K:
      return 15;
    case DType::kQ6_K:
      return 18;
    default:
      return 32;  // bf16
  }
}

// Which of a tensor's rows a file's tensor has at `row`; none: it is another's.
std::optional<int> row_within(const TensorSpec& spec, std::int64_t row) {
  const RowSlice& slice = spec.gguf_at.slice;
  if (slice.whole()) return static_cast<int>(row);
  const std::int64_t from_first = row - slice.first;
  if (from_first < 0 || from_first % slice.period >= slice.block) return std::nullopt;
  const std::int64_t ours = from_first / slice.period * slice.block + from_first % slice.period;
  return ours < spec.rows ? std::optional(static_cast<int>(ours)) : std::nullopt;
}

// A tensor of a GGUF file: one of ours, or several, of all experts of a layer or one below the other. They are looked
// up when the writer comes to it, and let go behind it: some are copies.
class OutTensor {
 public:
  OutTensor(const Weights& weights, const TensorSpec& first, DType wanted)
      : weights_(weights), type_(converted_type(wanted, first)) {}

  void add(const TensorSpec& spec) { parts_.push_back({spec, {}, {}}); }

  GgufOutTensor made() {
    const TensorSpec& first = parts_.front().spec;
    GgufOutTensor out{.name = first.gguf, .type = type_};
    if (first.expert >= 0) out.shape.push_back(first.experts);
    if (first.gguf_at.parts > 0) out.shape.push_back(first.gguf_at.parts);
    if (first.gguf_vector_cols > 0) {
      out.shape = {file_rows() / first.gguf_vector_cols, first.gguf_vector_cols};
    } else if (!first.vector()) {
      out.shape.push_back(file_rows() * first.cols / std::max(first.gguf_at.parts, 1) / first.gguf_cols());
      if (first.gguf_at.channels) out.shape.push_back(1);
      out.shape.push_back(first.gguf_cols());
    } else {
      out.shape.push_back(file_rows());
    }
    out.open = [this] { open(); };
    out.close = [this] { close(); };
    if (first.vector()) {
      out.make_row = [this](std::int64_t row, std::byte* to) { return make_vector(row, to); };
    } else if (turned(first)) {
      out.make_row = [this](std::int64_t row, std::byte* to) { return make_turned_row(row, to); };
    } else {
      out.make_row = [this](std::int64_t row, std::byte* to) { return make_matrix_row(row, to); };
    }
    return out;
  }

 private:
  struct Part {
    TensorSpec spec;
    HostWeight weight;
    std::vector<float> values;  // of a vector, or of a matrix that is turned around
  };

  std::int64_t file_rows() const {
    const TensorSpec& first = parts_.front().spec;
    return first.gguf_at.slice.whole() ? first.rows : first.gguf_at.slice.file_rows;
  }
  static bool turned(const TensorSpec& spec) { return spec.gguf_at.axes == FilePlace::Axes::kTransposed; }

  void open() {
    for (Part& part : parts_) {
      if (part.spec.vector()) {
        const HostWeight stored = weights_.vector(part.spec.name, part.spec.row_count());
        part.values = read_vector(stored);
        weights_.done_with(stored);
      } else {
        part.weight = weights_.matrix(part.spec.name, part.spec.row_count(), part.spec.cols);
        if (turned(part.spec)) part.values = read_matrix(part.weight);
      }
    }
  }
  void close() {
    for (Part& part : parts_) {
      if (!part.spec.vector()) weights_.done_with(part.weight);
      part.values = {};
    }
  }

  static std::vector<float> read_matrix(const HostWeight& weight) {
    std::vector<float> out(static_cast<size_t>(weight.rows) * static_cast<size_t>(weight.cols));
    for (int r = 0; r < weight.rows; ++r) {
      read_row(weight, r, out.data() + static_cast<std::ptrdiff_t>(r) * weight.cols);
    }
    return out;
  }

  // Ours that a row of the file is of. Every one of a slice's rows is somebody's.
  struct Place {
    const Part* part;
    int row;
  };
  Place place_of(std::int64_t expert, std::int64_t row) const {
    for (const Part& part : parts_) {
      if (part.spec.expert >= 0 && part.spec.expert != expert) continue;
      const std::optional<int> ours = row_within(part.spec, row);
      if (ours) return {&part, our_row(part.spec, *ours)};
    }
    CHECK(false);
  }
  // Where we have the row that GGUF has at `row`.
  static int our_row(const TensorSpec& spec, int row) {
    if (spec.gguf_tiles.of == HeadTiles::Of::kRows) row = spec.gguf_tiles.our_place(row);
    if (spec.gguf_rows == GgufRows::kAsStored) return row;
    return InterleavedRows{spec.head_dim, spec.rotated_dim, spec.rotated_first}.hugging_face_row(row);
  }

  bool make_matrix_row(std::int64_t row, std::byte* to) const {
    const Place place = place_of(row / file_rows(), row % file_rows());
    std::vector<float> values(static_cast<size_t>(place.part->spec.cols));
    read_row(place.part->weight, place.row, values.data());
    if (place.part->spec.gguf_tiles.of == HeadTiles::Of::kColumns)
      values = tiled(place.part->spec.gguf_tiles, values);
    if (!fit(values, type_)) return false;
    encode_row(type_, values.data(), place.part->spec.cols, to);
    return true;
  }
  static std::vector<float> tiled(const HeadTiles& tiles, const std::vector<float>& ours) {
    std::vector<float> out(ours.size());
    for (size_t i = 0; i < out.size(); ++i) out[i] = ours[static_cast<size_t>(tiles.our_place(static_cast<int>(i)))];
    return out;
  }
  // A column of ours, of one of the parts.
  bool make_turned_row(std::int64_t row, std::byte* to) const {
    const Part& part = parts_.front();
    const auto cols = static_cast<std::int64_t>(part.spec.cols);
    std::vector<float> values(static_cast<size_t>(part.spec.gguf_cols()));
    const std::int64_t first = row / cols * part.spec.gguf_cols() * cols + row % cols;
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = part.values[static_cast<size_t>(first + static_cast<std::int64_t>(i) * cols)];
    }
    if (!fit(values, type_)) return false;
    encode_row(type_, values.data(), static_cast<int>(values.size()), to);
    return true;
  }
  // Of all experts one's, or of a vector that is a matrix there a row.
  bool make_vector(std::int64_t index, std::byte* to) const {
    const std::int64_t cols = parts_.front().spec.gguf_vector_cols;
    const std::int64_t first = cols > 0 ? index * cols : 0;
    const std::int64_t expert = cols > 0 ? 0 : index;
    std::vector<float> values;
    for (std::int64_t i = first; i < (cols > 0 ? first + cols : file_rows()); ++i) {
      const Place place = place_of(expert, i);
      const float stored = place.part->values[static_cast<size_t>(place.row)];
      values.push_back(weights_.is_gguf() ? stored : as_in_gguf(place.part->spec, stored));
    }
    encode_row(type_, values.data(), static_cast<int>(values.size()), to);
    return true;
  }

  static float as_in_gguf(const TensorSpec& spec, float stored) {
    return spec.gguf_negated_exp ? -std::exp(stored) : stored + spec.offset;
  }

  static bool fit(const std::vector<float>& values, DType type) {
    const float most = type == DType::kF32 || type == DType::kBF16 ? 3.38e38F : 65504.0F;
    return std::ranges::all_of(values, [most](float value) { return std::fabs(value) <= most; });
  }

  const Weights& weights_;
  DType type_;
  std::vector<Part> parts_;
};

// All tensors of a file, in its order.
class OutTensors {
 public:
  OutTensors(const Weights& weights, DType wanted) : weights_(weights), wanted_(wanted) {}

  void add(const TensorSpec& spec) {
    if (spec.gguf.empty()) return;  // what no GGUF file has
    const auto [found, added] = by_name_.try_emplace(spec.gguf, nullptr);
    if (added) found->second = &all_.emplace_back(weights_, spec, wanted_);
    found->second->add(spec);
  }
  // A matrix that lies in a file of its own. Vectors are made of it on the host, so that it may be large.
  void add(std::string name, const Weights& stored, const VectorSpec::Dense& dense) {
    TensorSpec spec{.rows = dense.outputs, .cols = dense.inputs};
    spec.name = stored.is_gguf() ? name : "linear.weight";
    spec.gguf = std::move(name);
    all_.emplace_back(stored, spec, is_quantized(wanted_) ? DType::kQ8_0 : DType::kF32).add(spec);
  }
  void add(GgufVector vector) {
    const auto size = static_cast<std::int64_t>(vector.values.size());
    GgufOutTensor& out = extra_.emplace_back(GgufOutTensor{.name = std::move(vector.name), .shape = {size}});
    out.make_row = [values = std::move(vector.values)](std::int64_t, std::byte* to) {
      encode_row(DType::kF32, values.data(), static_cast<int>(values.size()), to);
      return true;
    };
  }

  std::vector<GgufOutTensor> made() {
    std::vector<GgufOutTensor> out = extra_;
    for (OutTensor& tensor : all_) out.push_back(tensor.made());
    return out;
  }

 private:
  const Weights& weights_;
  DType wanted_;
  std::list<OutTensor> all_;
  std::map<std::string, OutTensor*> by_name_;
  std::vector<GgufOutTensor> extra_;
};

}  // namespace

DType converted_type(DType wanted, const TensorSpec& tensor) {
  using enum TensorRole;
  constexpr std::array kKept{kRouter,     kPositions,  kTokenTypes, kStateConv,   kStateConvQ,
                             kStateConvK, kStateConvV, kRerankOut,  kRelativeBias};
  const bool kept = std::ranges::find(kKept, tensor.role) != kKept.end();
  if (tensor.vector() || kept) return DType::kF32;
  const bool table = tensor.role == kEmbedding || tensor.role == kHead;
  const DType first = wanted == DType::kQ4_K && table ? DType::kQ6_K : wanted;
  for (const DType type : {first, DType::kQ8_0}) {
    if (tensor.gguf_cols() % block_elements(type) == 0) return type;
  }
  return DType::kF16;
}

std::vector<std::string> convert_to_gguf(const std::filesystem::path& model, const std::filesystem::path& out,
                                         std::vector<GgufOutKey> tokenizer, const ConvertOptions& options) {
  if (!can_encode(options.weights)) {
    fail_usage(fmt::format("{} is a type that is read and not written", name_of(options.weights)), "--weights",
               "use f32, f16, bf16, q8_0, q4_0, q4_k or q6_k");
  }
  const ModelSpec spec = load_config(model);
  check_runnable(spec, model.string());
  if (gguf_form_of(spec).architecture.empty()) {
    fail_input(fmt::format("GGUF has no architecture for {} models", spec.family->name), model.string(),
               "run the model from its folder");
  }
  GgufDescription description = describe_as_gguf(spec, model.string());
  std::vector<GgufOutKey> metadata = std::move(description.keys);
  metadata.push_back({"general.name", std::filesystem::weakly_canonical(model).filename().string()});
  metadata.push_back({"general.file_type", file_type_of(options.weights)});
  metadata.push_back({"general.quantization_version", std::uint32_t{2}});
  std::ranges::move(tokenizer, std::back_inserter(metadata));
  const Weights weights(model, tensors_of(spec));
  OutTensors tensors(weights, options.weights);
  for (const TensorSpec& tensor : tensors_of(spec)) tensors.add(tensor);
  for (GgufVector& vector : description.vectors) tensors.add(std::move(vector));
  std::list<Weights> dense;  // of layers behind the pooling
  for (size_t i = 0; i < spec.vectors.dense.size(); ++i) {
    const VectorSpec::Dense& layer = spec.vectors.dense[i];
    tensors.add(gguf_dense_name(i),
                dense.emplace_back(layer.folder.empty() ? model : model / layer.folder, std::vector<TensorSpec>{}),
                layer);
  }
  write_gguf(out, metadata, tensors.made(), options.write);
  return std::move(description.notes);
}

}  // namespace kvasir
