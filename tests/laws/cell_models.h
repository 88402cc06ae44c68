// The model that a cell of the laws runs: a golden, or random weights where no golden has what the cell is about.
#pragma once

#include <algorithm>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "backend/quant/encode.h"
#include "laws/cells.h"
#include "support/fixtures.h"
#include "support/quantized_model.h"
#include "support/random_blocks.h"
#include "support/rule_models.h"

namespace kvasir::testing {

// A fixture that is too small for the laws' texts: random weights in its place, with more tokens and a longer
// context. Of the cell's windows the first is that of all its layers that have one, or chunks.
inline std::unique_ptr<Model> random_cell_model(const Cell& cell, Backend& backend) {
  ModelSpec spec = load_config(golden_dir(cell.model));
  if (spec.vocab == 101) return nullptr;
  spec.vocab = 101;
  spec.context = 512;
  spec.eos.clear();
  spec.tied_embeddings = false;  // random weights would repeat what they read
  if (spec.positions > 0) spec.positions = spec.first_position + 512;
  for (ModelSpec& encoder : spec.encoder) {
    encoder.vocab = spec.vocab;
    encoder.context = spec.context;
    encoder.positions = spec.positions;
  }
  bool chunked = false;  // one layer: with more of them no pool of the laws would be tight
  for (LayerSpec& layer : spec.layers) {
    if (layer.attention.window > 0) layer.attention.window = cell.windows.front();
    if (layer.attention.chunk > 0) layer.attention.chunk = std::exchange(chunked, true) ? 0 : cell.windows.front();
  }
  return make_random_model(spec, backend, {512, {}}, 1);
}

// A golden, or, by the name of a type, a model with weights of that type, or one of random weights with large heads
// or rules of its own.
inline std::unique_ptr<Model> load_cell(const Cell& cell, Backend& backend) {
  if (std::ranges::find(kRuleModels, cell.model) != std::end(kRuleModels)) {
    return make_random_model(rule_model(cell.model, cell.windows), backend, {512, {}}, 1);
  }
  constexpr std::string_view kHeads = "heads_of_";
  if (const size_t at = cell.model.find(kHeads); at != std::string::npos) {
    const std::string heads = at == 0 ? "heads=8,kv_heads=2" : "heads=16,kv_heads=8";
    const std::string dim = cell.model.substr(at + kHeads.size());
    const std::string shape = "layers=2,hidden=128,ffn=128," + heads + ",vocab=101,context=512,head_dim=" + dim;
    return make_random_model(parse_shape(shape), backend, {512, {}}, 1);
  }
  const auto type = weight_type_named(cell.model);
  if (!type || !is_quantized(*type)) {
    if (auto random = random_cell_model(cell, backend)) return random;
    return load_golden(cell.model, backend, 512, cell.windows, cell.weights);
  }
  if (can_encode(*type)) return load_model(QuantizedModel(*type).path(), backend, {512, {}, {}, cell.weights});
  return make_decoder(parse_shape(kQuantizedShape), RandomBlocks(*type), backend, {512, {}, {}, cell.weights});
}

}  // namespace kvasir::testing
