#include <algorithm>
#include <utility>

#include "base/error.h"
#include "grammar/regex.h"

namespace kvasir::grammar {
namespace {

using Kind = Regex::Kind;
using Parts = std::vector<Regex>;

// Alternatives with anchors in them are written out one by one; this many, and this many pieces of pattern in all.
constexpr std::size_t kMaxSpread = 256;
constexpr std::size_t kMaxSpreadWeight = std::size_t{1} << 16;

bool is_anchor(const Regex& regex) { return regex.kind >= Kind::kBegin; }

bool has_anchor(const Regex& regex) { return is_anchor(regex) || std::ranges::any_of(regex.parts, has_anchor); }

bool may_be_empty(const Regex& regex) {
  switch (regex.kind) {
    case Kind::kSet:
      return false;
    case Kind::kSequence:
    case Kind::kAll:
      return std::ranges::all_of(regex.parts, may_be_empty);
    case Kind::kAlternatives:
      return std::ranges::any_of(regex.parts, may_be_empty);
    case Kind::kRepeat:
      return regex.least == 0 || may_be_empty(regex.parts.front());
    case Kind::kNot:
      return !may_be_empty(regex.parts.front());
    default:
      return true;
  }
}

std::size_t weight(const Regex& regex) {
  std::size_t sum = 1;
  for (const Regex& part : regex.parts) sum += weight(part);
  return sum;
}

Regex nothing() { return regex_of(Kind::kAlternatives); }
Regex sequence(Parts parts) { return regex_of(Kind::kSequence, std::move(parts)); }
Regex both(Regex left, Regex right) {
  Parts parts;
  parts.push_back(std::move(left));
  parts.push_back(std::move(right));
  return regex_of(Kind::kAll, std::move(parts));
}

class Anchors {
 public:
  explicit Anchors(const std::string& where) : where_(where) {}

  Regex whole(const Regex& pattern) {
    Parts alternatives;
    for (Parts& parts : spread(pattern)) {
      parts.insert(parts.begin(), any_text());
      parts.push_back(any_text());
      alternatives.push_back(settle(std::move(parts), Start::kText));
    }
    return regex_of(Kind::kAlternatives, std::move(alternatives));
  }

 private:
  // Where the first of some parts stands: at the beginning of the text, or perhaps not.
  enum class Start { kText, kAnywhere };

  [[noreturn]] void fail(const char* what) const {
    fail_input(std::string("the pattern has ") + what, where_, "see docs/structured-output.md for what is supported");
  }

  // The pattern as sequences, one of which matches, with all anchors on their first level.
  std::vector<Parts> spread(const Regex& regex) {
    if (is_anchor(regex) || !has_anchor(regex)) return {{regex}};
    std::vector<Parts> out;
    switch (regex.kind) {
      case Kind::kSequence:
        out.emplace_back();
        for (const Regex& part : regex.parts) out = product(out, spread(part));
        return out;
      case Kind::kAlternatives:
        for (const Regex& part : regex.parts) {
          for (Parts& one : spread(part)) out.push_back(std::move(one));
        }
        check(out);
        return out;
      default:
        if (regex.most > 1) fail("^, $ or a look-around that is repeated");
        if (regex.most == 1) out = spread(regex.parts.front());
        if (regex.least == 0) out.emplace_back();
        return out;
    }
  }

  std::vector<Parts> product(const std::vector<Parts>& left, const std::vector<Parts>& right) {
    if (left.size() * right.size() > kMaxSpread) fail("too many alternatives with anchors");
    std::vector<Parts> out;
    for (const Parts& a : left) {
      for (const Parts& b : right) {
        out.push_back(a);
        out.back().insert(out.back().end(), b.begin(), b.end());
      }
    }
    check(out);
    return out;
  }

  void check(const std::vector<Parts>& all) {
    for (const Parts& parts : all) {
      for (const Regex& part : parts) spent_ += weight(part);
    }
    if (all.size() > kMaxSpread || spent_ > kMaxSpreadWeight) fail("too many alternatives with anchors");
  }

  // One sequence, up to the end of the text.
  Regex settle(Parts parts, Start start) {
    const auto is = [](Kind kind) { return [kind](const Regex& part) { return part.kind == kind; }; };
    // Up to the last ^ and from the first $ on, there are no characters.
    if (const auto last = std::ranges::find_if(parts.rbegin(), parts.rend(), is(Kind::kBegin));
        last != parts.rend()) {
      if (start != Start::kText) fail("^ within a look-ahead");
      const auto end = last.base();
      if (!std::all_of(parts.begin(), end, may_be_empty)) return nothing();
      parts.erase(std::remove_if(parts.begin(), end,
                                 [](const Regex& part) { return !is_anchor(part) || part.kind == Kind::kBegin; }),
                  end);
    }
    if (const auto first = std::ranges::find_if(parts, is(Kind::kEnd)); first != parts.end()) {
      if (!std::all_of(first, parts.end(), may_be_empty)) return nothing();
      parts.erase(std::remove_if(first, parts.end(),
                                 [](const Regex& part) { return !is_anchor(part) || part.kind == Kind::kEnd; }),
                  parts.end());
    }
    return look_around(std::move(parts), start);
  }

  Regex look_around(Parts parts, Start start) {
    Parts before;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (parts[i].kind == Kind::kBehind) {
        Regex so_far = both(sequence(std::exchange(before, {})), behind(parts[i].parts.front(), start));
        before.push_back(std::move(so_far));
        continue;
      }
      if (parts[i].kind != Kind::kAhead) {
        before.push_back(std::move(parts[i]));
        continue;
      }
      Parts rest(std::make_move_iterator(parts.begin() + static_cast<std::ptrdiff_t>(i) + 1),
                 std::make_move_iterator(parts.end()));
      for (const Regex& part : rest) {
        if (part.kind == Kind::kBehind) fail("a look-behind after a look-ahead");
      }
      const Start here = before.empty() ? start : Start::kAnywhere;
      Regex seen = ahead(parts[i].parts.front(), here);
      before.push_back(both(look_around(std::move(rest), here), std::move(seen)));
      break;
    }
    return sequence(std::move(before));
  }

  Regex ahead(const Regex& what, Start start) {
    if (what.kind == Kind::kNot) return regex_of(Kind::kNot, {ahead(what.parts.front(), start)});
    Parts alternatives;
    for (Parts& parts : spread(what)) {
      parts.push_back(any_text());
      alternatives.push_back(settle(std::move(parts), start));
    }
    return regex_of(Kind::kAlternatives, std::move(alternatives));
  }

  Regex behind(const Regex& what, Start start) {
    if (start != Start::kText) fail("a look-behind after a look-ahead");
    if (what.kind == Kind::kNot) return regex_of(Kind::kNot, {behind(what.parts.front(), start)});
    if (has_anchor(what)) fail("^, $ or a look-around within a look-behind");
    return sequence({any_text(), what});
  }

  const std::string& where_;
  std::size_t spent_ = 0;
};

}  // namespace

Regex regex_of(Regex::Kind kind, std::vector<Regex> parts) {
  return {.kind = kind, .set = {}, .parts = std::move(parts)};
}

Regex any_text() {
  Regex any{.kind = Kind::kSet, .set = CodePointSet::all(), .parts = {}};
  return regex_of(Kind::kRepeat, {std::move(any)});
}

Regex whole_text(const Regex& pattern, const std::string& where) { return Anchors(where).whole(pattern); }

}  // namespace kvasir::grammar
