// The metadata of one architecture, typed: "gemma2.block_count" is key("block_count").
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/families/family.h"
#include "model/gguf/gguf_model.h"

namespace kvasir {

// What is there with the wrong type, outside its range or of the wrong length is an Error that names the key.
class GgufReader {
 public:
  GgufReader(const GgufModel& model, std::string_view architecture) : model_(model), architecture_(architecture) {}

  const GgufModel& model() const { return model_; }
  std::string key(std::string_view name) const;
  [[noreturn]] void fail(std::string what) const { model_.fail(std::move(what)); }

  int size(std::string_view name, std::int64_t most) const;  // must be there
  int size_or(std::string_view name, std::int64_t most, int fallback) const;
  std::optional<std::int64_t> integer_if(std::string_view name, std::int64_t least, std::int64_t most) const;
  std::optional<double> positive_if(std::string_view name) const;
  std::optional<double> not_negative_if(std::string_view name) const;
  std::optional<double> finite_if(std::string_view name) const;
  std::optional<bool> flag_if(std::string_view name) const;
  std::optional<std::string_view> text_if(std::string_view name) const;
  bool has_tensor(std::string_view name) const { return model_.find(name) != nullptr; }
  int rows_of(std::string_view tensor, std::int64_t most) const;  // of a matrix; 0: it is not there

  // One number for all layers, or a list of one for each. None: the key is not there.
  std::optional<std::vector<std::int64_t>> per_layer(std::string_view name, IntegerRange range, int layers) const;
  // That of the first layer, of either.
  int of_first_layer(std::string_view name, std::int64_t most, int fallback, int layers) const;
  // The same where all layers must be alike.
  int alike(std::string_view name, std::int64_t most, int fallback, int layers) const;

 private:
  const GgufModel& model_;
  std::string_view architecture_;
};

// The number for layers with a window, or for those without, of a list of one for each layer, which must be alike.
// None: there are no such layers. Where no layer has a window, that of the first one.
enum class LayerKind : std::uint8_t { kWindowed, kGlobal };
std::optional<int> of_kind(const GgufReader& in, std::string_view name, LayerKind kind, const DecoderConfig& config);

// config.windows: `window` tokens in the layers that the rule names, all of which may be none.
void set_windows(std::int64_t window, WindowRule rule, DecoderConfig& config);

// The layers without a window, where others have one, have no rope either: what some architectures mean.
void drop_global_ropes(DecoderConfig& config);

// The rope of layers with a window, where it is not the others': of rope.freq_base_swa, or `unsaid`, and not scaled.
void set_plain_local_rope(const GgufReader& in, double unsaid, DecoderConfig& config);

}  // namespace kvasir
