// TokenMasker: which tokens may come next. Shared by all requests of a model; safe to call from several threads, each
// with matchers of its own.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "grammar/matcher.h"
#include "grammar/vocabulary.h"

namespace kvasir::grammar {

class TokenMasker {
 public:
  struct Limits {
    std::size_t cached_masks = 2048;  // 16 KB each for 128k tokens
    // Bytes tried, times places, for one mask. Typical masks take thousands, the worst of honest schemas a million.
    std::size_t work = std::size_t{1} << 22;
  };
  struct Counts {
    std::uint64_t hits = 0;
    std::uint64_t misses = 0;
  };

  explicit TokenMasker(std::shared_ptr<const Vocabulary> vocabulary);
  TokenMasker(std::shared_ptr<const Vocabulary> vocabulary, Limits limits);

  // Every token whose bytes the matcher can accept; the ends too when it is complete. Remembered for the next matcher
  // of the same grammar that comes to the same places, but while a set is open: hardly any other has the same
  // elements. Throws Error when it would take too long (Limits::work).
  std::shared_ptr<const TokenSet> mask(const Matcher& matcher);

  // The same with at most so much work, of which it takes off what it took. Null: it would take more, and all is
  // spent.
  std::shared_ptr<const TokenSet> mask_within(const Matcher& matcher, std::size_t& work);

  const Vocabulary& vocabulary() const { return *vocabulary_; }
  Counts counts() const;

 private:
  struct Key {
    const Grammar* grammar;
    std::array<std::uint64_t, 2> digest;
    friend bool operator==(const Key&, const Key&) = default;
  };
  struct KeyHash {
    std::size_t operator()(const Key& key) const {
      return key.digest[0] ^ reinterpret_cast<std::uintptr_t>(key.grammar);
    }
  };
  struct Entry {
    Key key;
    std::weak_ptr<const Grammar> grammar;  // a later grammar may lie at the address of one that is gone
    std::shared_ptr<const TokenSet> mask;
  };

  std::shared_ptr<const TokenSet> find(const Key& key, const std::shared_ptr<const Grammar>& grammar);
  void remember(Entry entry);
  std::shared_ptr<const TokenSet> compute_within(const Matcher& matcher, std::size_t& work) const;
  std::optional<TokenSet> compute(const Matcher& matcher, std::size_t& work) const;

  // Constant after construction.
  std::shared_ptr<const Vocabulary> vocabulary_;
  Limits limits_;

  // Under mutex_.
  mutable std::mutex mutex_;
  std::list<Entry> entries_;  // the latest used first
  std::unordered_map<Key, std::list<Entry>::iterator, KeyHash> index_;
  Counts counts_;
};

}  // namespace kvasir::grammar
