#include "grammar/json_text.h"

#include <array>
#include <nlohmann/json.hpp>

namespace kvasir::grammar {
namespace {

constexpr std::uint8_t byte_of(char c) { return static_cast<std::uint8_t>(c); }

void build_hex(GrammarBuilder& builder, NodeId from, NodeId to) {
  builder.bytes(from, '0', '9', to);
  builder.bytes(from, 'a', 'f', to);
  builder.bytes(from, 'A', 'F', to);
}

NodeId build_any_of(GrammarBuilder& builder, NodeId from, std::string_view characters) {
  const NodeId to = builder.node();
  for (const char c : characters) builder.bytes(from, byte_of(c), byte_of(c), to);
  return to;
}

// UTF-8 of more than one byte, as Unicode's table of well-formed sequences has it.
void build_multibyte(GrammarBuilder& builder, NodeId from, NodeId to) {
  const NodeId one = builder.node();  // so many continuation bytes are left
  const NodeId two = builder.node();
  const NodeId three = builder.node();
  builder.bytes(one, 0x80, 0xBF, to);
  builder.bytes(two, 0x80, 0xBF, one);
  builder.bytes(three, 0x80, 0xBF, two);
  builder.bytes(from, 0xC2, 0xDF, one);
  builder.bytes(from, 0xE1, 0xEC, two);
  builder.bytes(from, 0xEE, 0xEF, two);
  builder.bytes(from, 0xF1, 0xF3, three);
  struct Special {
    std::uint8_t lead, low, high;
    NodeId after;
  };
  const std::array<Special, 4> specials{
      {{0xE0, 0xA0, 0xBF, one}, {0xED, 0x80, 0x9F, one}, {0xF0, 0x90, 0xBF, two}, {0xF4, 0x80, 0x8F, two}}};
  for (const Special& special : specials) {
    const NodeId second = builder.node();
    builder.bytes(from, special.lead, special.lead, second);
    builder.bytes(second, special.low, special.high, special.after);
  }
}

// After \u: the four digits of a character that is no surrogate, or a pair of surrogates.
void build_unicode_escape(GrammarBuilder& builder, NodeId from, NodeId to) {
  const NodeId three = builder.node();  // so many digits are left
  const NodeId two = builder.node();
  const NodeId one = builder.node();
  build_hex(builder, three, two);
  build_hex(builder, two, one);
  build_hex(builder, one, to);
  builder.bytes(from, '0', '9', three);
  builder.join(build_any_of(builder, from, "abcefABCEF"), three);
  const NodeId after_d = build_any_of(builder, from, "dD");
  builder.bytes(after_d, '0', '7', two);
  const NodeId high_two = build_any_of(builder, after_d, "89abAB");
  const NodeId high_one = builder.node();
  const NodeId high_end = builder.node();
  build_hex(builder, high_two, high_one);
  build_hex(builder, high_one, high_end);
  const NodeId low = build_any_of(builder, builder.literal(high_end, "\\u"), "dD");
  builder.join(build_any_of(builder, low, "cdefCDEF"), two);
}

void build_unescaped(GrammarBuilder& builder, NodeId from, NodeId to) {
  builder.bytes(from, 0x20, 0x21, to);
  builder.bytes(from, 0x23, 0x5B, to);
  builder.bytes(from, 0x5D, 0x7F, to);
  build_multibyte(builder, from, to);
}

void build_character(GrammarBuilder& builder, NodeId from, NodeId to) {
  build_unescaped(builder, from, to);
  const NodeId escape = builder.literal(from, "\\");
  builder.join(build_any_of(builder, escape, "\"\\/bfnrt"), to);
  build_unicode_escape(builder, builder.literal(escape, "u"), to);
}

// From `least` to `most` digits.
NodeId build_digits(GrammarBuilder& builder, NodeId from, int least, int most) {
  const NodeId end = builder.node();
  for (int i = 0; i <= most; ++i) {
    if (i >= least) builder.join(from, end);
    if (i == most) break;
    const NodeId next = builder.node();
    builder.bytes(from, '0', '9', next);
    from = next;
  }
  return end;
}

// Exponents that keep 20 digits within the range of a double.
void build_exponent(GrammarBuilder& builder, NodeId from, NodeId to) {
  const NodeId up = builder.node();
  builder.join(from, up);
  builder.join(build_any_of(builder, from, "+"), up);
  builder.join(build_digits(builder, up, 1, 2), to);
  builder.join(build_digits(builder, builder.literal(up, "1"), 2, 2), to);
  const NodeId two_hundred = builder.literal(up, "2");
  const NodeId tens = builder.node();
  builder.bytes(two_hundred, '0', '7', tens);
  builder.join(build_digits(builder, tens, 1, 1), to);
  const NodeId down = builder.literal(from, "-");
  builder.join(build_digits(builder, down, 1, 2), to);
  builder.join(build_digits(builder, build_any_of(builder, down, "12"), 2, 2), to);
  builder.join(build_digits(builder, builder.literal(down, "30"), 1, 1), to);
}

NodeId build_colon(GrammarBuilder& builder, NodeId from, Spelling spelling) {
  const NodeId colon = builder.literal(from, ":");
  if (spelling == Spelling::kOneWay) return colon;
  const NodeId end = builder.node();
  builder.join(colon, end);
  builder.bytes(colon, ' ', ' ', end);
  return end;
}

}  // namespace

void build_white_space_rule(GrammarBuilder& builder, RuleId rule) {
  const NodeId start = builder.rule(rule).start;
  const NodeId end = builder.rule(rule).end;
  builder.bytes(start, ' ', ' ', end);
  NodeId at = builder.literal(start, "\n");
  for (int i = 0; i < kMaxIndentation; ++i) {
    builder.join(at, end);
    at = build_any_of(builder, at, " \t");
  }
  builder.join(at, end);
}

NodeId build_leading_space(GrammarBuilder& builder, NodeId from) {
  const NodeId to = build_any_of(builder, from, " \n");
  builder.join(from, to);
  return to;
}

NodeId build_string(GrammarBuilder& builder, NodeId from, LengthLimits length) {
  NodeId at = builder.literal(from, "\"");
  const NodeId close = builder.node();
  for (std::uint32_t i = 0; i < length.least; ++i) {
    const NodeId next = builder.node();
    build_character(builder, at, next);
    at = next;
  }
  builder.join(at, close);
  if (length.most == Regex::kNoLimit) {
    // A node of its own to loop on: the way to it must not be repeated.
    const NodeId loop = builder.node();
    builder.join(at, loop);
    build_character(builder, loop, loop);
    builder.join(loop, close);
  } else {
    for (std::uint32_t i = length.least; i < length.most; ++i) {
      const NodeId next = builder.node();
      build_character(builder, at, next);
      at = next;
      builder.join(at, close);
    }
  }
  return builder.literal(close, "\"");
}

NodeId build_number(GrammarBuilder& builder, NodeId from) {
  const NodeId whole = builder.node();
  builder.join(from, whole);
  builder.bytes(from, '-', '-', whole);
  const NodeId after_whole = builder.node();
  builder.bytes(whole, '0', '0', after_whole);
  const NodeId first = builder.node();
  builder.bytes(whole, '1', '9', first);
  builder.join(build_digits(builder, first, 0, 19), after_whole);
  const NodeId after_fraction = builder.node();
  builder.join(after_whole, after_fraction);
  builder.join(build_digits(builder, builder.literal(after_whole, "."), 1, 24), after_fraction);
  const NodeId end = builder.node();
  builder.join(after_fraction, end);
  build_exponent(builder, build_any_of(builder, after_fraction, "eE"), end);
  return end;
}

NodeId build_key(GrammarBuilder& builder, NodeId from, const std::string& name, Spelling spelling) {
  return build_colon(builder, builder.literal(from, nlohmann::json(name).dump()), spelling);
}

NodeId build_key(GrammarBuilder& builder, NodeId from, const Language& names, Spelling spelling) {
  const NodeId inside = builder.literal(from, "\"");
  return build_colon(builder, builder.literal(build_language(builder, inside, names), "\""), spelling);
}

}  // namespace kvasir::grammar
