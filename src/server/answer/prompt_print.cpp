#include "server/answer/prompt_print.h"

#include <algorithm>
#include <cstring>

#include "base/hash.h"

namespace kvasir {
namespace {

constexpr size_t kMarkTokens = 16;

std::uint64_t hash_of(std::string_view text) {
  const auto hash = content_hash(std::as_bytes(std::span(text)));
  std::uint64_t word = 0;
  std::memcpy(&word, hash.data(), sizeof word);
  return word;
}

std::uint64_t hash_of(const OrderedJson& json) { return hash_of(std::string_view(to_text(json))); }

// As long as both have it, from the beginning on.
template <class T>
size_t common(const std::vector<T>& a, const std::vector<T>& b) {
  return static_cast<size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

// What was changed, if that made the prompts differ.
PromptChange change_of(const PromptPrint& earlier, const PromptPrint& now) {
  if (earlier.tools != now.tools) return PromptChange::kTools;
  if (earlier.system != now.system) return PromptChange::kSystem;
  if (earlier.form != now.form) return PromptChange::kForm;
  if (earlier.reasoning != now.reasoning) return PromptChange::kReasoning;
  return common(earlier.messages, now.messages) < earlier.messages.size() ? PromptChange::kMessages
                                                                          : PromptChange::kNone;
}

}  // namespace

PromptPrint print_of(const ChatRequest& chat, std::span<const TokenId> prompt) {
  PromptPrint out;
  const AnswerOptions& options = chat.options;
  out.policy = options.kv.policy ? hash_of(std::string_view(to_text(*options.kv.policy))) : 0;
  out.space = hash_of(OrderedJson{{"salt", options.space.salt}, {"key", options.space.key}});
  OrderedJson tools = OrderedJson::array();
  for (const Toolbox::Tool& tool : options.toolbox.tools) tools.push_back(tool.function);
  out.tools = hash_of(tools);
  out.form = hash_of(OrderedJson{static_cast<int>(options.format.kind), options.format.schema,
                                 static_cast<int>(options.toolbox.must), options.toolbox.only});
  out.reasoning = hash_of(chat.variables);
  OrderedJson system = OrderedJson::array();
  for (const OrderedJson& message : chat.messages) {
    const bool leads = out.messages.empty() && message["role"] == "system";
    if (leads) {
      system.push_back(message);
    } else {
      out.messages.push_back(hash_of(message));
    }
  }
  out.system = hash_of(system);
  out.tokens = static_cast<std::int64_t>(prompt.size());
  std::uint64_t mark = 0;
  for (size_t i = 0; i < prompt.size(); ++i) {
    mark = mix(mark, static_cast<std::uint64_t>(prompt[i]), i);
    if ((i + 1) % kMarkTokens == 0) out.marks.push_back(mark);
  }
  if (prompt.size() % kMarkTokens != 0) out.marks.push_back(mark);
  return out;
}

PromptComparison compare(const PromptPrint& earlier, const PromptPrint& now) {
  PromptComparison out;
  if (earlier.policy != now.policy || earlier.space != now.space) {
    out.change = earlier.policy != now.policy ? PromptChange::kPolicy : PromptChange::kCacheSpace;
    out.missed_tokens = earlier.tokens;
    return out;
  }
  // The last mark may be of fewer tokens, and agrees only where nothing comes behind it in either.
  const auto agreed = static_cast<std::int64_t>(common(earlier.marks, now.marks) * kMarkTokens);
  out.common_tokens = std::min({agreed, earlier.tokens, now.tokens});
  out.change = change_of(earlier, now);
  // What a template does not show changed nothing; what it shows at the very end (an opened thought) hardly anything.
  const auto last = earlier.tokens / static_cast<std::int64_t>(kMarkTokens) * static_cast<std::int64_t>(kMarkTokens);
  const bool of_texts = out.change == PromptChange::kSystem || out.change == PromptChange::kMessages;
  if (out.common_tokens >= (of_texts ? earlier.tokens : last)) out.change = PromptChange::kNone;
  if (out.change != PromptChange::kNone) out.missed_tokens = earlier.tokens - out.common_tokens;
  return out;
}

void PromptPrints::add(std::uint32_t tenant, std::string id, PromptPrint print) {
  Kept kept{std::move(id), std::make_shared<const PromptPrint>(std::move(print))};
  const size_t bytes = kept.bytes();
  if (bytes > limits_.bytes || limits_.prompts == 0) return;
  const std::lock_guard lock(mutex_);
  TenantPrints& own = by_tenant_[tenant];
  own.bytes += bytes;
  own.prints.push_front(std::move(kept));
  while (own.bytes > limits_.bytes || own.prints.size() > limits_.prompts) {
    own.bytes -= own.prints.back().bytes();
    own.prints.pop_back();
  }
}

std::shared_ptr<const PromptPrint> PromptPrints::find(std::uint32_t tenant, const std::string& id) const {
  const std::lock_guard lock(mutex_);
  const auto own = by_tenant_.find(tenant);
  if (own == by_tenant_.end()) return nullptr;
  const auto found = std::ranges::find(own->second.prints, id, &Kept::id);
  return found == own->second.prints.end() ? nullptr : found->print;
}

size_t PromptPrints::bytes(std::uint32_t tenant) const {
  const std::lock_guard lock(mutex_);
  const auto own = by_tenant_.find(tenant);
  return own == by_tenant_.end() ? 0 : own->second.bytes;
}

}  // namespace kvasir
