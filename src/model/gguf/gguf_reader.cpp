#include "model/gguf/gguf_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace kvasir {

std::string GgufReader::key(std::string_view name) const { return fmt::format("{}.{}", architecture_, name); }

int GgufReader::size(std::string_view name, std::int64_t most) const {
  return static_cast<int>(model_.integer(key(name), 1, most));
}

int GgufReader::size_or(std::string_view name, std::int64_t most, int fallback) const {
  return static_cast<int>(model_.integer_if(key(name), 1, most).value_or(fallback));
}

std::optional<std::int64_t> GgufReader::integer_if(std::string_view name, std::int64_t least,
                                                   std::int64_t most) const {
  return model_.integer_if(key(name), least, most);
}

std::optional<double> GgufReader::positive_if(std::string_view name) const { return model_.positive_if(key(name)); }

std::optional<double> GgufReader::not_negative_if(std::string_view name) const {
  return model_.not_negative_if(key(name));
}

std::optional<double> GgufReader::finite_if(std::string_view name) const { return model_.finite_if(key(name)); }

int GgufReader::rows_of(std::string_view tensor, std::int64_t most) const {
  const GgufTensor* found = model_.find(tensor);
  if (found == nullptr) return 0;
  if (found->shape.size() != 2 || found->shape[0] < 1 || found->shape[0] > most) {
    fail(fmt::format("{} is no matrix of 1 to {} rows", tensor, most));
  }
  return static_cast<int>(found->shape[0]);
}

std::optional<bool> GgufReader::flag_if(std::string_view name) const { return model_.flag_if(key(name)); }

std::optional<std::string_view> GgufReader::text_if(std::string_view name) const { return model_.text_if(key(name)); }

std::optional<std::vector<std::int64_t>> GgufReader::per_layer(std::string_view name, IntegerRange range,
                                                               int layers) const {
  const GgufValue* value = model_.value(key(name));
  if (value == nullptr) return std::nullopt;
  const auto count = static_cast<size_t>(layers);
  const auto* numbers = std::get_if<GgufNumbers>(value);
  if (numbers == nullptr) return std::vector(count, model_.integer(key(name), range.least, range.most));
  const auto further = static_cast<size_t>(integer_if("nextn_predict_layers", 0, ShapeLimits::kLayers).value_or(0));
  if (numbers->size() != count && numbers->size() != count + further)
    fail(fmt::format("{} has {} entries for {} layers", key(name), numbers->size(), layers));
  std::vector<std::int64_t> out;
  for (size_t i = 0; i < count; ++i) {
    const double one = numbers->at(i);
    const bool inside = one >= static_cast<double>(range.least) && one <= static_cast<double>(range.most);
    if (!inside || one != std::floor(one)) {
      fail(fmt::format("{} is {} for layer {}, outside {}..{}", key(name), one, i, range.least, range.most));
    }
    out.push_back(static_cast<std::int64_t>(one));
  }
  return out;
}

int GgufReader::of_first_layer(std::string_view name, std::int64_t most, int fallback, int layers) const {
  const auto all = per_layer(name, {1, most}, layers);
  return all ? static_cast<int>(all->front()) : fallback;
}

int GgufReader::alike(std::string_view name, std::int64_t most, int fallback, int layers) const {
  const auto all = per_layer(name, {1, most}, layers);
  if (!all) return fallback;
  if (std::ranges::adjacent_find(*all, std::ranges::not_equal_to{}) != all->end()) {
    fail(fmt::format("{} differs between layers, which is not supported", key(name)));
  }
  return static_cast<int>(all->front());
}

std::optional<int> of_kind(const GgufReader& in, std::string_view name, LayerKind kind, const DecoderConfig& config) {
  const auto all = in.per_layer(name, {1, ShapeLimits::kFfn}, config.layers);
  std::optional<int> out;
  if (all && config.windows.empty()) return static_cast<int>(all->front());
  for (size_t i = 0; all && i < all->size(); ++i) {
    const bool windowed = config.windows[i] > 0;
    if (windowed != (kind == LayerKind::kWindowed)) continue;
    const int one = static_cast<int>((*all)[i]);
    if (out.value_or(one) != one) {
      in.fail(fmt::format("{} differs between layers of one kind, which is not supported", in.key(name)));
    }
    out = one;
  }
  return out;
}

void set_windows(std::int64_t window, WindowRule rule, DecoderConfig& config) {
  config.windows.clear();
  for (int layer = 0; layer < config.layers; ++layer) {
    config.windows.push_back(rule.windowed(layer) ? window : 0);
  }
}

void drop_global_ropes(DecoderConfig& config) {
  for (int layer = 0; layer < static_cast<int>(config.windows.size()); ++layer) {
    if (config.windows[static_cast<size_t>(layer)] == 0) config.no_rope_layers.push_back(layer);
  }
}

void set_plain_local_rope(const GgufReader& in, double unsaid, DecoderConfig& config) {
  config.local_rope.emplace();
  config.local_rope->theta = in.positive_if("rope.freq_base_swa").value_or(unsaid);
}

}  // namespace kvasir
