// The expressions of a template, by recursive descent in Jinja's order of precedence.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/ast.h"
#include "text/jinja/lexer.h"

namespace kvasir::jinja {

class ExpressionParser {
 public:
  ExpressionParser(std::vector<Token> tokens, const std::string& where) : tokens_(std::move(tokens)), where_(where) {}

  [[noreturn]] void fail(std::string problem) const;

  const Token& current() const { return tokens_[at_]; }
  const Token& after_current() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  Token take();
  bool accept_operator(std::string_view op);
  bool accept_name(std::string_view name);
  void expect_operator(std::string_view op);
  void expect_name(std::string_view name);
  std::string expect_identifier();

  ExprPtr expression();            // "a if b else c" included
  ExprPtr condition();             // without that: what a for loop iterates
  ExprPtr tuple();                 // one expression, or several with commas: a tuple
  ExprPtr loop_items();            // the same of what a for loop iterates: no "if" of their own
  ExprPtr primary_chain();         // a name with its attributes and calls
  ExprPtr filters(ExprPtr input);  // "name(…)|name…", the first without its |; input null: that of a filter block

  // Which of a macro's hidden names were read since the last call; and what was noted before it is noted again.
  Stmt::Extras exchange_extras(Stmt::Extras extras) { return std::exchange(extras_, extras); }

  // Guards recursion, also that of nested statements: one level as long as it lives.
  class Level {
   public:
    explicit Level(ExpressionParser& parser);
    ~Level() { --parser_.level_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    ExpressionParser& parser_;
  };

 private:
  std::unique_ptr<Expr> node(Expr::Kind kind) const;
  ExprPtr done(std::unique_ptr<Expr> expr) const;  // checks its depth
  ExprPtr binary(std::string op, ExprPtr left, ExprPtr right) const;
  ExprPtr pair(Expr::Kind kind, ExprPtr left, ExprPtr right) const;

  ExprPtr either();
  ExprPtr both();
  ExprPtr negation();
  ExprPtr comparison();
  ExprPtr sum();
  ExprPtr concat();
  ExprPtr product();
  ExprPtr power();
  enum class Filters { kYes, kNo };
  ExprPtr unary(Filters filters);
  ExprPtr primary();
  ExprPtr constant(Value value) const;
  ExprPtr parenthesized();
  ExprPtr list_literal();
  ExprPtr dict_literal();
  ExprPtr postfix(ExprPtr object);
  ExprPtr subscript(ExprPtr object);
  ExprPtr attribute(ExprPtr object);
  ExprPtr call(ExprPtr callee);
  ExprPtr filters_and_tests(ExprPtr input);
  ExprPtr one_filter(ExprPtr input);
  ExprPtr test(ExprPtr input);
  void arguments(Expr& call);
  bool at_tuple_end() const;

  std::vector<Token> tokens_;  // the last is kEnd
  const std::string& where_;
  size_t at_ = 0;
  int level_ = 0;
  Stmt::Extras extras_;
};

}  // namespace kvasir::jinja
