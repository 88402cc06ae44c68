// The expressions of a template: the second half of Interpreter.
#include <fmt/format.h>

#include <algorithm>

#include "text/jinja/interpreter.h"
#include "text/jinja/operations.h"

namespace kvasir::jinja {
namespace {

// How an expression reads in an error.
std::string described(const Expr& expr) {
  if (expr.kind == Expr::Kind::kName || expr.kind == Expr::Kind::kAttribute) return fmt::format("'{}'", expr.name);
  if (expr.kind == Expr::Kind::kItem && expr.kids[1]->literal.as_string() != nullptr) {
    return fmt::format("'{}'", expr.kids[1]->literal.as_string()->text());
  }
  return "a value";
}

}  // namespace

Value Interpreter::lookup(const std::string& name) {
  for (const Scope* scope = scope_.get(); scope != nullptr; scope = scope->parent.get()) {
    const auto found = scope->variables.find(name);
    if (found != scope->variables.end()) return found->second;
  }
  return find_builtin(name);
}

Value Interpreter::eval(const Expr& expr) {
  const Level level(*this);
  runtime_.step();
  switch (expr.kind) {
    case Expr::Kind::kLiteral:
      return expr.literal;
    case Expr::Kind::kName:
      return lookup(expr.name);
    case Expr::Kind::kAnd:
    case Expr::Kind::kOr: {
      Value left = eval(*expr.kids[0]);
      return truthy(left) == (expr.kind == Expr::Kind::kAnd) ? eval(*expr.kids[1]) : left;
    }
    case Expr::Kind::kCondition:
      if (truthy(eval(*expr.kids[0]))) return eval(*expr.kids[1]);
      return expr.kids[2] ? eval(*expr.kids[2]) : Value();
    case Expr::Kind::kCompare:
      return eval_compare(expr);
    case Expr::Kind::kAttribute:
    case Expr::Kind::kItem:
    case Expr::Kind::kSlice:
      return eval_object_access(expr);
    default:
      return eval_compound(expr);
  }
}

Value Interpreter::eval_compound(const Expr& expr) {
  switch (expr.kind) {
    case Expr::Kind::kList:
      return runtime_.list(eval_all(expr.kids, 0));
    case Expr::Kind::kTuple:
      return runtime_.list(eval_all(expr.kids, 0), List::Kind::kTuple);
    case Expr::Kind::kDict:
      return eval_dict(expr);
    case Expr::Kind::kUnary:
      return unary_operation(runtime_, expr.name, eval(*expr.kids[0]));
    case Expr::Kind::kBinary: {
      const Value left = eval(*expr.kids[0]);
      const Value right = eval(*expr.kids[1]);
      if (left.is_undefined()) runtime_.fail(described(*expr.kids[0]) + " is undefined");
      if (right.is_undefined()) runtime_.fail(described(*expr.kids[1]) + " is undefined");
      return binary_operation(runtime_, expr.name, left, right);
    }
    case Expr::Kind::kConcat: {
      MarkedString text;
      for (const ExprPtr& kid : expr.kids) {
        const MarkedString part = to_text(runtime_, eval(*kid));
        runtime_.build(part.size());
        text.append(part);
      }
      return runtime_.string(std::move(text));
    }
    case Expr::Kind::kFilter:
      return apply_filters(expr, Value());
    case Expr::Kind::kTest:
      return Value::boolean(apply_test(runtime_, expr.name, eval(*expr.kids[0]), eval_arguments(expr)));
    case Expr::Kind::kCall:
      return eval_call(expr, nullptr);
    default:
      return {};
  }
}

std::vector<Value> Interpreter::eval_all(const std::vector<ExprPtr>& exprs, size_t from) {
  std::vector<Value> values;
  for (size_t i = from; i < exprs.size(); ++i) values.push_back(eval(*exprs[i]));
  return values;
}

Value Interpreter::eval_dict(const Expr& expr) {
  std::vector<std::pair<Value, Value>> items;
  for (size_t i = 0; i + 1 < expr.kids.size(); i += 2) {
    Value key = eval(*expr.kids[i]);
    items.emplace_back(std::move(key), eval(*expr.kids[i + 1]));
  }
  return runtime_.dict(items);
}

// a < b <= c: every neighbouring pair, up to the first that does not hold.
Value Interpreter::eval_compare(const Expr& expr) {
  Value left = eval(*expr.kids[0]);
  for (size_t i = 0; i < expr.operators.size(); ++i) {
    const std::string& op = expr.operators[i];
    Value right = eval(*expr.kids[i + 1]);
    bool holds = false;
    if (op == "==" || op == "!=") {
      holds = runtime_.equal(left, right) == (op == "==");
    } else if (op == "in" || op == "not in") {
      holds = runtime_.contains(right, left) == (op == "in");
    } else {
      const int order = runtime_.compare(left, right);
      holds = op == "<" ? order < 0 : op == "<=" ? order <= 0 : op == ">" ? order > 0 : order >= 0;
    }
    if (!holds) return Value::boolean(false);
    left = std::move(right);
  }
  return Value::boolean(true);
}

Value Interpreter::eval_object_access(const Expr& expr) {
  const Value object = eval(*expr.kids[0]);
  if (object.is_undefined()) {
    runtime_.at_line(expr.line);
    runtime_.fail(fmt::format("{} is undefined", described(*expr.kids[0])));
  }
  if (expr.kind == Expr::Kind::kAttribute) return get_attribute(runtime_, object, expr.name);
  if (expr.kind == Expr::Kind::kItem) return get_item(runtime_, object, eval(*expr.kids[1]));
  return eval_slice(expr, object);
}

Value Interpreter::eval_slice(const Expr& expr, const Value& object) {
  const auto part = [&](size_t kid) -> std::optional<std::int64_t> {
    if (!expr.kids[kid]) return std::nullopt;
    const Value value = eval(*expr.kids[kid]);
    if (value.is_none()) return std::nullopt;
    if (!value.as_integer()) runtime_.fail(fmt::format("a slice needs whole numbers, not a {}", value.type_name()));
    return value.as_integer();
  };
  Slice slice;
  slice.start = part(1);
  slice.stop = part(2);
  slice.step = part(3);
  return get_slice(runtime_, object, slice);
}

Arguments Interpreter::eval_arguments(const Expr& expr) {
  Arguments arguments;
  arguments.plain = eval_all(expr.kids, 1);
  for (const auto& [name, value] : expr.named) arguments.named.emplace_back(name, eval(*value));
  if (expr.rest) {
    for (Value& value : runtime_.iterate(eval(*expr.rest))) arguments.plain.push_back(std::move(value));
  }
  if (!expr.named_rest) return arguments;
  const Value rest = eval(*expr.named_rest);
  const Dict* dict = rest.as_dict();
  if (dict == nullptr) runtime_.fail(fmt::format("** needs a dict, not a {}", rest.type_name()));
  for (const auto& [key, value] : dict->items) {
    if (key.as_string() == nullptr) runtime_.fail("** needs a dict of strings");
    const std::string& name = key.as_string()->text();
    const auto same = [&](const auto& one) { return one.first == name; };
    if (std::ranges::any_of(arguments.named, same)) runtime_.fail(fmt::format("'{}' is given twice", name));
    arguments.named.emplace_back(name, value);
  }
  return arguments;
}

Value Interpreter::eval_call(const Expr& expr, const Value* caller) {
  const Value callee = eval(*expr.kids[0]);
  Arguments arguments = eval_arguments(expr);
  if (caller != nullptr) arguments.named.emplace_back("caller", *caller);
  return call(callee, arguments, expr);
}

Value Interpreter::call(const Value& callee, const Arguments& arguments, const Expr& expr) {
  runtime_.at_line(expr.line);
  if (const LoopState* loop = callee.as_loop()) return call_loop(*loop, arguments);
  const Function* function = callee.as_function();
  if (function == nullptr) {
    const std::string name = described(*expr.kids[0]);
    runtime_.fail(callee.is_undefined() ? fmt::format("{} is undefined, or a function that is not supported", name)
                                        : fmt::format("{} is a {} and cannot be called", name, callee.type_name()));
  }
  if (function->kind == Function::Kind::kBuiltin) return call_builtin(runtime_, *function, arguments);
  if (function->kind == Function::Kind::kMethod) return call_method(runtime_, *function, arguments);
  if (function->kind == Function::Kind::kCycler) runtime_.fail("a cycler is not called: it has next()");
  if (function->kind == Function::Kind::kJoiner) {
    arguments.bind(runtime_, {});
    return (*function->state)++ == 0 ? Value::literal("") : function->self;
  }
  return call_macro(*function, arguments);
}

// A chain a|b|c is a tree with a innermost. The innermost input may be missing: that of a filter block,
// `input`.
Value Interpreter::apply_filters(const Expr& chain, Value input) {
  if (chain.kids[0]) {
    const Expr& inner = *chain.kids[0];
    input = inner.kind == Expr::Kind::kFilter ? apply_filters(inner, std::move(input)) : eval(inner);
  }
  const Arguments arguments = eval_arguments(chain);
  runtime_.at_line(chain.line);
  return apply_filter(runtime_, chain.name, input, arguments);
}

}  // namespace kvasir::jinja
