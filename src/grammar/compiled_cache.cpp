#include "grammar/compiled_cache.h"

#include <array>
#include <utility>

#include "grammar/json_schema.h"

namespace kvasir::grammar {
namespace {

Key256 key_of(std::string_view kind, std::string_view schema) {
  const std::array<std::string_view, 2> parts{kind, schema};
  return keyed_hash(Key256{}, parts);
}

}  // namespace

std::shared_ptr<const Grammar> GrammarCache::json_schema(std::string_view schema) {
  const Key256 key = key_of("json_schema", schema);
  if (auto found = find(key)) return found;
  return keep({key, compile_json_schema(schema)});
}

std::shared_ptr<const Grammar> GrammarCache::json_object() {
  const Key256 key = key_of("json_object", "");
  if (auto found = find(key)) return found;
  return keep({key, any_json_object()});
}

std::size_t GrammarCache::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

std::shared_ptr<const Grammar> GrammarCache::find(const Key256& key) {
  const std::lock_guard lock(mutex_);
  const auto found = index_.find(key);
  if (found == index_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, found->second);
  return found->second->grammar;
}

// Another thread may have compiled the same meanwhile: then its grammar is the one, so that masks are shared.
std::shared_ptr<const Grammar> GrammarCache::keep(Entry entry) {
  const std::lock_guard lock(mutex_);
  if (const auto found = index_.find(entry.key); found != index_.end()) return found->second->grammar;
  bytes_ += entry.grammar->bytes();
  entries_.push_front(std::move(entry));
  index_[entries_.front().key] = entries_.begin();
  while (bytes_ > max_bytes_ && entries_.size() > 1) {
    bytes_ -= entries_.back().grammar->bytes();
    index_.erase(entries_.back().key);
    entries_.pop_back();
  }
  return entries_.front().grammar;
}

}  // namespace kvasir::grammar
