// What a prompt was made of, in little room: enough to say what another one changed.
//
// Anthropic's and OpenAI's clients name an earlier answer, and ask why its prompt could not be read from the cache.
// The cache explains what it found, whoever asked before (`explain`); this compares with that one prompt.
//
//   parts    a hash each: the KV policy, the part of the cache, tools, form, reasoning, and every message
//   marks    a hash of all tokens up to every 16th: how far two prompts agree
//
// Nothing of a text can be read out of it. Hashes are of 64 bits, and what agrees by chance is told wrongly to
// whoever asked, and to nobody else.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "server/api/api_types.h"

namespace kvasir {

struct PromptPrint {
  std::uint64_t policy = 0;
  std::uint64_t space = 0;
  std::uint64_t tools = 0;
  std::uint64_t system = 0;  // the messages of the system's at the beginning
  std::uint64_t form = 0;
  std::uint64_t reasoning = 0;  // what the template is told beside the messages
  std::vector<std::uint64_t> messages{};
  std::vector<std::uint64_t> marks{};
  std::int64_t tokens = 0;

  size_t bytes() const { return sizeof *this + sizeof(std::uint64_t) * (messages.size() + marks.size()); }
};

PromptPrint print_of(const ChatRequest& chat, std::span<const TokenId> prompt);

enum class PromptChange { kNone, kPolicy, kCacheSpace, kTools, kSystem, kForm, kReasoning, kMessages };

struct PromptComparison {
  PromptChange change = PromptChange::kNone;  // the first, in this order, of what made the prompts differ
  std::int64_t common_tokens = 0;             // to 16 tokens, unless all of the earlier one is common
  std::int64_t missed_tokens = 0;             // of the earlier one
};

// A prompt goes on from an earlier one if all that was asked is there, however a template changed its end.
PromptComparison compare(const PromptPrint& earlier, const PromptPrint& now);

// The last prompts of each tenant, by the ids of their answers. All methods may be called from any thread. No tenant
// finds another's.
class PromptPrints {
 public:
  struct Limits {
    size_t prompts = 1024;
    size_t bytes = size_t{4} << 20;
  };

  explicit PromptPrints(Limits of_each_tenant) : limits_(of_each_tenant) {}

  // The oldest go when there is no room. One that is larger than all the room is not kept.
  void add(std::uint32_t tenant, std::string id, PromptPrint print);
  std::shared_ptr<const PromptPrint> find(std::uint32_t tenant, const std::string& id) const;  // null: not here
  size_t bytes(std::uint32_t tenant) const;

 private:
  struct Kept {
    std::string id;
    std::shared_ptr<const PromptPrint> print;

    size_t bytes() const { return sizeof *this + id.size() + print->bytes(); }
  };
  struct TenantPrints {
    std::deque<Kept> prints;  // newest first
    size_t bytes = 0;
  };

  Limits limits_;
  mutable std::mutex mutex_;
  std::map<std::uint32_t, TenantPrints> by_tenant_;  // under mutex_
};

}  // namespace kvasir
