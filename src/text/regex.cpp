#include "text/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <fmt/format.h>
#include <pcre2.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/check.h"
#include "base/error.h"
#include "text/regex_dialect.h"
#include "text/utf8.h"

namespace kvasir {
namespace {

constexpr std::uint32_t kHeapKib = 64 * 1024;

// Nearly every match needs a handful of backtracking steps; a run of n spaces needs n. So each match starts
// with a small allowance, and what goes beyond it is paid from a budget of the whole text.
constexpr std::uint32_t kFirstAllowance = 1000;
constexpr std::uint64_t kBudgetFloor = 10'000'000;
constexpr std::uint64_t kBudgetPerByte = 256;

struct MatchDataFree {
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};
struct MatchContextFree {
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};

// What one thread needs to match, made for one text.
class Matcher {
 public:
  Matcher(const pcre2_code* code, std::string_view text, const std::string& where)
      : code_(code),
        text_(text),
        where_(where),
        data_(pcre2_match_data_create(1, nullptr)),
        context_(pcre2_match_context_create(nullptr)),
        budget_(kBudgetFloor + kBudgetPerByte * text.size()) {
    if (!data_ || !context_) fail_system("no memory for a pattern match", where);
    pcre2_set_heap_limit(context_.get(), kHeapKib);
  }

  // The first match at or after `from`; false when there is none.
  bool find(size_t from, TextRange& found) {
    std::uint64_t allowance = kFirstAllowance;
    std::uint32_t options = PCRE2_NO_UTF_CHECK;
    while (true) {
      pcre2_set_match_limit(context_.get(),
                            static_cast<std::uint32_t>(std::min<std::uint64_t>(allowance, UINT32_MAX)));
      const int rc = pcre2_match(code_, reinterpret_cast<PCRE2_SPTR>(text_.data()), text_.size(), from, options,
                                 data_.get(), context_.get());
      if (rc >= 0) {
        const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(data_.get());
        found = {ends[0], ends[1]};
        return true;
      }
      if (rc == PCRE2_ERROR_NOMATCH) return false;
      if (rc == PCRE2_ERROR_JIT_STACKLIMIT) {
        options |= PCRE2_NO_JIT;  // the interpreter's stack is on the heap, within its own limit
      } else if (rc == PCRE2_ERROR_MATCHLIMIT && allowance < budget_) {
        budget_ -= allowance;
        allowance *= 8;
      } else {
        fail_input(fmt::format("the tokenizer's pattern takes too long on this text ({})", rc), where_,
                   "the pattern backtracks too much; use another tokenizer.json");
      }
    }
  }

 private:
  const pcre2_code* code_;
  std::string_view text_;
  const std::string& where_;
  std::unique_ptr<pcre2_match_data, MatchDataFree> data_;
  std::unique_ptr<pcre2_match_context, MatchContextFree> context_;
  std::uint64_t budget_;
};

}  // namespace

struct Regex::Code {
  explicit Code(pcre2_code* compiled) : code(compiled) {}
  Code(const Code&) = delete;
  Code& operator=(const Code&) = delete;
  ~Code() { pcre2_code_free(code); }

  pcre2_code* code;
};

Regex::Regex(std::string_view pattern, std::string where) : pattern_(pattern), where_(std::move(where)) {
  const std::string translated = to_pcre2_dialect(pattern, where_);
  int error = 0;
  PCRE2_SIZE offset = 0;
  constexpr std::uint32_t kOptions =
      PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C | PCRE2_NO_AUTO_CAPTURE;
  pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(), kOptions,
                                   &error, &offset, nullptr);
  if (code == nullptr) {
    std::array<PCRE2_UCHAR, 160> message{};
    pcre2_get_error_message(error, message.data(), message.size());
    fail_input(fmt::format("the pattern '{}' does not compile: {}", pattern.substr(0, 200),
                           reinterpret_cast<const char*>(message.data())),
               where_, "use a tokenizer.json of a supported model");
  }
  code_ = std::make_shared<const Code>(code);
  // Without JIT (a machine that forbids it) the interpreter does the same, slower.
  static_cast<void>(pcre2_jit_compile(code, PCRE2_JIT_COMPLETE));
}

bool Regex::can_match_nothing() const {
  std::uint32_t empty = 0;
  CHECK(pcre2_pattern_info(code_->code, PCRE2_INFO_MATCHEMPTY, &empty) == 0);
  return empty != 0;
}

std::vector<TextRange> Regex::matches(std::string_view text) const {
  std::vector<TextRange> found;
  if (text.empty()) return found;
  Matcher matcher(code_->code, text, where_);
  size_t from = 0;
  TextRange match;
  while (from < text.size() && matcher.find(from, match)) {
    if (match.size() > 0 && match.begin >= from) {
      found.push_back(match);
      from = match.end;
    } else {
      from = std::max(from, match.begin);
      if (from < text.size()) from += static_cast<size_t>(utf8_at(text, from).size);
    }
  }
  return found;
}

}  // namespace kvasir
