// Beginnings of prompts that the operator declares public: all tenants share their blocks.
#pragma once

#include <filesystem>
#include <vector>

#include "base/ids.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace kvasir {

// The tokens of a file: plain text, as it begins a completion; or, named .json, {"messages": [{"role", "content"},
// …]}, as the model's template begins a chat with them. `chat` may be null: the model has no template. Throws Error.
std::vector<TokenId> read_public_text(const std::filesystem::path& file, const Tokenizer& tokenizer,
                                      const ChatTemplate* chat);

}  // namespace kvasir
