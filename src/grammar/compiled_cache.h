// GrammarCache: every schema is compiled once. Safe to call from several threads.
#pragma once

#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <unordered_map>

#include "base/error.h"
#include "base/hash.h"
#include "grammar/grammar.h"

namespace kvasir::grammar {

class GrammarCache {
 public:
  // Keeps grammars, and what was said of refused ones, of up to `max_bytes` in all, the latest used; the latest one
  // in any case.
  explicit GrammarCache(std::size_t max_bytes = std::size_t{64} << 20) : max_bytes_(max_bytes) {}

  // As compile_json_schema, which it calls outside of its lock. A schema that is refused once is refused again
  // without being compiled, which would take as long as the first time.
  std::shared_ptr<const Grammar> json_schema(std::string_view schema);

  // As any_json_object.
  std::shared_ptr<const Grammar> json_object();

  std::size_t bytes() const;

 private:
  // A grammar, or the Error instead of it.
  struct Entry {
    Key256 key;
    std::shared_ptr<const Grammar> grammar;
    std::shared_ptr<const Error> refusal;

    std::size_t bytes() const;
    std::shared_ptr<const Grammar> value() const;  // throws the refusal
  };
  using Compile = std::function<std::shared_ptr<const Grammar>()>;

  std::shared_ptr<const Grammar> get(const Key256& key, const Compile& compile);
  std::optional<Entry> find(const Key256& key);
  Entry keep(Entry entry);

  const std::size_t max_bytes_;

  // Under mutex_.
  mutable std::mutex mutex_;
  std::list<Entry> entries_;  // the latest used first
  std::unordered_map<Key256, std::list<Entry>::iterator, Key256Hash> index_;
  std::size_t bytes_ = 0;
};

}  // namespace kvasir::grammar
