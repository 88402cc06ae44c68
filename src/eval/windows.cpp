#include "eval/windows.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace kvasir {

TextWindows::TextWindows(std::vector<TokenId> text, Cut cut) : text_(std::move(text)), cut_(std::move(cut)) {
  const auto opening = static_cast<std::int64_t>(cut_.opening.size());
  if (cut_.context < opening + 2) {
    fail_usage(fmt::format("a window of {} tokens has no token to judge", cut_.context), "--ctx",
               fmt::format("use {} or more", opening + 2));
  }
  if (cut_.stride == 0) cut_.stride = text_tokens();
  if (cut_.stride < 1 || cut_.stride > text_tokens()) {
    fail_usage(fmt::format("a stride of {} tokens leaves gaps or does not move", cut_.stride), "--stride",
               fmt::format("use 1 to {}, what a window of {} tokens has of the text", text_tokens(), cut_.context));
  }
  const auto size = static_cast<std::int64_t>(text_.size());
  if (size + opening < 2) {
    fail_input(fmt::format("the text has {} tokens: none can be judged", size), "--text", "give a longer text");
  }
  count_ = size <= text_tokens() ? 1 : 1 + (size - text_tokens() + cut_.stride - 1) / cut_.stride;
  if (judged_in(count_ - 1) == 0) --count_;  // one last token that nothing foretells
}

std::int64_t TextWindows::text_tokens() const {
  return cut_.context - static_cast<std::int64_t>(cut_.opening.size());
}

TextWindow TextWindows::at(std::int64_t i) const {
  const auto size = static_cast<std::int64_t>(text_.size());
  const std::int64_t begin = i * cut_.stride;
  const std::int64_t end = std::min(size, begin + text_tokens());
  const std::int64_t seen = i == 0 ? 0 : (i - 1) * cut_.stride + text_tokens();  // the window before ended here
  TextWindow out;
  out.tokens = cut_.opening;
  out.tokens.insert(out.tokens.end(), text_.begin() + begin, text_.begin() + end);
  const Position first_new = static_cast<Position>(cut_.opening.size()) + std::max<std::int64_t>(0, seen - begin);
  out.first_judged = std::max<Position>(1, first_new);
  return out;
}

std::int64_t TextWindows::judged_in(std::int64_t i) const {
  const TextWindow window = at(i);
  return static_cast<std::int64_t>(window.tokens.size()) - window.first_judged;
}

std::int64_t TextWindows::judged() const {
  std::int64_t sum = 0;
  for (std::int64_t i = 0; i < count_; ++i) sum += judged_in(i);
  return sum;
}

}  // namespace kvasir
