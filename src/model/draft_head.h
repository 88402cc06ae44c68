// What can guess what a target model says next: a smaller model, or a head (DraftHeadSpec): MTP layers in the
// target's own files, or EAGLE-3 in a folder of its own.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "model/model.h"
#include "model/spec.h"
#include "model/tensors.h"

namespace kvasir {

struct DraftHead {
  std::unique_ptr<Model> model;
  std::vector<TokenId> tokens = {};  // [the head's vocabulary]: which of the target's each is; empty: the same
};

// Throws Error unless the model can guess for the other: it writes, and keeps rows alone.
void check_draft_model(const ModelSpec& draft, const std::string& where);

// What a model's files may hold behind its last layer; nothing, of a family without such heads.
std::optional<ModelSpec> next_n_head(const ModelSpec& target);

// Whether they do: asked before gigabytes are read. Throws Error where there is no such model.
bool has_next_n_head(const std::filesystem::path& path);

// The head of a model that was loaded from `path`. The target outlives it. Throws Error where the files have none, or
// one that does not fit.
DraftHead load_next_n_head(const std::filesystem::path& path, const Model& target, Backend& backend,
                           const LoadOptions& options);

// Whether the folder holds an EAGLE-3 head, and not a model.
bool is_eagle3_head(const std::filesystem::path& folder);

// For this target. Throws Error where it is not for such a one.
ModelSpec eagle3_spec(const std::filesystem::path& folder, const ModelSpec& target);
DraftHead load_eagle3_head(const std::filesystem::path& folder, const Model& target, Backend& backend,
                           const LoadOptions& options);

// A draft head's tensors by their own names, of those that its layers would have in a model by itself.
void name_draft_tensors(const ModelSpec& spec, std::vector<TensorSpec>& tensors);

}  // namespace kvasir
