#include "cli/top/canvas.h"

#include <fmt/format.h>

#include <algorithm>

#include "text/utf8.h"

namespace kvasir {
namespace {

std::string codes_of(TextStyle style) {
  std::string out = "\x1b[0";
  if (style.bold) out += ";1";
  if (style.reverse) out += ";7";
  switch (style.ink) {
    case Ink::kPlain:
      break;
    case Ink::kGrey:
      out += ";90";
      break;
    case Ink::kBright:
      out += ";97";
      break;
    default:
      out += fmt::format(";{}", 30 + static_cast<int>(style.ink));
  }
  // kCyan is 6 of Ink and 36 of a terminal's, and so are those before it
  return out + "m";
}

bool is_printable(std::string_view character) {
  const auto first = static_cast<unsigned char>(character[0]);
  if (character.size() == 1) return first >= 0x20 && first < 0x7f;
  return !(first == 0xc2 && static_cast<unsigned char>(character[1]) < 0xa0);  // the other control characters
}

size_t length_of(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  const size_t length = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  return std::min(length, text.size());
}

}  // namespace

Canvas::Canvas(int width, int height) : width_(std::max(width, 1)), height_(std::max(height, 1)) {
  glyphs_.resize(static_cast<size_t>(width_) * static_cast<size_t>(height_));
}

int Canvas::text(int x, int y, std::string_view text, TextStyle style, int end) {
  const std::string valid = to_valid_utf8(std::string(text));
  std::string_view left = valid;
  for (; !left.empty() && x < std::min(end, width_); ++x) {
    const std::string_view character = left.substr(0, length_of(left));
    left.remove_prefix(character.size());
    if (y < 0 || y >= height_ || x < 0) continue;
    Glyph& glyph = glyphs_[static_cast<size_t>(y) * static_cast<size_t>(width_) + static_cast<size_t>(x)];
    glyph = {std::string(is_printable(character) ? character : "?"), style};
  }
  return x;
}

std::string Canvas::plain(int y) const {
  std::string out;
  for (int x = 0; x < width_; ++x) out += at(x, y).text;
  out.erase(out.find_last_not_of(' ') + 1);
  return out;
}

std::string Canvas::styled(int y) const {
  std::string out;
  TextStyle style;
  for (int x = 0; x < width_; ++x) {
    const Glyph& glyph = at(x, y);
    if (x == 0 || glyph.style != style) out += codes_of(style = glyph.style);
    out += glyph.text;
  }
  return out + "\x1b[0m";
}

std::string Canvas::changes_from(const Canvas& before) const {
  const bool whole = before.width_ != width_ || before.height_ != height_;
  std::string out = whole ? "\x1b[2J" : "";
  for (int y = 0; y < height_; ++y) {
    std::string row = styled(y);
    if (whole || row != before.styled(y)) out += fmt::format("\x1b[{};1H{}", y + 1, row);
  }
  return out;
}

}  // namespace kvasir
