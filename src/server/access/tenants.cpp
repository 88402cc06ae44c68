#include "server/access/tenants.h"

#include <fmt/format.h>
#include <sodium.h>

#include <array>
#include <utility>

namespace kvasir {

Tenant cache_owner(const Caller& caller, const CacheSpace& space) {
  const std::array<std::string_view, 3> parts{"kvasir space", space.salt, space.key};
  return {caller.id, keyed_hash(caller.secret, parts)};
}

// Feistel's network over two halves of 24 bits: 48 bits are a whole number in every JSON reader.
std::uint64_t task_number(const Caller& caller, RequestId id) {
  if (caller.sees == KeyEntry::Sees::kAll) return id;
  constexpr std::uint64_t kHalf = (std::uint64_t{1} << 24) - 1;
  constexpr int kRounds = 4;
  std::uint64_t left = (id >> 24) & kHalf;
  std::uint64_t right = id & kHalf;
  for (int round = 0; round < kRounds; ++round) {
    const std::string input = fmt::format("{} {}", round, right);
    const std::array<std::string_view, 2> parts{"kvasir task", input};
    const Key256 noise = keyed_hash(caller.secret, parts);
    const std::uint64_t mixed = left ^ ((std::uint64_t{noise.bytes[0]} << 16) | (std::uint64_t{noise.bytes[1]} << 8) |
                                        std::uint64_t{noise.bytes[2]});
    left = std::exchange(right, mixed);
  }
  return left << 24 | right;
}

Tenants::Tenants(const std::optional<KeysFile>& keys, std::int64_t places) : places_(places) {
  if (keys) {
    replace(*keys);
    return;
  }
  Caller everybody;
  everybody.name = "default";
  everybody.secret = random_secret();
  everybody.sees = KeyEntry::Sees::kAll;
  everybody.admission = std::make_shared<Admission>(places_);
  callers_.push_back(std::make_shared<Caller>(std::move(everybody)));
}

void Tenants::replace(const KeysFile& keys) {
  const std::lock_guard lock(mutex_);
  for (auto& known : callers_) {
    Caller without_key = *known;
    without_key.share = TenantShare{};
    without_key.sees = KeyEntry::Sees::kOwn;
    known = std::make_shared<Caller>(std::move(without_key));
  }
  auto key_slots = std::make_shared<std::vector<KeySlot>>();
  for (const KeyEntry& entry : keys.entries) {
    const auto [place, is_new] =
        ids_.try_emplace(entry.name, kSystemTenant + 1 + static_cast<std::uint32_t>(callers_.size()));
    if (is_new) callers_.push_back(nullptr);
    std::shared_ptr<const Caller>& caller = callers_[place->second - kSystemTenant - 1];
    const std::array<std::string_view, 2> parts{"kvasir tenant", entry.name};
    caller = std::make_shared<Caller>(Caller{
        .id = place->second,
        .name = entry.name,
        .secret = keyed_hash(keys.secret, parts),
        .share = entry.share,
        .sees = entry.sees,
        .admission = is_new ? std::make_shared<Admission>(places_) : caller->admission,
    });
    key_slots->push_back({entry.hash, caller});
  }
  key_slots_ = std::move(key_slots);
}

bool Tenants::open() const {
  const std::lock_guard lock(mutex_);
  return key_slots_ == nullptr;
}

std::shared_ptr<const Caller> Tenants::find(std::string_view key) const {
  std::shared_ptr<const std::vector<KeySlot>> key_slots;
  {
    const std::lock_guard lock(mutex_);
    if (key_slots_ == nullptr) return callers_.front();
    key_slots = key_slots_;
  }
  const Key256 hash = hash_of_key(key);
  std::shared_ptr<const Caller> found;
  for (const KeySlot& slot : *key_slots) {  // to the end, wherever it is
    if (sodium_memcmp(hash.bytes.data(), slot.hash.bytes.data(), hash.bytes.size()) == 0) found = slot.caller;
  }
  return found;
}

std::vector<std::shared_ptr<const Caller>> Tenants::all() const {
  const std::lock_guard lock(mutex_);
  return callers_;
}

}  // namespace kvasir
