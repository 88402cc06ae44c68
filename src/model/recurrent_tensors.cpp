// What recurrent layers are made of, by kind.
#include <fmt/format.h>

#include <initializer_list>
#include <string>
#include <tuple>
#include <utility>

#include "model/layer_tensors.h"

namespace kvasir {
namespace {

using enum TensorRole;

// The tensors of one layer's state, each name behind what stands before all of them.
class StateTensors {
 public:
  StateTensors(LayerTensors& to, std::string_view prefix) : to_(to), prefix_(prefix) {}

  void add(std::string_view name, TensorSpec like) {
    to_.state(fmt::format("{}.{}", prefix_, name), std::move(like));
  }
  void part(std::string_view tensor, std::string_view name, TensorSpec like) {
    to_.part(fmt::format("{}.{}", prefix_, tensor), name, std::move(like));
  }
  void conv(std::string_view name, TensorSpec like) {
    like.hf.channels = true;
    add(fmt::format("{}.weight", name), std::move(like));
  }

 private:
  LayerTensors& to_;
  std::string_view prefix_;
};

void add_state_conv(StateTensors& to, const RecurrentSpec& r, const std::string& name) {
  to.conv(name, {.rows = r.conv_channels(), .cols = r.conv_weights, .role = kStateConv});
  if (r.conv_bias) to.add(name + ".bias", {.rows = r.conv_channels(), .role = kStateConv, .bias = true});
}

void add_mamba(StateTensors& to, const RecurrentSpec& r, int hidden) {
  const std::int64_t all = r.in_width();
  std::int64_t first = 0;
  const auto part = [&](const char* name, TensorRole role, int rows) {
    TensorSpec like{.rows = rows, .cols = hidden, .role = role};
    like.hf.slice = {all, first, rows, rows};
    first += rows;
    to.part("in_proj", name, like);
  };
  part("z", kStateGate, r.v_width());
  part("x", kStateV, r.v_width());
  part("b", kStateK, r.k_width());
  part("c", kStateQ, r.k_width());
  part("dt", kStateDecay, r.heads);
  add_state_conv(to, r, "conv1d");
  to.add("dt_bias", {.rows = r.heads, .role = kStateStepBias});
  to.add("A_log", {.rows = r.heads, .role = kStateRate});
  to.add("D", {.rows = r.heads, .role = kStateSkip});
  if (r.norm_stage != RecurrentSpec::NormStage::kNone) {
    to.add("norm.weight", {.rows = r.v_width(), .role = kStateNorm});
  }
  to.add("out_proj.weight", {.rows = hidden, .cols = r.v_width(), .role = kStateOut});
}

// The gates, of what goes in and of what comes out, and the values.
void add_short_conv(StateTensors& to, const RecurrentSpec& r, int hidden) {
  const std::int64_t width = r.v_width();
  std::int64_t first = 0;
  for (const auto& [name, role] : {std::pair("b", kStateQ), std::pair("c", kStateGate), std::pair("x", kStateV)}) {
    TensorSpec like{.rows = width, .cols = hidden, .role = role};
    like.hf.slice = {3 * width, first, width, width};
    first += width;
    to.part("in_proj", name, like);
  }
  add_state_conv(to, r, "conv");
  to.add("out_proj.weight", {.rows = hidden, .cols = r.v_width(), .role = kStateOut});
}

// Queries, keys, values, gates, strengths and decays. Where they lie by key head, each has a part of that head's
// rows.
void add_delta_inputs(StateTensors& to, const RecurrentSpec& r, int hidden) {
  struct Part {
    const char* name;
    TensorRole role;
    int rows;
  };
  const auto add = [&](const char* tensor, std::initializer_list<Part> parts) {
    const std::int64_t groups = r.packing == RecurrentSpec::Packing::kByKeyHead ? r.k_heads : 1;
    std::int64_t all = 0;
    for (const Part& part : parts) all += part.rows;
    std::int64_t first = 0;
    for (const Part& part : parts) {
      TensorSpec like{.rows = part.rows, .cols = hidden, .role = part.role};
      like.hf.slice = {all, first, part.rows / groups, all / groups};
      first += part.rows / groups;
      to.part(tensor, part.name, like);
    }
  };
  const Part q{"q", kStateQ, r.k_width()};
  const Part k{"k", kStateK, r.k_width()};
  const Part v{"v", kStateV, r.v_width()};
  if (r.packing == RecurrentSpec::Packing::kByKeyHead) {
    add("in_proj_qkvz", {q, k, v, {"z", kStateGate, r.v_width()}});
    return add("in_proj_ba", {{"b", kStateStrength, r.heads}, {"a", kStateDecay, r.heads}});
  }
  add("in_proj_qkv", {q, k, v});
  to.add("in_proj_z.weight", {.rows = r.v_width(), .cols = hidden, .role = kStateGate});
  to.add("in_proj_b.weight", {.rows = r.heads, .cols = hidden, .role = kStateStrength});
  to.add("in_proj_a.weight", {.rows = r.heads, .cols = hidden, .role = kStateDecay});
}

void add_delta_net(StateTensors& to, const RecurrentSpec& r, int hidden) {
  add_delta_inputs(to, r, hidden);
  add_state_conv(to, r, "conv1d");
  to.add("dt_bias", {.rows = r.heads, .role = kStateStepBias});
  to.add("A_log", {.rows = r.heads, .role = kStateRate});
  to.add("norm.weight", {.rows = r.v_dim, .role = kStateNorm});
  to.add("out_proj.weight", {.rows = hidden, .cols = r.v_width(), .role = kStateOut});
}

// Gates (g) and decays (f) come through a few numbers; each of queries, keys and values has a convolution.
void add_kda(StateTensors& to, const RecurrentSpec& r, int hidden) {
  const std::int64_t decays = std::int64_t{r.heads} * r.k_dim;
  for (const auto& [name, role, conv, rows] :
       {std::tuple("q", kStateQ, kStateConvQ, r.k_width()), std::tuple("k", kStateK, kStateConvK, r.k_width()),
        std::tuple("v", kStateV, kStateConvV, r.v_width())}) {
    to.add(fmt::format("{}_proj.weight", name), {.rows = rows, .cols = hidden, .role = role});
    to.conv(fmt::format("{}_conv1d", name), {.rows = rows, .cols = r.conv_weights, .role = conv});
  }
  to.add("f_a_proj.weight", {.rows = r.gate_rank, .cols = hidden, .role = kStateDecayIn});
  to.add("f_b_proj.weight", {.rows = decays, .cols = r.gate_rank, .role = kStateDecayOut});
  to.add("dt_bias", {.rows = decays, .role = kStateStepBias});
  to.add("A_log", {.rows = r.heads, .role = kStateRate});
  to.add("b_proj.weight", {.rows = r.heads, .cols = hidden, .role = kStateStrength});
  to.add("g_a_proj.weight", {.rows = r.gate_rank, .cols = hidden, .role = kStateGateIn});
  to.add("g_b_proj.weight", {.rows = r.v_width(), .cols = r.gate_rank, .role = kStateGateOut});
  to.add("o_norm.weight", {.rows = r.v_dim, .role = kStateNorm});
  to.add("o_proj.weight", {.rows = hidden, .cols = r.v_width(), .role = kStateOut});
}

struct StateForm {
  std::string_view prefix;  // unless the family has another one
  void (*add)(StateTensors& to, const RecurrentSpec& spec, int hidden);
};

StateForm form_of(RecurrentSpec::Kind kind) {
  switch (kind) {
    case RecurrentSpec::Kind::kDeltaNet:
      return {"linear_attn", add_delta_net};
    case RecurrentSpec::Kind::kMamba2:
      return {"mamba", add_mamba};
    case RecurrentSpec::Kind::kKda:
      return {"self_attn", add_kda};
    case RecurrentSpec::Kind::kShortConv:
    case RecurrentSpec::Kind::kNone:
      break;
  }
  return {"conv", add_short_conv};
}

}  // namespace

void add_recurrent(LayerTensors& to, const RecurrentSpec& spec, int hidden, const LayerNames& names) {
  const StateForm form = form_of(spec.kind);
  StateTensors tensors(to, names.state.empty() ? form.prefix : names.state);
  form.add(tensors, spec, hidden);
}

}  // namespace kvasir
