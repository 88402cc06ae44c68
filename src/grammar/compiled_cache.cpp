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

std::size_t GrammarCache::Entry::bytes() const {
  if (grammar) return sizeof *this + grammar->bytes();
  const Error::Parts& parts = refusal->parts();
  return sizeof *this + sizeof *refusal + 2 * (parts.what.size() + parts.where.size() + parts.fix.size());
}

std::shared_ptr<const Grammar> GrammarCache::Entry::value() const {
  if (refusal) throw Error(*refusal);
  return grammar;
}

std::shared_ptr<const Grammar> GrammarCache::json_schema(std::string_view schema) {
  return get(key_of("json_schema", schema), [&] { return compile_json_schema(schema); });
}

std::shared_ptr<const Grammar> GrammarCache::json_object() {
  return get(key_of("json_object", ""), [] { return any_json_object(); });
}

std::size_t GrammarCache::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

std::shared_ptr<const Grammar> GrammarCache::get(const Key256& key, const Compile& compile) {
  if (const auto found = find(key)) return found->value();
  Entry made{key, nullptr, nullptr};
  try {
    made.grammar = compile();
  } catch (const Error& error) {
    if (error.kind() == Error::Kind::kSystem) throw;  // of this moment, not of the schema
    made.refusal = std::make_shared<const Error>(error);
  }
  return keep(std::move(made)).value();
}

std::optional<GrammarCache::Entry> GrammarCache::find(const Key256& key) {
  const std::lock_guard lock(mutex_);
  const auto found = index_.find(key);
  if (found == index_.end()) return std::nullopt;
  entries_.splice(entries_.begin(), entries_, found->second);
  return *found->second;
}

// Another thread may have compiled the same meanwhile: then its grammar is the one, so that masks are shared.
GrammarCache::Entry GrammarCache::keep(Entry entry) {
  const std::lock_guard lock(mutex_);
  if (const auto found = index_.find(entry.key); found != index_.end()) return *found->second;
  bytes_ += entry.bytes();
  entries_.push_front(std::move(entry));
  index_[entries_.front().key] = entries_.begin();
  while (bytes_ > max_bytes_ && entries_.size() > 1) {
    bytes_ -= entries_.back().bytes();
    index_.erase(entries_.back().key);
    entries_.pop_back();
  }
  return entries_.front();
}

}  // namespace kvasir::grammar
