#include "model/families/mamba_config.h"

#include <fmt/format.h>

#include <limits>

namespace kvasir {
namespace {

float step_limit(const JsonReader& value) {
  if (!value.is_text() && !value.is_object()) return static_cast<float>(value.number());
  const std::string_view text = value.is_text() ? value.text() : value.get("__float__").text();
  if (text != "Infinity") value.fail("is neither a number nor Infinity");
  return std::numeric_limits<float>::infinity();
}

}  // namespace

void read_step_limits(const JsonReader& in, RecurrentSpec& recurrent) {
  const std::optional<JsonReader> limits = in.find("time_step_limit");
  if (!limits) return;
  if (limits->items().size() != 2) limits->fail("is not two numbers");
  bool first = true;
  for (const JsonReader one : limits->items()) {
    (first ? recurrent.least_step : recurrent.most_step) = step_limit(one);
    first = false;
  }
}

std::vector<float> read_multipliers(const JsonReader& in, std::string_view key, size_t count) {
  const std::optional<JsonReader> list = in.find(key);
  if (!list) return std::vector<float>(count, 1.0F);
  std::vector<float> out;
  if (list->items().size() != count) list->fail(fmt::format("has {} numbers, not {}", list->items().size(), count));
  for (const JsonReader one : list->items()) out.push_back(static_cast<float>(one.number()));
  return out;
}

void read_mamba(const JsonReader& in, int inner, DecoderConfig& config) {
  require_flag(in, "mamba_proj_bias", false);
  const auto size = [&in](const char* key, std::int64_t most, std::int64_t fallback) {
    return static_cast<int>(config_integer(in, key, {1, most}, fallback));
  };
  RecurrentSpec& recurrent = config.recurrent;
  recurrent.kind = RecurrentSpec::Kind::kMamba2;
  recurrent.heads = size("mamba_n_heads", ShapeLimits::kHeads, 128);
  recurrent.k_heads = size("mamba_n_groups", ShapeLimits::kHeads, 1);
  recurrent.k_dim = size("mamba_d_state", kMostStateRows, 256);
  recurrent.conv_weights = size("mamba_d_conv", kMostConvWeights, 4);
  recurrent.conv_bias = in.flag_or("mamba_conv_bias", true);
  recurrent.norm_stage = RecurrentSpec::NormStage::kBehindGate;
  if (inner == 0) inner = size("mamba_expand", 64, 2) * config.hidden;
  if (inner % recurrent.heads != 0) in.fail_inside("mamba_n_heads do not divide what they share");
  recurrent.v_dim = inner / recurrent.heads;
  const std::optional<JsonReader> head = in.find("mamba_d_head");
  if (head && !head->is_text() && head->integer() != recurrent.v_dim) {
    head->fail(fmt::format("is not the {} numbers of {} heads", inner, recurrent.heads));
  }
  read_step_limits(in, recurrent);
}

}  // namespace kvasir
