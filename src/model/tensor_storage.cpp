// How files hold several tensors in one, transposed or by expert: store_together() and its kin of tensors.h.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "base/check.h"
#include "model/tensors.h"

namespace kvasir {
namespace {

bool any_of(std::span<const TensorRole> roles, TensorRole role) {
  return std::ranges::find(roles, role) != roles.end();
}

// "model.layers.3." of a tensor of layer 3: all of a layer's names begin with it.
std::string layer_prefix(const TensorSpec& tensor) {
  const std::string number = fmt::format(".{}.", tensor.layer);
  const size_t at = tensor.name.find(number);
  CHECK(tensor.layer >= 0 && at != std::string::npos);
  return tensor.name.substr(0, at + number.size());
}

}  // namespace

namespace {

using Joint = std::vector<TensorSpec*>;  // what lies together, in the order of its roles

std::vector<Joint> joined(std::vector<TensorSpec>& tensors, std::span<const TensorRole> roles, JointRows::Of of) {
  using Key = std::tuple<int, int, bool>;  // layer, expert, whether biases
  std::map<Key, Joint> by_key;
  for (TensorSpec& tensor : tensors) {
    const bool apart = of == JointRows::Of::kExperts && tensor.expert < 0;
    if (!apart && any_of(roles, tensor.role)) by_key[{tensor.layer, tensor.expert, tensor.bias}].push_back(&tensor);
  }
  std::vector<Joint> out;
  for (auto& [key, parts] : by_key) {
    std::ranges::sort(parts, {}, [&](const TensorSpec* one) { return std::ranges::find(roles, one->role); });
    out.push_back(std::move(parts));
  }
  return out;
}

std::int64_t rows_of(const Joint& parts) {
  std::int64_t all = 0;
  for (const TensorSpec* part : parts) all += part->rows;
  return all;
}

std::string gguf_name(const TensorSpec& tensor, std::string_view name) {
  return fmt::format("blk.{}.{}.{}", tensor.layer, name, tensor.bias ? "bias" : "weight");
}

}  // namespace

void store_together(std::vector<TensorSpec>& tensors, std::span<const TensorRole> roles, const JointName& as,
                    JointRows rows) {
  for (const Joint& parts : joined(tensors, roles, rows.of)) {
    const std::int64_t all = rows_of(parts);
    std::int64_t below = 0;   // rows of the parts before
    std::int64_t within = 0;  // the same of a group
    for (TensorSpec* part : parts) {
      const std::int64_t block = part->rows / rows.groups;
      part->hf.name = layer_prefix(*part) + std::string(part->bias ? as.bias : as.weight);
      part->hf.slice = {all, within, block, all / rows.groups};
      if (!as.gguf.empty()) {
        part->gguf_else = {part->gguf_place()};
        part->gguf = gguf_name(*part, as.gguf);
        part->gguf_at.slice = {all, below, part->rows, part->rows};
      }
      below += part->rows;
      within += block;
    }
  }
}

void may_be_together(std::vector<TensorSpec>& tensors, std::span<const TensorRole> roles, std::string_view gguf,
                     JointRows::Of of) {
  for (const Joint& parts : joined(tensors, roles, of)) {
    const std::int64_t all = rows_of(parts);
    std::int64_t below = 0;
    for (TensorSpec* part : parts) {
      FilePlace& place = part->gguf_else.emplace_back(part->gguf_place());
      place.name = gguf_name(*part, gguf);
      place.slice = {all, below, part->rows, part->rows};
      below += part->rows;
    }
  }
}

int HeadTiles::our_place(int at) const {
  if (groups == 0 || at < first) return at;
  const int tile = (at - first) / width;
  const int head = tile % groups * (heads / groups) + tile / groups;
  return first + head * width + (at - first) % width;
}

void store_transposed(std::vector<TensorSpec>& tensors, std::span<const TensorRole> roles) {
  for (TensorSpec& tensor : tensors) {
    if (!tensor.vector() && any_of(roles, tensor.role)) tensor.hf.axes = FilePlace::Axes::kTransposed;
  }
}

void store_stacked(std::vector<TensorSpec>& tensors, TensorRole role, std::string_view weight,
                   std::string_view bias) {
  for (TensorSpec& tensor : tensors) {
    if (tensor.role != role || tensor.expert < 0) continue;
    tensor.hf.name = layer_prefix(tensor) + std::string(tensor.bias ? bias : weight);
    tensor.hf.all_experts = true;
  }
}

}  // namespace kvasir
