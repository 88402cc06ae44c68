// The functions every template can call, and how arguments find their parameters.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <ctime>

#include "text/jinja/function.h"
#include "text/jinja/operations.h"

namespace kvasir::jinja {
namespace {

std::int64_t bound_integer(Runtime& runtime, const Value& value) {
  const auto integer = value.as_integer();
  if (!integer) runtime.fail(fmt::format("range needs whole numbers, not a {}", value.type_name()));
  return *integer;
}

Value range(Runtime& runtime, const Arguments& arguments) {
  const std::vector<Value>& plain = arguments.plain;
  if (plain.empty() || plain.size() > 3 || !arguments.named.empty()) runtime.fail("range needs one to three numbers");
  const std::int64_t start = plain.size() == 1 ? 0 : bound_integer(runtime, plain[0]);
  const std::int64_t stop = bound_integer(runtime, plain[plain.size() == 1 ? 0 : 1]);
  const std::int64_t step = plain.size() == 3 ? bound_integer(runtime, plain[2]) : 1;
  if (step == 0) runtime.fail("range cannot have the step 0");
  std::vector<Value> items;
  for (std::int64_t at = start; step > 0 ? at < stop : at > stop;) {
    runtime.step();
    runtime.build(sizeof(Value));
    items.push_back(Value::integer(at));
    if (__builtin_add_overflow(at, step, &at)) break;
  }
  return runtime.list(std::move(items));
}

Value make_namespace(Runtime& runtime, const Arguments& arguments) {
  Namespace* space = runtime.new_space();
  for (const Value& source : arguments.plain) {
    const Dict* dict = source.as_dict();
    if (dict == nullptr) runtime.fail("namespace() takes a dict or named values");
    for (const auto& [key, value] : dict->items) space->set(to_text(runtime, key).text(), value);
  }
  for (const auto& [name, value] : arguments.named) space->set(name, value);
  return Value::space(space);
}

Value make_dict(Runtime& runtime, const Arguments& arguments) {
  std::vector<std::pair<Value, Value>> items;
  for (const Value& source : arguments.plain) {
    if (const Dict* dict = source.as_dict()) {
      items.insert(items.end(), dict->items.begin(), dict->items.end());
      continue;
    }
    for (const Value& pair : runtime.iterate(source)) {
      const std::vector<Value> both = runtime.iterate(pair);
      if (both.size() != 2) runtime.fail("dict() takes a dict, pairs or named values");
      items.emplace_back(both[0], both[1]);
    }
  }
  for (const auto& [name, value] : arguments.named) items.emplace_back(Value::literal(name), value);
  return runtime.dict(items);
}

Value make_joiner(Runtime& runtime, const Arguments& arguments) {
  const Value separator = arguments.bind(runtime, {"sep"})[0];
  auto joiner = std::make_shared<Function>();
  joiner->kind = Function::Kind::kJoiner;
  joiner->name = "joiner";
  joiner->self = separator.is_undefined() ? Value::literal(", ") : separator;
  joiner->state = std::make_shared<size_t>(0);
  return Value::function(std::move(joiner));
}

Value make_cycler(Runtime& runtime, const Arguments& arguments) {
  if (arguments.plain.empty() || !arguments.named.empty()) runtime.fail("cycler needs values");
  auto cycler = std::make_shared<Function>();
  cycler->kind = Function::Kind::kCycler;
  cycler->name = "cycler";
  cycler->self = runtime.list(arguments.plain);
  cycler->state = std::make_shared<size_t>(0);
  return Value::function(std::move(cycler));
}

Value raise_exception(Runtime& runtime, const Arguments& arguments) {
  const MarkedString message = to_text(runtime, arguments.bind(runtime, {"message"})[0]);
  runtime.fail(fmt::format("the chat template refuses these messages: {}", message.text()));
}

Value strftime_now(Runtime& runtime, const Arguments& arguments) {
  const Value format = arguments.bind(runtime, {"format"})[0];
  if (format.as_string() == nullptr || format.as_string()->size() > 256) runtime.fail("strftime_now needs a format");
  const std::time_t now = runtime.now();
  std::tm local{};
  ::localtime_r(&now, &local);
  std::array<char, 4096> buffer{};
  const size_t size = std::strftime(buffer.data(), buffer.size(), format.as_string()->text().c_str(), &local);
  return runtime.string(MarkedString(std::string_view(buffer.data(), size), format.as_string()->origin()));
}

struct Builtin {
  std::string_view name;
  Value (*call)(Runtime&, const Arguments&);
};
constexpr std::array<Builtin, 7> kBuiltins{{{"range", range},
                                            {"namespace", make_namespace},
                                            {"dict", make_dict},
                                            {"cycler", make_cycler},
                                            {"joiner", make_joiner},
                                            {"raise_exception", raise_exception},
                                            {"strftime_now", strftime_now}}};

}  // namespace

std::vector<Value> Arguments::bind(Runtime& runtime, std::initializer_list<std::string_view> names) const {
  if (plain.size() > names.size())
    runtime.fail(fmt::format("at most {} arguments are taken, not {}", names.size(), plain.size()));
  std::vector<Value> bound = plain;
  bound.resize(names.size());
  for (const auto& [name, value] : named) {
    const auto* found = std::ranges::find(names, name);
    const auto place = static_cast<size_t>(found - names.begin());
    if (found == names.end() || place < plain.size())
      runtime.fail(fmt::format("there is no place for the argument '{}'", name));
    bound[place] = value;
  }
  return bound;
}

Value find_builtin(std::string_view name) {
  if (std::ranges::find(kBuiltins, name, &Builtin::name) == kBuiltins.end()) return {};
  auto function = std::make_shared<Function>();
  function->name = std::string(name);
  return Value::function(std::move(function));
}

Value call_builtin(Runtime& runtime, const Function& function, const Arguments& arguments) {
  const auto* found = std::ranges::find(kBuiltins, function.name, &Builtin::name);
  return found->call(runtime, arguments);
}

}  // namespace kvasir::jinja
