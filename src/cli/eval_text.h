// What commands share that read texts with a model, without a server or an answer.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "cli/model_options.h"
#include "model/model.h"
#include "text/tokenizer.h"

namespace kvasir {

// What the model's texts begin with: its tokenizer's own beginning of a document.
std::vector<TokenId> opening_of(const Tokenizer& tokenizer);

// Special tokens in the text count as such. Throws Error when the file cannot be read or is empty.
std::vector<TokenId> tokens_of_file(const std::string& path, const Tokenizer& tokenizer);

std::unique_ptr<Backend> backend_of(const ModelOptions& options);

// With a bar, on a terminal. The backend outlives the model.
std::unique_ptr<Model> load_with_bar(const ModelOptions& options, const std::filesystem::path& folder,
                                     Backend& backend);

}  // namespace kvasir
