// Inside of evaluator.cpp and expressions.cpp: the state of one render.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "text/jinja/ast.h"
#include "text/jinja/evaluator.h"
#include "text/jinja/function.h"
#include "text/jinja/runtime.h"

namespace kvasir::jinja {

// Variables of the template, of one turn of a loop, or of one call of a macro.
struct Scope {
  std::map<std::string, Value, std::less<>> variables;
  std::shared_ptr<Scope> parent;
};

class Interpreter {
 public:
  Interpreter(const Template& source, Runtime& runtime);

  MarkedString run(const Variables& variables);

 private:
  enum class Flow { kNext, kBreak, kContinue };

  // One level of recursion, of which there may be only so many: macros can call themselves.
  class Level {
   public:
    explicit Level(Interpreter& interpreter);
    ~Level() { --interpreter_.level_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    Interpreter& interpreter_;
  };

  // A scope inside the current one, for as long as this lives.
  class Inner {
   public:
    Inner(Interpreter& interpreter, std::shared_ptr<Scope> parent);
    ~Inner() { interpreter_.scope_ = std::move(outer_); }
    Inner(const Inner&) = delete;
    Inner& operator=(const Inner&) = delete;

   private:
    Interpreter& interpreter_;
    std::shared_ptr<Scope> outer_;
  };

  // Statements: evaluator.cpp.
  Flow run_body(const Body& body);
  Flow run_statement(const Stmt& statement);
  Flow run_if(const Stmt& statement);
  Flow run_for(const Stmt& statement, const Value& iterable, int depth);
  Value call_loop(const LoopState& loop, const Arguments& arguments);
  ListPtr loop_items(const Stmt& statement, const Value& iterable);
  void run_set(const Stmt& statement);
  void run_set_block(const Stmt& statement);
  void run_with(const Stmt& statement);
  void run_call_block(const Stmt& statement);
  void define_macro(const Stmt& statement);
  void assign(const std::vector<Target>& targets, const Value& value);
  void assign_one(const Target& target, const Value& value);
  void emit(const MarkedString& text);
  MarkedString captured(const Body& body);  // what it would have put out
  Value call_macro(const Function& macro, const Arguments& arguments);
  void bind_parameters(const Stmt& macro, const Arguments& arguments);
  void bind_extras(const Stmt& macro, const Arguments& arguments);

  // Expressions: expressions.cpp.
  Value eval(const Expr& expr);
  Value eval_compound(const Expr& expr);
  Value lookup(const std::string& name);
  Value eval_dict(const Expr& expr);
  std::vector<Value> eval_all(const std::vector<ExprPtr>& exprs, size_t from);
  Value eval_compare(const Expr& expr);
  Value eval_object_access(const Expr& expr);
  Value eval_slice(const Expr& expr, const Value& object);
  Value eval_call(const Expr& expr, const Value* caller);
  Value call(const Value& callee, const Arguments& arguments, const Expr& expr);
  Arguments eval_arguments(const Expr& expr);
  Value apply_filters(const Expr& chain, Value input);

  const Template& source_;
  Runtime& runtime_;
  std::shared_ptr<Scope> root_;
  std::shared_ptr<Scope> scope_;
  MarkedString* out_ = nullptr;  // where text goes: the result, or what a block is captured into
  int level_ = 0;
};

}  // namespace kvasir::jinja
