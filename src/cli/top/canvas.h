// A grid of styled characters, and what a terminal must be sent to show it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kvasir {

// The eight colours that every terminal has, as its user likes them, and their bright ones.
enum class Ink : std::uint8_t { kPlain, kRed, kGreen, kYellow, kBlue, kMagenta, kCyan, kGrey, kBright };

struct TextStyle {
  Ink ink = Ink::kPlain;
  bool bold = false;
  bool reverse = false;

  friend bool operator==(const TextStyle&, const TextStyle&) = default;
};

struct Box {
  int x = 0;
  int y = 0;
  int width = 0;
  int height = 0;
};

class Canvas {
 public:
  Canvas(int width, int height);

  int width() const { return width_; }
  int height() const { return height_; }

  // Writes from (x, y) on, cut at the column `end`; the column behind it. What is not printable becomes '?': texts of
  // clients must not steer the terminal of who looks. Characters are taken to be one column wide.
  int text(int x, int y, std::string_view text, TextStyle style = {}, int end = 1 << 20);

  // The row as plain text, without spaces at its end.
  std::string plain(int y) const;

  // What changes a terminal that shows `before` into one that shows this; of another size: all.
  std::string changes_from(const Canvas& before) const;

 private:
  struct Glyph {
    std::string text = " ";  // one character, in UTF-8
    TextStyle style;

    friend bool operator==(const Glyph&, const Glyph&) = default;
  };

  std::string styled(int y) const;
  const Glyph& at(int x, int y) const {
    return glyphs_[static_cast<size_t>(y) * static_cast<size_t>(width_) + static_cast<size_t>(x)];
  }

  int width_;
  int height_;
  std::vector<Glyph> glyphs_;
};

}  // namespace kvasir
