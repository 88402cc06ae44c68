// SentencePiece's precompiled_charsmap: a table from strings to what they are normalized to.
//
// The bytes are, in little endian: the size of an array, that array (a double-array trie of Darts-clone, entries of
// 32 bits), and the results, each ending in a NUL.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kvasir {

// Constant once built.
class Charsmap {
 public:
  struct Match {
    size_t size = 0;          // of what is replaced
    std::string_view result;  // which replaces it; may be empty
  };

  // Throws Error for bytes that are no such table, or whose results are beyond kMaxResult. `where` names the file.
  Charsmap(std::string_view bytes, const std::string& where);

  // The longest, or shortest, string of the table that `text` begins with.
  std::optional<Match> longest(std::string_view text) const { return find(text, Wanted::kLongest); }
  std::optional<Match> shortest(std::string_view text) const { return find(text, Wanted::kShortest); }

  std::string bytes() const;  // as they were given

  static constexpr size_t kMaxResult = 256;  // the most bytes that one string becomes: NFKC makes up to 33
  static constexpr size_t kMaxKey = 256;     // longer ones are not found
  static constexpr size_t kMaxBytes = size_t{16} << 20;

 private:
  enum class Wanted : std::uint8_t { kShortest, kLongest };

  std::optional<Match> find(std::string_view text, Wanted wanted) const;
  std::string_view result_at(std::uint32_t offset) const;

  std::vector<std::uint32_t> units_;
  std::string results_;
};

}  // namespace kvasir
