#include "text/jinja/evaluator.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "text/jinja/interpreter.h"
#include "text/jinja/operations.h"

namespace kvasir::jinja {
namespace {

// Twice the depth of any tree, and some calls of macros inside each other: a few hundred kB of stack.
constexpr int kMaxLevels = 400;

}  // namespace

Interpreter::Level::Level(Interpreter& interpreter) : interpreter_(interpreter) {
  if (++interpreter_.level_ > kMaxLevels) {
    --interpreter_.level_;
    interpreter_.runtime_.fail("the chat template calls itself too deeply");
  }
}

Interpreter::Inner::Inner(Interpreter& interpreter, std::shared_ptr<Scope> parent) : interpreter_(interpreter) {
  auto inner = std::make_shared<Scope>();
  inner->parent = std::move(parent);
  outer_ = std::exchange(interpreter_.scope_, std::move(inner));
}

Interpreter::Interpreter(const Template& source, Runtime& runtime)
    : source_(source), runtime_(runtime), root_(std::make_shared<Scope>()), scope_(root_) {}

MarkedString Interpreter::run(const Variables& variables) {
  for (const auto& [name, value] : variables) root_->variables.insert_or_assign(name, value);
  return captured(source_.body);
}

void Interpreter::emit(const MarkedString& text) {
  runtime_.build(text.size());
  runtime_.check_output(out_->size() + text.size());
  out_->append(text);
}

MarkedString Interpreter::captured(const Body& body) {
  struct Restore {
    MarkedString*& slot;
    MarkedString* saved;
    ~Restore() { slot = saved; }
  };
  MarkedString text;
  const Restore restore{out_, std::exchange(out_, &text)};
  run_body(body);
  return text;
}

Interpreter::Flow Interpreter::run_body(const Body& body) {
  const Level level(*this);
  for (const Stmt& statement : body) {
    runtime_.at_line(statement.line);
    runtime_.step();
    const Flow flow = run_statement(statement);
    if (flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Interpreter::Flow Interpreter::run_statement(const Stmt& statement) {
  switch (statement.kind) {
    case Stmt::Kind::kText:
      emit(*statement.literal.as_string());
      break;
    case Stmt::Kind::kOutput:
      emit(to_text(runtime_, eval(*statement.exprs[0])));
      break;
    case Stmt::Kind::kIf:
      return run_if(statement);
    case Stmt::Kind::kFor:
      return run_for(statement, eval(*statement.exprs[0]), 0);
    case Stmt::Kind::kSet:
      run_set(statement);
      break;
    case Stmt::Kind::kSetBlock:
      run_set_block(statement);
      break;
    case Stmt::Kind::kMacro:
      define_macro(statement);
      break;
    case Stmt::Kind::kCallBlock:
      run_call_block(statement);
      break;
    case Stmt::Kind::kFilterBlock: {
      Value text = runtime_.string(captured(statement.bodies[0]));
      emit(to_text(runtime_, apply_filters(*statement.exprs[0], std::move(text))));
      break;
    }
    case Stmt::Kind::kWith:
      run_with(statement);
      break;
    case Stmt::Kind::kGroup:
      return run_body(statement.bodies[0]);
    case Stmt::Kind::kBreak:
      return Flow::kBreak;
    case Stmt::Kind::kContinue:
      return Flow::kContinue;
  }
  return Flow::kNext;
}

Interpreter::Flow Interpreter::run_if(const Stmt& statement) {
  for (size_t i = 0; i < statement.exprs.size(); ++i) {
    if (truthy(eval(*statement.exprs[i]))) return run_body(statement.bodies[i]);
  }
  if (statement.bodies.size() == statement.exprs.size()) return Flow::kNext;
  return run_body(statement.bodies.back());
}

// What the loop goes through: all items, or those its filter lets pass.
ListPtr Interpreter::loop_items(const Stmt& statement, const Value& iterable) {
  auto list = std::make_shared<List>();
  std::vector<Value> all = runtime_.iterate(iterable);
  if (!statement.exprs[1]) {
    list->items = std::move(all);
    return list;
  }
  for (Value& item : all) {
    const Inner inner(*this, scope_);
    assign(statement.targets, item);
    if (truthy(eval(*statement.exprs[1]))) list->items.push_back(std::move(item));
  }
  return list;
}

Interpreter::Flow Interpreter::run_for(const Stmt& statement, const Value& iterable, int depth) {
  const ListPtr list = loop_items(statement, iterable);
  LoopState state{
      list, 0, depth, statement.recursive ? &statement : nullptr, scope_, std::make_shared<std::optional<Value>>()};
  for (size_t i = 0; i < list->items.size(); ++i) {
    runtime_.step();
    const Inner inner(*this, scope_);
    assign(statement.targets, list->items[i]);
    state.index = i;
    scope_->variables.insert_or_assign("loop", Value::loop(std::make_shared<LoopState>(state)));
    const Flow flow = run_body(statement.bodies[0]);
    if (flow == Flow::kBreak) break;
  }
  // As in Jinja, the else runs for a loop without items, also when all were filtered out.
  if (list->items.empty()) {
    const Inner inner(*this, scope_);
    return run_body(statement.bodies[1]);
  }
  return Flow::kNext;
}

// loop(items) in a loop that is `recursive`: its text over those items.
Value Interpreter::call_loop(const LoopState& loop, const Arguments& arguments) {
  if (loop.recursive == nullptr) runtime_.fail("only a loop that is recursive can be called");
  const Value items = arguments.bind(runtime_, {"iterable"})[0];
  const Level level(*this);
  std::shared_ptr<Scope> outside = loop.outside.lock();
  const Inner inner(*this, outside ? std::move(outside) : root_);
  struct Restore {
    MarkedString*& slot;
    MarkedString* saved;
    ~Restore() { slot = saved; }
  };
  MarkedString text;
  const Restore restore{out_, std::exchange(out_, &text)};
  run_for(*loop.recursive, items, loop.depth + 1);
  return runtime_.string(std::move(text));
}

void Interpreter::assign_one(const Target& target, const Value& value) {
  if (!target.inside.empty()) return assign(target.inside, value);
  if (target.attribute.empty()) {
    scope_->variables.insert_or_assign(target.name, value);
    return;
  }
  Namespace* space = lookup(target.name).as_space();
  if (space == nullptr)
    runtime_.fail(fmt::format("'{}' is not a namespace: its attributes cannot be set", target.name));
  runtime_.build(sizeof(Value));
  space->set(target.attribute, value);
}

void Interpreter::assign(const std::vector<Target>& targets, const Value& value) {
  if (targets.size() == 1) return assign_one(targets[0], value);
  const std::vector<Value> items = runtime_.iterate(value);
  if (items.size() != targets.size()) {
    runtime_.fail(fmt::format("{} values cannot be unpacked into {} names", items.size(), targets.size()));
  }
  for (size_t i = 0; i < items.size(); ++i) assign_one(targets[i], items[i]);
}

void Interpreter::run_set(const Stmt& statement) { assign(statement.targets, eval(*statement.exprs[0])); }

void Interpreter::run_set_block(const Stmt& statement) {
  Value text;
  {
    const Inner inner(*this, scope_);
    text = runtime_.string(captured(statement.bodies[0]));
  }
  if (!statement.exprs.empty()) text = apply_filters(*statement.exprs[0], std::move(text));
  assign(statement.targets, text);
}

void Interpreter::run_with(const Stmt& statement) {
  std::vector<Value> values = eval_all(statement.exprs, 0);
  const Inner inner(*this, scope_);
  for (size_t i = 0; i < values.size(); ++i) assign_one(statement.targets[i], values[i]);
  run_body(statement.bodies[0]);
}

void Interpreter::define_macro(const Stmt& statement) {
  auto macro = std::make_shared<Function>();
  macro->kind = Function::Kind::kMacro;
  macro->name = statement.name;
  macro->definition = &statement;
  macro->defined_in = scope_;
  scope_->variables.insert_or_assign(statement.name, Value::function(std::move(macro)));
}

void Interpreter::run_call_block(const Stmt& statement) {
  auto caller = std::make_shared<Function>();
  caller->kind = Function::Kind::kMacro;
  caller->name = "caller";
  caller->definition = &statement;
  caller->defined_in = scope_;
  const Value function = Value::function(std::move(caller));
  emit(to_text(runtime_, eval_call(*statement.exprs[0], &function)));
}

// What a macro was given beyond its parameters, where it uses it.
void Interpreter::bind_extras(const Stmt& macro, const Arguments& arguments) {
  const size_t count = macro.parameters.size();
  const auto has_place = [&](const std::string& name) {
    return std::ranges::any_of(macro.parameters, [&](const Parameter& one) { return one.name == name; });
  };
  if (macro.extras.varargs) {
    std::vector<Value> rest;
    if (arguments.plain.size() > count)
      rest.assign(arguments.plain.begin() + static_cast<std::ptrdiff_t>(count), arguments.plain.end());
    scope_->variables.insert_or_assign("varargs", runtime_.list(std::move(rest), List::Kind::kTuple));
  } else if (arguments.plain.size() > count) {
    runtime_.fail(fmt::format("too many arguments for '{}'", macro.name));
  }
  std::vector<std::pair<Value, Value>> named;
  for (const auto& [name, value] : arguments.named) {
    if (name == "caller" && macro.extras.caller && !has_place(name)) {
      scope_->variables.insert_or_assign(name, value);
    } else if (!has_place(name)) {
      if (!macro.extras.kwargs)
        runtime_.fail(fmt::format("'{}' has no place for the argument '{}'", macro.name, name));
      named.emplace_back(Value::literal(name), value);
    }
  }
  if (macro.extras.kwargs) scope_->variables.insert_or_assign("kwargs", runtime_.dict(named));
}

// Arguments in the order of the parameters; defaults see the parameters before them.
void Interpreter::bind_parameters(const Stmt& macro, const Arguments& arguments) {
  const std::vector<Parameter>& parameters = macro.parameters;
  bind_extras(macro, arguments);
  std::vector<Value> bound = arguments.plain;
  bound.resize(parameters.size());
  std::vector<bool> is_given(parameters.size());
  for (size_t i = 0; i < std::min(arguments.plain.size(), parameters.size()); ++i) is_given[i] = true;
  for (const auto& [name, value] : arguments.named) {
    size_t place = 0;
    while (place < parameters.size() && parameters[place].name != name) ++place;
    if (place == parameters.size()) continue;
    if (is_given[place]) runtime_.fail(fmt::format("'{}' is given '{}' twice", macro.name, name));
    bound[place] = value;
    is_given[place] = true;
  }
  for (size_t i = 0; i < bound.size(); ++i) {
    if (!is_given[i] && parameters[i].standard) bound[i] = eval(*parameters[i].standard);
    scope_->variables.insert_or_assign(parameters[i].name, bound[i]);
  }
}

Value Interpreter::call_macro(const Function& macro, const Arguments& arguments) {
  const Level level(*this);
  // The scope of a macro that outlived the loop it was defined in is gone; the template's own is always
  // there.
  std::shared_ptr<Scope> parent = macro.defined_in.lock();
  const Inner inner(*this, parent ? std::move(parent) : root_);
  bind_parameters(*macro.definition, arguments);
  return runtime_.string(captured(macro.definition->bodies[0]));
}

MarkedString evaluate(const Template& source, Runtime& runtime, const Variables& variables) {
  return Interpreter(source, runtime).run(variables);
}

}  // namespace kvasir::jinja
