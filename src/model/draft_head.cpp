#include "model/draft_head.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/json_reader.h"
#include "base/mmap_file.h"
#include "model/config.h"
#include "model/decoder.h"
#include "model/families/family.h"
#include "model/safetensors.h"
#include "model/weights.h"

namespace kvasir {
namespace {

constexpr JsonFileKind kHeadConfigFile{size_t{1} << 20, "check the file, or download it again"};
constexpr std::string_view kOwnLayer = "model.layers.0.";  // as a family names it that knows of no target
constexpr std::string_view kOwnGgufLayer = "blk.0.";

void replace_prefix(std::string& name, std::string_view prefix, std::string_view by) {
  if (name.starts_with(prefix)) name.replace(0, prefix.size(), by);
}

// Of a draft head's tensors what its target has already is left out.
void drop_tables(std::vector<TensorSpec>& tensors, DraftHeadSpec::Kind kind) {
  std::erase_if(tensors, [kind](const TensorSpec& tensor) {
    if (tensor.role == TensorRole::kEmbedding) return true;
    return tensor.role == TensorRole::kHead && kind == DraftHeadSpec::Kind::kNextN;
  });
}

void name_next_n(const ModelSpec& spec, std::vector<TensorSpec>& tensors) {
  const NextNForm& form = spec.family->next_n;
  const int number = spec.draft.target_layers;
  const std::string layer = fmt::format(fmt::runtime(form.layer), number) + ".";
  const std::string ends = fmt::format(fmt::runtime(form.ends), number) + ".";
  const std::string gguf_layer = fmt::format("blk.{}.", number);
  const std::string gguf_ends = gguf_layer + "nextn.";
  float offset = 0;  // norms of one family are stored alike
  for (TensorSpec& tensor : tensors) {
    replace_prefix(tensor.name, kOwnLayer, layer);
    replace_prefix(tensor.hf.name, kOwnLayer, layer);
    for (FilePlace& place : tensor.hf_else) replace_prefix(place.name, kOwnLayer, layer);
    replace_prefix(tensor.gguf, kOwnGgufLayer, gguf_layer);
    for (FilePlace& place : tensor.gguf_else) replace_prefix(place.name, kOwnGgufLayer, gguf_layer);
    if (tensor.role != TensorRole::kFinalNorm) continue;
    offset = tensor.offset;
    tensor.name = fmt::format("{}{}.weight", ends, form.final_norm);
    tensor.gguf_else.push_back({.name = std::exchange(tensor.gguf, gguf_ends + "shared_head_norm.weight")});
  }
  const auto add = [&](std::string_view name, const char* gguf, TensorSpec like) {
    like.name = fmt::format("{}{}.weight", ends, name);
    like.gguf = fmt::format("{}{}.weight", gguf_ends, gguf);
    tensors.push_back(std::move(like));
  };
  add(form.embedding_norm, "enorm", {.rows = spec.hidden, .role = TensorRole::kDraftEmbeddingNorm, .offset = offset});
  add(form.given_norm, "hnorm", {.rows = spec.hidden, .role = TensorRole::kDraftGivenNorm, .offset = offset});
  add(form.join, "eh_proj", {.rows = spec.hidden, .cols = 2 * spec.hidden, .role = TensorRole::kDraftJoin});
}

// Published heads call their layer midlayer, or have it as any model's first.
void name_eagle3(const ModelSpec& spec, std::vector<TensorSpec>& tensors) {
  tensors.push_back({.name = "model.layers.0.input_layernorm.weight",
                     .rows = spec.hidden,
                     .role = TensorRole::kDraftEmbeddingNorm});
  tensors.push_back(
      {.name = "model.layers.0.hidden_norm.weight", .rows = spec.hidden, .role = TensorRole::kDraftGivenNorm});
  tensors.push_back({.name = "fc.weight",
                     .rows = spec.hidden,
                     .cols = spec.draft.features(spec.hidden),
                     .role = TensorRole::kDraftJoin});
  for (TensorSpec& tensor : tensors) {
    FilePlace other = tensor.hf;
    other.name = tensor.hf_name();
    replace_prefix(other.name, kOwnLayer, "midlayer.");
    if (other.name != tensor.hf_name()) tensor.hf_else.push_back(std::move(other));
  }
}

// A part of a model's files: it has the model's name, and what it takes is counted with the model.
class HeadTensors final : public TensorSource {
 public:
  HeadTensors(const Weights& files, const Key256& name) : files_(files), name_(name) {}

  HostWeight matrix(std::string_view name, int rows, int cols) const override {
    return files_.matrix(name, rows, cols);
  }
  Key256 fingerprint() const override { return name_; }
  void done_with(const HostWeight& weight) const override { files_.done_with(weight); }
  std::uint64_t bytes() const override { return 0; }
  bool is_gguf() const override { return files_.is_gguf(); }

 private:
  const Weights& files_;
  const Key256& name_;
};

const TensorSpec& join_of(const std::vector<TensorSpec>& tensors) {
  return *std::ranges::find(tensors, TensorRole::kDraftJoin, &TensorSpec::role);
}

constexpr const char* kNoHead = "the model's files have no head that guesses the next tokens (MTP)";

// Numbers of the target's layers, as training code counts them: the stream before such a layer.
std::vector<int> read_layers(const JsonReader& config, int target_layers) {
  constexpr int kEarly = 2;
  constexpr int kLate = 3;
  constexpr std::string_view kKey = "eagle_aux_hidden_state_layer_ids";
  std::optional<JsonReader> listed = config.find(kKey);
  const std::optional<JsonReader> inside = config.find("eagle_config");
  if (!listed && inside) listed = inside->find(kKey);
  if (!listed) return {std::min(kEarly, target_layers), target_layers / 2, std::max(target_layers - kLate, 0)};
  std::vector<int> out;
  for (const JsonReader layer : listed->items()) out.push_back(static_cast<int>(layer.integer({0, target_layers})));
  constexpr size_t kMost = 8;
  if (out.empty() || out.size() > kMost) listed->fail("has no layers, or too many");
  return out;
}

// d2t: what is added to a token's number in the head's vocabulary. None: both vocabularies are one.
std::vector<TokenId> read_tokens(const std::filesystem::path& folder, const ModelSpec& head, int target_vocab) {
  const std::filesystem::path path = folder / "model.safetensors";
  std::vector<TokenId> out;
  const SafetensorsFile file(path);
  const auto found = file.tensors.find("d2t");
  if (found == file.tensors.end()) {
    if (head.vocab == target_vocab) return {};
    fail_input(
        fmt::format("it has {} tokens, the target {}, and no d2t says which these are", head.vocab, target_vocab),
        path.string(), "check that the head is whole");
  }
  const StoredTensor& stored = found->second;
  if (stored.dtype != "I64" || stored.shape != std::vector<std::int64_t>{head.vocab}) {
    fail_input(fmt::format("d2t is not {} numbers of type I64", head.vocab), path.string(),
               "check that the head is whole");
  }
  for (int i = 0; i < head.vocab; ++i) {
    std::int64_t offset = 0;
    std::memcpy(&offset, stored.bytes.data() + static_cast<size_t>(i) * sizeof offset, sizeof offset);
    if (offset < -i || offset >= target_vocab - i) {
      fail_input(fmt::format("d2t makes token {} of token {}, and the target has {}", i + offset, i, target_vocab),
                 path.string(), "use the head with the model that it was trained for");
    }
    out.push_back(static_cast<TokenId>(i + offset));
  }
  return out;
}

std::unique_ptr<Model> checked_head(const ModelSpec& spec, const TensorSource& tensors, Backend& backend,
                                    const Model& target, const LoadOptions& options, const std::string& where) {
  check_shape(spec, where);
  check_runnable(spec, where);
  check_limits(spec, backend, where);
  LoadOptions own = options;
  own.progress = {};
  return make_decoder(spec, tensors, backend, own, target.shared_weights());
}

}  // namespace

std::optional<ModelSpec> next_n_head(const ModelSpec& target) {
  const NextNForm& form = target.family->next_n;
  if (form.none() || !target.draft.none()) return std::nullopt;
  const auto last = std::find_if(target.layers.rbegin(), target.layers.rend(),
                                 [](const LayerSpec& layer) { return !layer.attention.none(); });
  ModelSpec out = target;
  out.layers = {*last};
  out.draft = {.kind = DraftHeadSpec::Kind::kNextN,
               .feeds = form.feeds,
               .reads = {DraftHeadSpec::kNormedRows},
               .target_layers = target.layer_count()};
  return out;
}

bool has_next_n_head(const std::filesystem::path& path) {
  const std::optional<ModelSpec> spec = next_n_head(load_config(path));
  if (!spec) return false;
  const std::vector<TensorSpec> tensors = own_tensors(*spec);
  const std::string join = join_of(tensors).name;
  return Weights(path, tensors).has(join);
}

DraftHead load_next_n_head(const std::filesystem::path& path, const Model& target, Backend& backend,
                           const LoadOptions& options) {
  const std::optional<ModelSpec> spec = next_n_head(target.config());
  if (!spec) fail_input(kNoHead, path.string(), "use --draft auto, or a draft model");
  const std::vector<TensorSpec> tensors = own_tensors(*spec);
  const Weights files(path, tensors);
  if (!files.has(join_of(tensors).name)) fail_input(kNoHead, path.string(), "use --draft auto, or a draft model");
  const Key256 name = target.stored_fingerprint();
  return {checked_head(*spec, HeadTensors(files, name), backend, target, options, path.string())};
}

bool is_eagle3_head(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / "config.json";
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored)) return false;
  const MmapFile text(file);
  const JsonDocument document(text.text(), file.string(), kHeadConfigFile);
  const std::optional<JsonReader> names = document.root().find("architectures");
  if (!names) return false;
  for (const JsonReader name : names->items()) {
    if (name.text().find("Eagle3") != std::string_view::npos) return true;
  }
  return false;
}

ModelSpec eagle3_spec(const std::filesystem::path& folder, const ModelSpec& target) {
  const std::filesystem::path file = folder / "config.json";
  const MmapFile text(file);
  const JsonDocument document(text.text(), file.string(), kHeadConfigFile);
  const JsonReader config = document.root();
  ModelSpec spec = load_config(folder);
  if (spec.layer_count() != 1 || spec.layers.front().norms != NormPlacement::kPre) {
    config.fail_inside("an EAGLE-3 head has one layer with norms before its branches");
  }
  if (spec.hidden != target.hidden) {
    config.fail_inside(fmt::format("hidden_size is {}, and the target's is {}", spec.hidden, target.hidden),
                       "use the head with the model that it was trained for");
  }
  if (const auto own = config.find("draft_vocab_size")) {
    spec.vocab = static_cast<int>(own->integer({1, target.vocab}));
  }
  spec.draft = {.kind = DraftHeadSpec::Kind::kEagle3,
                .feeds = DraftHeadSpec::Feeds::kStream,
                .reads = read_layers(config, target.layer_count()),
                .target_layers = target.layer_count(),
                .residual_is_normed = config.flag_or("norm_before_residual", false)};
  spec.tied_embeddings = false;
  spec.embedding_scale = target.embedding_scale;
  spec.context = target.context;
  LayerSpec& layer = spec.layers.front();
  layer.attention_norm = false;
  layer.reads_embedding = true;
  return spec;
}

DraftHead load_eagle3_head(const std::filesystem::path& folder, const Model& target, Backend& backend,
                           const LoadOptions& options) {
  const ModelSpec spec = for_context(eagle3_spec(folder, target.config()), options.context);
  const Weights files(folder, own_tensors(spec));
  return {checked_head(spec, files, backend, target, options, folder.string()),
          read_tokens(folder, spec, target.config().vocab)};
}

void name_draft_tensors(const ModelSpec& spec, std::vector<TensorSpec>& tensors) {
  drop_tables(tensors, spec.draft.kind);
  if (spec.draft.kind == DraftHeadSpec::Kind::kNextN) return name_next_n(spec, tensors);
  name_eagle3(spec, tensors);
}

void check_draft_model(const ModelSpec& draft, const std::string& where) {
  const char* why = draft.encodes()  ? "it is an encoder, and writes nothing"
                    : draft.recurs() ? "it has recurrent layers, whose states cannot go back to before a wrong guess"
                    : draft.reads_source() ? "it answers to a source, which it would have to read first"
                                           : nullptr;
  if (why != nullptr)
    fail_usage(std::string("the model cannot draft: ") + why, where, "use another, or --draft auto");
}

}  // namespace kvasir
