#include "text/jinja/format_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "text/jinja/operations.h"
#include "text/utf8.h"

namespace kvasir::jinja {
namespace {

constexpr std::int64_t kWidest = 1 << 20;

bool is_digit_byte(char c) { return c >= '0' && c <= '9'; }

// What a format is read from.
class Cursor {
 public:
  explicit Cursor(std::string_view text, size_t at = 0) : text_(text), at_(at) {}

  bool done() const { return at_ >= text_.size(); }
  size_t at() const { return at_; }
  char peek(size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
  char take() { return text_[at_++]; }
  bool accept(char c) {
    if (peek() != c || done()) return false;
    ++at_;
    return true;
  }
  bool accept_any(std::string_view set, char& out) {
    if (done() || set.find(peek()) == std::string_view::npos) return false;
    out = take();
    return true;
  }
  std::optional<std::int64_t> number(Runtime& runtime) {
    if (!is_digit_byte(peek())) return std::nullopt;
    std::int64_t value = 0;
    while (is_digit_byte(peek())) {
      value = value * 10 + (take() - '0');
      if (value > kWidest) runtime.fail("a format's number is too large");
    }
    return value;
  }

 private:
  std::string_view text_;
  size_t at_;
};

FormatSpec read_spec(Runtime& runtime, std::string_view text) {
  FormatSpec spec;
  if (text.empty()) return spec;
  size_t begin = 0;
  const auto first = static_cast<size_t>(utf8_at(text, 0).size);
  constexpr std::string_view kAligns = "<>=^";
  if (first < text.size() && kAligns.find(text[first]) != std::string_view::npos) {
    spec.fill = std::string(text.substr(0, first));
    spec.align = text[first];
    begin = first + 1;
  }
  Cursor in(text, begin);
  if (spec.align == 0) in.accept_any(kAligns, spec.align);
  in.accept_any("+- ", spec.sign);
  spec.other_form = in.accept('#');
  if (in.peek() == '0' && !in.done()) {
    in.take();
    if (begin == 0) spec.fill = "0";
    spec.zeros = true;
  }
  spec.width = in.number(runtime).value_or(0);
  in.accept_any(",_", spec.grouping);
  if (in.accept('.')) {
    spec.precision = in.number(runtime);
    if (!spec.precision) runtime.fail("a format's precision is missing");
  }
  if (!in.done()) spec.type = in.take();
  if (!in.done()) runtime.fail(fmt::format("'{}' is no format", text));
  return spec;
}

// The arguments of %.
class PercentArguments {
 public:
  PercentArguments(Runtime& runtime, const Value& value) : runtime_(runtime), value_(value) {
    const List* list = value.as_list();
    if (list != nullptr && list->kind == List::Kind::kTuple) items_ = list;
  }

  const Value& next() {
    if (items_ == nullptr) {
      if (taken_++ > 0) runtime_.fail("there are not enough values for the format");
      return value_;
    }
    if (taken_ >= items_->items.size()) runtime_.fail("there are not enough values for the format");
    return items_->items[taken_++];
  }
  const Value& named(const std::string& name) {
    const Dict* dict = value_.as_dict();
    if (dict == nullptr) runtime_.fail("a format with names needs a dict");
    const Value* found = dict->find(name);
    if (found == nullptr) runtime_.fail(fmt::format("the format's '{}' is not there", name));
    taken_ = 1;
    return *found;
  }
  void finish() const {
    const bool all = items_ != nullptr ? taken_ == items_->items.size() : taken_ > 0 || value_.as_dict() != nullptr;
    if (!all && !(items_ == nullptr && value_.as_list() != nullptr))
      runtime_.fail("not all values have a place in the format");
  }

 private:
  Runtime& runtime_;
  const Value& value_;
  const List* items_ = nullptr;
  size_t taken_ = 0;
};

MarkedString repr_of(Runtime& runtime, const Value& value) {
  MarkedString out;
  append_repr(runtime, value, out);
  return out;
}

std::int64_t whole_number(Runtime& runtime, const Value& value) {
  if (const auto integer = value.as_integer()) return *integer;
  if (!value.is_real() || std::fabs(value.as_real()) > 9.2e18) runtime.fail("%d needs a number");
  return static_cast<std::int64_t>(value.as_real());
}

MarkedString percent_value(Runtime& runtime, const Value& value, FormatSpec spec) {
  const char type = spec.type;
  if (type == 's' || type == 'r') {
    MarkedString text = type == 's' ? to_text(runtime, value) : repr_of(runtime, value);
    spec.type = 's';
    spec.sign = '-';
    spec.other_form = false;
    if (spec.align != '<') spec.align = '>';
    spec.fill = " ";
    return formatted(runtime, Value::string(std::move(text)), spec);
  }
  if (type == 'c' && value.as_string() != nullptr) {
    if (character_count(value.as_string()->text()) != 1) runtime.fail("%c needs a character");
    spec.type = 's';
    return formatted(runtime, value, spec);
  }
  constexpr std::string_view kWhole = "diuoxXc";
  if (kWhole.find(type) == std::string_view::npos) {
    if (!value.is_number()) runtime.fail(fmt::format("%{} needs a number", type));
    return formatted(runtime, Value::real(value.as_real()), spec);
  }
  const std::int64_t whole = whole_number(runtime, value);
  if (type == 'i' || type == 'u') spec.type = 'd';
  if (value.is_real() && type != 'd' && type != 'i' && type != 'u') runtime.fail("a whole number is needed");
  // Here a precision is the least count of digits.
  if (spec.precision && type != 'c') {
    const std::int64_t digits = *spec.precision;
    FormatSpec inner = spec;
    inner.precision.reset();
    inner.width = digits + (whole < 0 || spec.sign != '-' ? 1 : 0);
    inner.fill = "0";
    inner.align = '=';
    const MarkedString text = formatted(runtime, Value::integer(whole), inner);
    FormatSpec outer;
    outer.width = spec.width;
    outer.align = spec.align == '<' ? '<' : '>';
    return formatted(runtime, Value::string(text), outer);
  }
  spec.precision.reset();
  return formatted(runtime, Value::integer(whole), spec);
}

FormatSpec percent_spec(Runtime& runtime, Cursor& in, PercentArguments& values) {
  FormatSpec spec;
  bool left = false;
  bool zero = false;
  char flag = 0;
  while (in.accept_any("-+ #0", flag)) {
    left |= flag == '-';
    zero |= flag == '0';
    spec.other_form |= flag == '#';
    if (flag == '+' || (flag == ' ' && spec.sign != '+')) spec.sign = flag;
  }
  const auto count = [&]() -> std::int64_t {
    if (!in.accept('*')) return in.number(runtime).value_or(0);
    const auto given = values.next().as_integer();
    if (!given || *given > kWidest || *given < -kWidest) runtime.fail("* needs a whole number");
    return *given;
  };
  spec.width = count();
  if (spec.width < 0) left = true;
  spec.width = std::abs(spec.width);
  if (in.accept('.')) spec.precision = std::max<std::int64_t>(count(), 0);
  char length = 0;
  in.accept_any("hlL", length);
  if (in.done()) runtime.fail("the format ends too early");
  spec.type = in.take();
  spec.align = left ? '<' : zero ? '=' : '>';
  if (zero && !left) spec.fill = "0";
  return spec;
}

// The fields of text.format().
class BraceFormat {
 public:
  BraceFormat(Runtime& runtime, const Arguments& arguments) : runtime_(runtime), arguments_(arguments) {}

  MarkedString run(const MarkedString& text, int nested) {
    if (nested > 1) runtime_.fail("a format's fields nest too deeply");
    MarkedString out;
    Cursor in(text.text());
    while (!in.done()) {
      runtime_.step();
      const size_t begin = in.at();
      const char c = in.take();
      if (c == '}') {
        if (!in.accept('}')) runtime_.fail("a format has a '}' that ends nothing");
        out.append_range(text, {begin, begin + 1});
      } else if (c != '{') {
        out.append_range(text, {begin, begin + 1});
      } else if (in.accept('{')) {
        out.append_range(text, {begin, begin + 1});
      } else {
        out.append(field(text, in, nested));
      }
    }
    runtime_.build(out.size());
    return out;
  }

 private:
  MarkedString field(const MarkedString& text, Cursor& in, int nested) {
    Value value = argument(in);
    char conversion = 0;
    if (in.accept('!') && !in.done()) conversion = in.take();
    MarkedString spec;
    if (in.accept(':')) {
      const size_t begin = in.at();
      for (int open = 0; !in.done() && (open > 0 || in.peek() != '}'); in.take())
        open += in.peek() == '{' ? 1 : in.peek() == '}' ? -1 : 0;
      spec = run(text.slice({begin, in.at()}), nested + 1);
    }
    if (!in.accept('}')) runtime_.fail("a format has a '{' without its end");
    if (conversion == 'r' || conversion == 'a') value = Value::string(repr_of(runtime_, value));
    if (conversion == 's') value = Value::string(to_text(runtime_, value));
    if (conversion != 0 && conversion != 'r' && conversion != 's') runtime_.fail("a format's conversion is r or s");
    return formatted(runtime_, value, read_spec(runtime_, spec.text()));
  }

  Value argument(Cursor& in) {
    Value value = root(name(in));
    while (in.peek() == '.' || in.peek() == '[') {
      if (in.accept('.')) {
        value = get_attribute(runtime_, value, name(in));
      } else {
        in.take();
        std::string key;
        while (!in.done() && in.peek() != ']') key += in.take();
        if (!in.accept(']')) runtime_.fail("a format has a '[' without its end");
        value = get_item(runtime_, value, key_of(key));
      }
      if (value.is_undefined()) runtime_.fail("a format looks for what is not there");
    }
    return value;
  }

  static std::string name(Cursor& in) {
    std::string out;
    while (!in.done() && std::string_view(".[]!:{}").find(in.peek()) == std::string_view::npos) out += in.take();
    return out;
  }
  static bool all_digits(const std::string& text) {
    return !text.empty() && text.size() < 10 && std::ranges::all_of(text, is_digit_byte);
  }
  static Value key_of(const std::string& key) {
    return all_digits(key) ? Value::integer(std::stoll(key)) : Value::literal(key);
  }

  Value root(const std::string& name) {
    if (name.empty() || all_digits(name)) {
      if ((name.empty() ? numbered_ : counted_) != 0) runtime_.fail("a format numbers its fields or does not");
      ++(name.empty() ? counted_ : numbered_);
      const size_t at = name.empty() ? counted_ - 1 : std::stoul(name);
      if (at >= arguments_.plain.size()) runtime_.fail("there are not enough values for the format");
      return arguments_.plain[at];
    }
    const auto found = std::ranges::find(arguments_.named, name, &std::pair<std::string, Value>::first);
    if (found == arguments_.named.end()) runtime_.fail(fmt::format("the format's '{}' is not there", name));
    return found->second;
  }

  Runtime& runtime_;
  const Arguments& arguments_;
  size_t counted_ = 0;   // fields without a name
  size_t numbered_ = 0;  // fields with a number
};

}  // namespace

MarkedString percent_format(Runtime& runtime, const MarkedString& text, const Value& value) {
  if (text.is_markup()) runtime.fail("values are not filled into what is marked safe");
  PercentArguments values(runtime, value);
  MarkedString out;
  Cursor in(text.text());
  while (!in.done()) {
    runtime.step();
    const size_t begin = in.at();
    if (in.take() != '%') {
      out.append_range(text, {begin, begin + 1});
      continue;
    }
    if (in.accept('%')) {
      out.append_range(text, {begin, begin + 1});
      continue;
    }
    const Value* named = nullptr;
    if (in.accept('(')) {
      std::string name;
      while (!in.done() && in.peek() != ')') name += in.take();
      if (!in.accept(')')) runtime.fail("a format has a '(' without its end");
      named = &values.named(name);
    }
    const FormatSpec spec = percent_spec(runtime, in, values);
    if (std::string_view("srdiuoxXeEfFgGc").find(spec.type) == std::string_view::npos)
      runtime.fail(fmt::format("'%{}' is no format", spec.type));
    const MarkedString part = percent_value(runtime, named == nullptr ? values.next() : *named, spec);
    runtime.build(part.size());
    out.append(part);
  }
  values.finish();
  return out;
}

MarkedString brace_format(Runtime& runtime, const MarkedString& text, const Arguments& arguments) {
  if (text.is_markup()) runtime.fail("values are not filled into what is marked safe");
  return BraceFormat(runtime, arguments).run(text, 0);
}

}  // namespace kvasir::jinja
