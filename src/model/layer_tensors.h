// Writes a layer's part of the list of a model's tensors: what tensors.cpp and recurrent_tensors.cpp share.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/tensors.h"

namespace kvasir {

class LayerTensors {
 public:
  LayerTensors(std::vector<TensorSpec>& out, int layer, GgufRows rotated, const LayerNames& names)
      : out_(out), layer_(layer), rotated_(rotated), names_(names) {}

  void norm(const TensorName& name, int size, TensorRole role, bool biased = false) {
    add(name.name, name.gguf, "weight", {.rows = size, .role = role});
    if (biased) add(name.name, name.gguf, "bias", {.rows = size, .role = role, .bias = true});
  }
  // Names with their suffix; the expert's number stands for "{}".
  void expert(std::string_view name, std::string_view gguf, TensorSpec like) {
    like.name = fmt::format("{}.{}.{}", names_.layers, layer_, fmt::format(fmt::runtime(name), like.expert));
    like.gguf = fmt::format("blk.{}.{}", layer_, gguf);
    like.layer = layer_;
    out_.push_back(std::move(like));
  }
  // A part of a tensor that holds several, which one `slice` says.
  void part(std::string_view name, std::string_view part, TensorSpec like) {
    like.name = fmt::format("{}.{}.{}.{}.weight", names_.layers, layer_, name, part);
    like.hf.name = fmt::format("{}.{}.{}.weight", names_.layers, layer_, name);
    like.layer = layer_;
    out_.push_back(std::move(like));
  }
  // Of a name without suffix, or with one.
  void state(std::string_view name, TensorSpec like) {
    like.name = fmt::format("{}.{}.{}", names_.layers, layer_, name);
    like.layer = layer_;
    out_.push_back(std::move(like));
  }
  // A part of the tensor that holds a key's latent and what is rotated of it.
  void latent(TensorSpec like, std::string_view part, bool biased) {
    for (const char* suffix : {"weight", "bias"}) {
      const std::string name = fmt::format("{}.{}.self_attn.kv_a_proj_with_mqa", names_.layers, layer_);
      like.bias = suffix == std::string_view("bias");
      if (like.bias && !biased) return;
      if (like.bias) like.cols = 0;
      like.name = fmt::format("{}.{}.{}", name, part, suffix);
      like.hf.name = fmt::format("{}.{}", name, suffix);
      like.gguf = fmt::format("blk.{}.attn_kv_a_mqa.{}", layer_, suffix);
      like.layer = layer_;
      out_.push_back(like);
    }
  }
  void latent_up(std::string_view gguf, TensorSpec like) {
    const std::string name = fmt::format("{}.{}.self_attn.kv_b_proj", names_.layers, layer_);
    like.name = fmt::format("{}.{}.weight", name, gguf);
    like.hf.name = name + ".weight";
    like.gguf = fmt::format("blk.{}.{}.weight", layer_, gguf);
    like.gguf_else.push_back({fmt::format("blk.{}.attn_kv_b.weight", layer_), like.hf.slice});
    like.layer = layer_;
    out_.push_back(std::move(like));
  }
  void sinks(int heads) {  // whose name has no suffix
    add("self_attn.sinks", "attn_sinks", "weight", {.rows = heads, .role = TensorRole::kSinks});
    out_.back().name = fmt::format("{}.{}.self_attn.sinks", names_.layers, layer_);
  }
  void linear(const TensorName& name, TensorSpec like, bool biased) {
    const bool turned = like.role == TensorRole::kQ || like.role == TensorRole::kK;
    like.gguf_rows = turned ? rotated_ : GgufRows::kAsStored;
    add(name.name, name.gguf, "weight", like);
    if (!biased) return;
    like.cols = 0;
    like.bias = true;
    add(name.name, name.gguf, "bias", like);
  }

 private:
  void add(std::string_view name, std::string_view gguf, std::string_view suffix, TensorSpec like) {
    like.name = fmt::format("{}.{}.{}.{}", names_.layers, layer_, name, suffix);
    like.gguf = fmt::format("blk.{}.{}.{}", layer_, gguf, suffix);
    like.layer = layer_;
    out_.push_back(std::move(like));
  }

  std::vector<TensorSpec>& out_;
  int layer_;
  GgufRows rotated_;
  const LayerNames& names_;
};

// What remembers a text in a layer: recurrent_tensors.cpp.
void add_recurrent(LayerTensors& to, const RecurrentSpec& spec, int hidden, const LayerNames& names);

}  // namespace kvasir
