// System messages where chat templates take them: anywhere, at the beginning alone, or nowhere (Gemma 2). Clients put
// several at the beginning (Codex: instructions, and messages of the developer's), and some into the conversation.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "server/api/json_fields.h"

namespace kvasir {

enum class SystemTurns { kAnywhere, kFirst, kNowhere };

// Found out by trying. `render` gives the prompt, or nullopt where the template refuses.
SystemTurns system_turns(const std::function<std::optional<std::string>(const OrderedJson& messages)>& render);

// What the template takes, with every word: those at the beginning become one (kFirst), and others stand before the
// user's words that come next.
OrderedJson messages_with_system(const OrderedJson& messages, SystemTurns turns);

}  // namespace kvasir
