// The cells that the laws hold in: backend x KV policy x model.
#pragma once

#include <algorithm>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "backend/cpu/isa.h"
#include "backend/cuda/cuda_backend.h"
#include "backend/make_backend.h"
#include "layout/codec.h"
#include "support/fixtures.h"
#include "support/quantized_model.h"
#include "support/rule_models.h"

namespace kvasir::testing {

// One cell of the matrix: backend x KV formats x model (its retention included).
struct Cell {
  // "far": cpu with memory that only its ops may touch; "repeating": ref, whose batches come again without their ops
  std::string device;
  std::string isa;
  int threads = 1;
  KvPolicy policy;
  std::string model;
  std::vector<std::int64_t> windows;
  ActivationPrecision activations = ActivationPrecision::kAsWeights;
  WeightQuantization weights = WeightQuantization::kAsStored;
  int sm_count = 0;  // of a GPU; 0: all

  std::string name() const {
    std::string out = device == "cpu" ? isa + "_t" + std::to_string(threads) : device.substr(0, device.find(':'));
    if (sm_count > 0) out += "_p" + std::to_string(sm_count);
    out += "_" + std::string(format_name(policy.k_format));
    if (policy.v_format != policy.k_format) out += "_" + std::string(format_name(policy.v_format));
    out += "_" + model;
    for (const std::int64_t window : windows) out += "_w" + std::to_string(window);
    if (activations == ActivationPrecision::kF32) out += "_f32_rows";
    if (weights != WeightQuantization::kAsStored) out += "_" + std::string(name_of(weights)) + "_weights";
    if (policy.k_rank > 0 || policy.v_rank > 0) out += "_rank";
    if (policy.channels > 0) out += "_channels";
    if (policy.states != StateFormat::kF32) out += "_states_" + std::string(state_format_name(policy.states));
    if (!policy.retention.full()) out += "_sinks";
    if (policy.recent > 0) out += "_recent";
    if (policy.evict.on()) out += "_" + std::string(name_of(policy.evict.method));
    if (policy.evict.budgets == TokenEviction::Budgets::kPyramid) out += "_pyramid";
    if (policy.evict.heads == TokenEviction::Heads::kAdaptive) out += "_adaptive";
    if (!policy.layers.empty()) out += "_mix";
    return out;
  }
};

inline std::ostream& operator<<(std::ostream& out, const Cell& cell) { return out << cell.name(); }

// Formats with scales, and pruned ones, differ from the others in how rows are encoded and attended to, not in what
// surrounds them. So each of them meets every law on the plainest and the most different backends with one model, and
// once a window, odd head sizes, and another format beside it.
inline void add_formats_of_rows(std::vector<Cell>& cells) {
  const std::string fastest(name_of(available_isas().back()));
  const std::string middle(name_of(available_isas()[available_isas().size() / 2]));
  std::vector<KvFormat> formats;
  std::ranges::copy_if(kAllKvFormats, std::back_inserter(formats),
                       [](KvFormat format) { return has_scale(format) || is_pruned(format); });
  for (size_t i = 0; i < formats.size(); ++i) {
    const KvPolicy both = uniform_policy(formats[i]);
    cells.push_back({"ref", "auto", 1, both, "gqa", {}});
    cells.push_back({"cpu", "scalar", 1, both, "gqa", {}});
    cells.push_back({"cpu", fastest, 2, both, "gqa", {}});
    cells.push_back({"cpu", middle, 2, both, "gqa", {24, 0}});
    cells.push_back({"cpu", fastest, 2, {formats[i], formats[(i + 1) % formats.size()], {}}, "odd_head_dim", {}});
  }
}

// Rows that are kept shorter: with every kind of number format, a window with sinks, and recent tokens, which are
// whole.
inline void add_shorter_rows(std::vector<Cell>& cells) {
  const std::vector<Cell> backends{
      {"ref", "auto", 1, {}, {}, {}}, {"cpu", "auto", 1, {}, {}, {}}, {"cpu", "auto", 2, {}, {}, {}}};
  for (Cell cell : backends) {
    for (const char* policy : {"f16, rank=k:9/v:12", "int8, rank=k:12/v:7, window=64, sinks=4",
                               "k=bf16, v=int4, channels=60%", "bf16, rank=k:9/v:12, recent=20:f16, sinks=4"}) {
      cell.policy = parse_kv_policy(policy, "cell");
      cell.model = cell.policy.channels == 60 ? "odd_head_dim" : "gqa";
      cells.push_back(cell);
    }
  }
}

// Every policy and model of the cells once more on a GPU, if this machine has one.
inline void add_gpu(std::vector<Cell>& cells) {
  if (cuda_devices().empty()) return;
  std::set<std::string> names;
  for (size_t i = 0, count = cells.size(); i < count; ++i) {
    Cell cell = cells[i];
    if (cell.policy.states != StateFormat::kF32) continue;  // no GPU has them
    cell.device = "cuda:0";
    cell.isa = "auto";
    cell.threads = 1;
    if (names.insert(cell.name()).second) cells.push_back(cell);
  }
}

// Heads as large as real models have them: a GPU has kernels for these alone; and so many of them on one processor
// that it has work enough for kernels that are there for large batches.
inline void add_large_heads(std::vector<Cell>& cells) {
  if (cuda_devices().empty()) return;
  const auto add = [&](const char* policy, const char* model, int sm_count = 0) {
    cells.push_back({"cuda:0", "auto", 1, parse_kv_policy(policy, "cell"), model, {}});
    cells.back().sm_count = sm_count;
  };
  for (const char* format : {"bf16", "fp8_e4m3", "int8", "int4"}) add(format, "many_heads_of_128", 1);
  add("f16", "many_heads_of_64", 1);
  for (const char* format : {"f16", "bf16", "fp8_e4m3", "fp8_e5m2", "int8", "int4", "int2"}) {
    add(format, "heads_of_64");
    add(format, "heads_of_128");
  }
  add("bf16, window=64, sinks=4", "heads_of_64");
  add("int4, recent=20:bf16, sinks=4", "heads_of_128");
  add("k=int8, v=bf16, 0:fp8_e4m3", "heads_of_64");
}

// Layers of other families: a window, biases, norms of heads; where a policy takes rows apart, too.
inline void add_families(std::vector<Cell>& cells) {
  const std::vector<std::pair<std::string, std::vector<std::int64_t>>> models{
      {"mistral_full", {24, 0}}, {"qwen2", {}}, {"qwen3", {}}};
  for (const auto& [model, windows] : models) {
    for (const char* device : {"ref", "cpu", "far", "repeating"}) {
      const int threads = device == std::string("cpu") || device == std::string("far") ? 2 : 1;
      for (const char* policy : {"f16", "k=int4, v=bf16, 0:int8, recent=20:bf16, sinks=4"}) {
        cells.push_back({device, "auto", threads, parse_kv_policy(policy, "cell"), model, windows});
      }
    }
  }
}

// Layers with experts, and with LayerNorms, biases and an MLP without gates.
inline void add_other_layers(std::vector<Cell>& cells) {
  const std::vector<std::pair<std::string, std::vector<std::int64_t>>> experts{{"qwen3_moe", {}}, {"olmoe", {24, 0}}};
  for (const char* device : {"ref", "cpu", "far"}) {
    const int threads = device == std::string("ref") ? 1 : 2;
    for (const auto& [model, windows] : experts) {
      for (const char* policy : {"f16", "k=int4, v=bf16, 0:int8, recent=20:bf16, sinks=4"}) {
        cells.push_back({device, "auto", threads, parse_kv_policy(policy, "cell"), model, windows});
      }
    }
    cells.push_back({device, "auto", threads, parse_kv_policy("f16", "cell"), "starcoder2", {}});
  }
}

// What other families' layers have: states in place of keys and values; layers that read another's keys, keys as
// values, two head sizes in a model, inputs of each layer, experts beside an MLP, in groups, with biases, or weighed
// before they read; chunks and queries that grow with the position; latents (MLA); norms behind the rope; ropes of
// parts of heads; learned positions; all heads on one.
inline void add_kinds_of_layers(std::vector<Cell>& cells) {
  const auto add = [&](const char* device, const std::string& model, const char* policy) {
    const bool spans = model.starts_with("gemma4") || model == "llama4" || model == "gpt_oss" || model == "phi3";
    const std::vector<std::int64_t> windows = spans ? std::vector<std::int64_t>{model == "phi3"     ? 64
                                                                                : model == "llama4" ? 40
                                                                                                    : 24}
                                                    : std::vector<std::int64_t>{};
    const bool alone = device == std::string("ref") || device == std::string("repeating");
    cells.push_back({device, "auto", alone ? 1 : 2, parse_kv_policy(policy, "cell"), model, windows});
  };
  for (const char* model :
       {"gemma4_ple_shared", "gemma4_moe", "llama4", "gpt_oss", "glm4_moe_grouped", "deepseek_v3"}) {
    // Some laws are of policies that keep K and V apart, in cells of f16: latents have no such policy.
    const char* plain = model == std::string("deepseek_v3") ? "bf16" : "f16";
    for (const char* device : {"ref", "cpu", "far"}) add(device, model, plain);
    add("cpu", model, "int8, recent=20:bf16, sinks=4");
  }
  for (const char* model : {"hunyuan_moe", "phi3", "phi3_long", "ministral3", "falcon_7b", "gpt_neox", "learned"}) {
    add("cpu", model, "bf16");
  }
  for (const char* model : {"ministral3", "learned"}) add("far", model, "f16");
  add("repeating", "ministral3", "f16");
  add("repeating", "learned", "f16");
  add("cpu", "gemma4_dense_keqv", "k=bf16, v=int8, 0:f16");
  add("cpu", "gemma4_ple_shared", "bf16, window=64, sinks=4");
  add("cpu", "falcon_rw", "int8, recent=20:bf16");
}

// Layers with states beside rows, which a policy leaves as they are, or rounds.
inline void add_states(std::vector<Cell>& cells) {
  const auto add = [&](const char* device, const char* model, const char* policy) {
    cells.push_back(
        {device, "auto", device == std::string("ref") ? 1 : 2, parse_kv_policy(policy, "cell"), model, {}});
  };
  for (const char* device : {"ref", "cpu", "far", "repeating"}) add(device, "qwen3_next", "f16");
  add("cpu", "qwen3_next", "int8, recent=20:bf16, sinks=4");
  add("cpu", "qwen3_5_moe", "bf16");
  // States in formats of their own, which are rounded wherever they may be kept.
  for (const char* device : {"ref", "cpu", "far", "repeating"}) add(device, "qwen3_next", "f16, states=int8");
  add("cpu", "qwen3_next", "int8, states=bf16, recent=20:bf16, sinks=4");
  add("cpu", "granitemoehybrid", "f16, states=bf16");
  add("ref", "falcon_h1", "bf16, states=int8");
  add("cpu", "kimi_linear", "bf16, states=int8");
  add("cpu", "lfm2", "f16, states=int8");
  add("cpu", "granitemoehybrid", "f16");
  add("cpu", "lfm2", "f16");
  // Layers of one branch, and experts without gates; attention beside a state; states that decay row by row beside
  // latents.
  for (const char* device : {"ref", "cpu"}) {
    add(device, "nemotron_h_latent", "f16");
    add(device, "falcon_h1", "f16");
    add(device, "kimi_linear", "bf16");
  }
  add("cpu", "falcon_h1_norm", "bf16");
  add("far", "falcon_h1", "bf16");
  add("repeating", "falcon_h1", "f16");
  add("far", "nemotron_h", "f16");
  add("repeating", "kimi_linear", "bf16");
  add("cpu", "nemotron_h", "k=int4, v=bf16, recent=20:bf16, sinks=4");
  add("cpu", "falcon_h1", "int8, recent=20:bf16, sinks=4");
  add("cpu", "kimi_linear_grouped", "int8, recent=20:bf16, sinks=4");
}

// Layers that read a source beside the text, with biases by distance, or learned positions and norms behind sums.
inline void add_sources(std::vector<Cell>& cells) {
  const auto add = [&](const char* device, const char* model, const char* policy) {
    const bool alone = device == std::string("ref") || device == std::string("repeating");
    cells.push_back({device, "auto", alone ? 1 : 2, parse_kv_policy(policy, "cell"), model, {}});
  };
  for (const char* device : {"ref", "cpu", "far"}) add(device, "t5_gated", "f16");
  add("repeating", "t5_gated", "bf16");
  add("cpu", "umt5", "int8");
  add("cpu", "bart", "k=int4, v=bf16, 0:int8, recent=20:bf16, sinks=4");
  add("cpu", "bart", "bf16, window=64, sinks=4");
}

inline bool reads_source(const Cell& cell) {
  return cell.model == "t5_gated" || cell.model == "umt5" || cell.model == "bart";
}

// Layers whose scores have a rule, many heads or wide ones on a KV head, and values in keys: each with what of
// windows, formats and recent tokens it can have.
inline void add_rules(std::vector<Cell>& cells) {
  const auto add = [&](const char* device, const char* model, const char* policy,
                       const std::vector<std::int64_t>& spans = {}) {
    const int threads = device == std::string("cpu") || device == std::string("far") ? 2 : 1;
    cells.push_back({device, "auto", threads, parse_kv_policy(policy, "cell"), model, spans});
  };
  for (const char* device : {"ref", "cpu"}) {
    add(device, "gemma2", "f16", {24, 0});
    add(device, "sink_logits", "k=int4, v=bf16, 0:int8, recent=20:bf16, sinks=4", {24, 0});
    add(device, "chunked", "f16", {40, 0});
    add(device, "t5", "bf16, window=64");
  }
  add("cpu", "gemma2", "int4, recent=20:bf16, sinks=4");
  add("cpu", "bloom", "int8, recent=20:bf16");
  add("cpu", "sink_logits", "bf16, window=32, sinks=4");
  add("cpu", "sink_logits", "int8, rank=k:12/v:7", {0, 24});
  add("cpu", "chunked", "int4, recent=20:bf16", {40, 0});
  add("cpu", "chunked", "bf16, window=20, sinks=4", {40, 0});
  add("cpu", "falcon", "f16");
  add("cpu", "falcon", "int4");
  add("cpu", "wide", "bf16");
  add("cpu", "latent", "bf16");
  add("cpu", "latent", "int8, recent=20:bf16, sinks=4");
  add("far", "sink_logits", "f16", {24, 0});
  add("far", "t5", "int4");
  add("repeating", "sink_logits", "bf16");
}

// Every backend of this machine x every KV format that is number by number x full attention, odd head sizes, and a
// hybrid of window and full; and bf16 weights, whose products round their rows. Dot products differ from plain
// AVX-512 in those alone.
inline std::vector<Cell> all_cells() {
  std::vector<Cell> backends{{"ref", "auto", 1, {}, {}, {}}};
  for (const Isa isa : available_isas()) {
    for (const int threads : {1, 2}) backends.push_back({"cpu", std::string(name_of(isa)), threads, {}, {}, {}});
  }
  const std::vector<std::pair<std::string, std::vector<std::int64_t>>> models{
      {"gqa", {}}, {"odd_head_dim", {}}, {"gqa", {24, 0}}, {"bf16", {}}};
  std::vector<Cell> cells;
  for (Cell cell : backends) {
    for (const KvFormat format : {KvFormat::kF32, KvFormat::kF16, KvFormat::kBF16}) {
      for (const auto& [model, windows] : models) {
        const bool has_dots = cell.isa == name_of(Isa::kAvx512Dot);
        if (model == "bf16" ? !has_dots && format != KvFormat::kF16 : has_dots) continue;
        cell.policy = uniform_policy(format);
        cell.model = model;
        cell.windows = windows;
        cells.push_back(cell);
      }
    }
  }
  // Quantized weights, where the instruction sets differ most: in how they multiply bytes.
  for (const char* type : {"q8_0", "q4_0", "q4_k"}) {
    for (const Isa isa : available_isas()) {
      if (isa == Isa::kScalar || isa == Isa::kAvx512) continue;
      cells.push_back({"cpu", std::string(name_of(isa)), 2, uniform_policy(KvFormat::kF16), type, {}});
    }
  }
  // Other forms of codes, scales, zeros and mins: of each one type, on the fastest.
  for (const char* type : {"q2_k", "iq4_xs", "mxfp4", "int4x32", "int8x32", "fp8x32"}) {
    const std::string fastest(name_of(available_isas().back()));
    cells.push_back({"cpu", fastest, 2, uniform_policy(KvFormat::kF16), type, {}});
  }
  // bf16 weights whose rows are not rounded.
  cells.push_back({"ref", "auto", 1, uniform_policy(KvFormat::kF16), "bf16", {}, ActivationPrecision::kF32});
  cells.push_back({"cpu", "auto", 2, uniform_policy(KvFormat::kF16), "bf16", {}, ActivationPrecision::kF32});
  // Weights that became codes of 8 bits as they were loaded: the cpu has none.
  for (const WeightQuantization form : {WeightQuantization::kInt8, WeightQuantization::kFp8}) {
    cells.push_back(
        {"ref", "auto", 1, uniform_policy(KvFormat::kF16), "bf16", {}, ActivationPrecision::kAsWeights, form});
  }
  add_formats_of_rows(cells);
  // Recent tokens in a format of their own.
  for (const char* device : {"ref", "cpu"}) {
    for (const std::vector<std::int64_t>& windows : {std::vector<std::int64_t>{}, {24, 0}}) {
      cells.push_back({device, "auto", device == std::string("cpu") ? 2 : 1,
                       parse_kv_policy("bf16, recent=20:f32, sinks=4", "cell"), "gqa", windows});
    }
  }
  // Layers in formats of their own, alone and with recent tokens.
  for (const char* device : {"ref", "cpu"}) {
    for (const char* mix : {"k=int4, v=int2, 0:int8", "k=int4, v=bf16, 0:int8, recent=20:bf16, sinks=4"}) {
      cells.push_back(
          {device, "auto", device == std::string("cpu") ? 2 : 1, parse_kv_policy(mix, "cell"), "gqa", {}});
    }
  }
  add_shorter_rows(cells);
  add_families(cells);
  for (const char* policy :
       {"f16", "k=int4, v=bf16, 0:int8, recent=20:bf16, sinks=4", "int8, rank=k:12/v:7, window=64"}) {
    cells.push_back({"far", "auto", 2, parse_kv_policy(policy, "cell"), "gqa", {}});
    cells.push_back({"repeating", "auto", 1, parse_kv_policy(policy, "cell"), "gqa", {}});
  }
  cells.push_back({"repeating", "auto", 1, uniform_policy(KvFormat::kBF16), "gqa", {24, 0}});
  add_rules(cells);
  add_other_layers(cells);
  add_kinds_of_layers(cells);
  add_states(cells);
  add_gpu(cells);
  add_sources(cells);
  add_large_heads(cells);
  return cells;
}

// Every method of eviction, with a budget that every law's requests outgrow: on ref, and on cpu in other formats.
inline std::vector<Cell> evicting_cells() {
  const auto policy = [](const std::string& text) { return parse_kv_policy(text, "cell"); };
  const std::string fastest(name_of(available_isas().back()));
  std::vector<Cell> cells;
  for (const char* how : {"fifo:20", "lru:20", "h2o:20", "tova:20", "snapkv:24"}) {
    const std::string evict = ", evict=" + std::string(how);
    cells.push_back({"ref", "auto", 1, policy("f16" + evict + ", sinks=2"), "gqa", {}});
    cells.push_back({"cpu", fastest, 2, policy("f16" + evict), "gqa", {}});
    cells.push_back({"cpu", fastest, 2, policy("int4" + evict + ", sinks=2"), "gqa", {}});
  }
  for (const char* how :
       {"h2o:24, budgets=pyramid", "snapkv:24, heads=adaptive, sinks=2", "lru:24, budgets=pyramid, heads=adaptive"}) {
    cells.push_back({"ref", "auto", 1, policy("f16, evict=" + std::string(how)), "gqa", {}});
    cells.push_back({"cpu", fastest, 2, policy("int4, evict=" + std::string(how)), "gqa", {}});
  }
  cells.push_back({"cpu", "scalar", 1, policy("k=int8, v=f16, evict=h2o:20"), "odd_head_dim", {}});
  cells.push_back({"cpu", fastest, 2, policy("bf16, evict=h2o:20"), "gqa", {24, 0}});  // one layer has a window
  cells.push_back({"far", "auto", 2, policy("int4, evict=snapkv:24, heads=adaptive, sinks=2"), "gqa", {}});
  // Shorter rows, and layers in formats of their own.
  for (const char* rows :
       {"int8, rank=k:12/v:7, evict=h2o:20, sinks=2", "f16, channels=60%, evict=snapkv:24",
        "k=int4, v=bf16, 0:int8, evict=lru:20", "int4, 0:int8/bf16, evict=tova:24, budgets=pyramid"}) {
    cells.push_back({"ref", "auto", 1, policy(rows), "gqa", {}});
    cells.push_back({"cpu", fastest, 2, policy(rows), "gqa", {}});
  }
  cells.push_back({"ref", "auto", 1, policy("f16, evict=h2o:20, sinks=2"), "sink_logits", {}});
  cells.push_back({"cpu", fastest, 2, policy("int4, evict=snapkv:24, heads=adaptive, sinks=2"), "sink_logits", {}});
  cells.push_back({"cpu", fastest, 2, policy("f16, evict=h2o:20"), "gemma2", {24, 0}});
  cells.push_back({"cpu", fastest, 2, policy("f16, evict=lru:20"), "chunked", {48, 0}});
  cells.push_back({"cpu", fastest, 2, policy("int8, evict=tova:20"), "falcon", {}});
  cells.push_back({"cpu", fastest, 2, policy("bf16, evict=h2o:20, sinks=2"), "latent", {}});
  add_gpu(cells);
  return cells;
}

// For laws about who runs when and where blocks lie, which no kernel knows of: the plain loops of the scalar kernels,
// slower than all others together, meet them once. So do chunks: what is over of them is given back at once, and
// beside another window nobody is short of memory.
inline std::vector<Cell> scheduling_cells() {
  std::vector<Cell> cells = all_cells();
  std::erase_if(cells, [](const Cell& cell) {
    const bool once = cell.threads == 1 && cell.model == "gqa" && cell.windows.empty() &&
                      cell.policy == uniform_policy(KvFormat::kF16);
    const bool roomy = cell.model == "chunked" && cell.policy != uniform_policy(KvFormat::kF16);
    return roomy || (cell.isa == name_of(Isa::kScalar) && !once);
  });
  return cells;
}

}  // namespace kvasir::testing
