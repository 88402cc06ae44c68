// A long text as windows that a model can read.
#pragma once

#include <cstdint>
#include <vector>

#include "base/ids.h"

namespace kvasir {

// What a model reads at once. Every token of the text is judged in one window at most: in the first that it is in.
struct TextWindow {
  std::vector<TokenId> tokens;
  Position first_judged = 0;  // this one and all after it; at least 1, since nothing foretells the first
};

// Window i holds `context` tokens: `opening` (what the model's texts begin with), then the text's tokens from
// i * stride on. The last one may be shorter.
class TextWindows {
 public:
  struct Cut {
    std::int64_t context = 0;
    std::int64_t stride = 0;  // 0: as many as a window has of the text, so that windows do not overlap
    std::vector<TokenId> opening;
  };

  // Throws Error when the windows cannot be cut so, or when the text is too short for one token to be judged.
  TextWindows(std::vector<TokenId> text, Cut cut);

  std::int64_t count() const { return count_; }
  TextWindow at(std::int64_t i) const;
  std::int64_t judged() const;  // tokens, in all windows
  const std::vector<TokenId>& text() const { return text_; }
  const Cut& cut() const { return cut_; }

 private:
  std::int64_t text_tokens() const;  // of one window
  std::int64_t judged_in(std::int64_t i) const;

  std::vector<TokenId> text_;
  Cut cut_;
  std::int64_t count_ = 0;
};

}  // namespace kvasir
