#include "text/jinja/expression_parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/error.h"

namespace kvasir::jinja {

ExpressionParser::Level::Level(ExpressionParser& parser) : parser_(parser) {
  if (++parser_.level_ > kMaxTreeDepth) {
    --parser_.level_;
    parser_.fail("the chat template nests too deeply");
  }
}

void ExpressionParser::fail(std::string problem) const {
  fail_input(std::move(problem), fmt::format("{} line {}", where_, current().line), "correct the chat template");
}

Token ExpressionParser::take() {
  Token token = current();
  if (at_ + 1 < tokens_.size()) ++at_;
  return token;
}

bool ExpressionParser::accept_operator(std::string_view op) {
  if (!current().is_operator(op)) return false;
  take();
  return true;
}

bool ExpressionParser::accept_name(std::string_view name) {
  if (!current().is_name(name)) return false;
  take();
  return true;
}

void ExpressionParser::expect_operator(std::string_view op) {
  if (!accept_operator(op)) fail(fmt::format("'{}' is expected before '{}'", op, current().text));
}

void ExpressionParser::expect_name(std::string_view name) {
  if (!accept_name(name)) fail(fmt::format("'{}' is expected before '{}'", name, current().text));
}

std::string ExpressionParser::expect_identifier() {
  if (current().kind != Token::Kind::kName) fail(fmt::format("a name is expected before '{}'", current().text));
  return take().text;
}

std::unique_ptr<Expr> ExpressionParser::node(Expr::Kind kind) const {
  auto expr = std::make_unique<Expr>();
  expr->kind = kind;
  expr->line = current().line;
  return expr;
}

ExprPtr ExpressionParser::done(std::unique_ptr<Expr> expr) const {
  for (const ExprPtr& kid : expr->kids) {
    if (kid) expr->depth = std::max(expr->depth, kid->depth + 1);
  }
  for (const auto& [name, kid] : expr->named) expr->depth = std::max(expr->depth, kid->depth + 1);
  for (const ExprPtr* kid : {&expr->rest, &expr->named_rest}) {
    if (*kid) expr->depth = std::max(expr->depth, (*kid)->depth + 1);
  }
  // Long chains of operators nest as deeply as brackets do.
  if (expr->depth > kMaxTreeDepth) fail("an expression nests too deeply");
  return expr;
}

ExprPtr ExpressionParser::pair(Expr::Kind kind, ExprPtr left, ExprPtr right) const {
  auto expr = node(kind);
  expr->line = left->line;
  expr->kids.push_back(std::move(left));
  expr->kids.push_back(std::move(right));
  return done(std::move(expr));
}

ExprPtr ExpressionParser::binary(std::string op, ExprPtr left, ExprPtr right) const {
  auto expr = node(Expr::Kind::kBinary);
  expr->line = left->line;
  expr->name = std::move(op);
  expr->kids.push_back(std::move(left));
  expr->kids.push_back(std::move(right));
  return done(std::move(expr));
}

ExprPtr ExpressionParser::constant(Value value) const {
  auto expr = node(Expr::Kind::kLiteral);
  expr->literal = std::move(value);
  return expr;
}

ExprPtr ExpressionParser::expression() {
  const Level level(*this);
  ExprPtr then = condition();
  while (accept_name("if")) {
    auto expr = node(Expr::Kind::kCondition);
    expr->kids.push_back(condition());
    expr->kids.push_back(std::move(then));
    expr->kids.push_back(accept_name("else") ? expression() : nullptr);
    then = done(std::move(expr));
  }
  return then;
}

ExprPtr ExpressionParser::condition() {
  const Level level(*this);
  return either();
}

bool ExpressionParser::at_tuple_end() const {
  return current().kind == Token::Kind::kVariableEnd || current().kind == Token::Kind::kBlockEnd ||
         current().is_operator(")") || current().kind == Token::Kind::kEnd;
}

ExprPtr ExpressionParser::tuple() {
  if (at_tuple_end()) fail("an expression is expected");
  ExprPtr first = expression();
  if (!current().is_operator(",")) return first;
  auto expr = node(Expr::Kind::kTuple);
  expr->kids.push_back(std::move(first));
  while (accept_operator(",")) {
    if (at_tuple_end()) break;
    expr->kids.push_back(expression());
  }
  return done(std::move(expr));
}

ExprPtr ExpressionParser::loop_items() {
  ExprPtr first = condition();
  if (!current().is_operator(",")) return first;
  auto expr = node(Expr::Kind::kTuple);
  expr->kids.push_back(std::move(first));
  while (accept_operator(",")) {
    if (at_tuple_end() || current().is_name("if") || current().is_name("recursive")) break;
    expr->kids.push_back(condition());
  }
  return done(std::move(expr));
}

ExprPtr ExpressionParser::either() {
  ExprPtr left = both();
  while (accept_name("or")) {
    ExprPtr right = both();
    left = pair(Expr::Kind::kOr, std::move(left), std::move(right));
  }
  return left;
}

ExprPtr ExpressionParser::both() {
  ExprPtr left = negation();
  while (accept_name("and")) {
    ExprPtr right = negation();
    left = pair(Expr::Kind::kAnd, std::move(left), std::move(right));
  }
  return left;
}

ExprPtr ExpressionParser::negation() {
  if (!accept_name("not")) return comparison();
  const Level level(*this);
  auto expr = node(Expr::Kind::kUnary);
  expr->name = "not";
  expr->kids.push_back(negation());
  return done(std::move(expr));
}

ExprPtr ExpressionParser::comparison() {
  static constexpr std::array<std::string_view, 6> kOperators{"==", "!=", "<", "<=", ">", ">="};
  ExprPtr first = sum();
  std::unique_ptr<Expr> expr;
  while (true) {
    std::string op;
    if (current().kind == Token::Kind::kOperator &&
        std::ranges::find(kOperators, current().text) != kOperators.end()) {
      op = take().text;
    } else if (accept_name("in")) {
      op = "in";
    } else if (current().is_name("not") && after_current().is_name("in")) {
      take();
      take();
      op = "not in";
    } else {
      break;
    }
    if (!expr) {
      expr = node(Expr::Kind::kCompare);
      expr->kids.push_back(std::move(first));
    }
    expr->operators.push_back(std::move(op));
    expr->kids.push_back(sum());
  }
  return expr ? done(std::move(expr)) : std::move(first);
}

ExprPtr ExpressionParser::sum() {
  ExprPtr left = concat();
  while (current().is_operator("+") || current().is_operator("-")) {
    std::string op = take().text;
    ExprPtr right = concat();
    left = binary(std::move(op), std::move(left), std::move(right));
  }
  return left;
}

ExprPtr ExpressionParser::concat() {
  ExprPtr first = product();
  if (!current().is_operator("~")) return first;
  auto expr = node(Expr::Kind::kConcat);
  expr->kids.push_back(std::move(first));
  while (accept_operator("~")) expr->kids.push_back(product());
  return done(std::move(expr));
}

ExprPtr ExpressionParser::product() {
  ExprPtr left = power();
  while (current().is_operator("*") || current().is_operator("/") || current().is_operator("//") ||
         current().is_operator("%")) {
    std::string op = take().text;
    ExprPtr right = power();
    left = binary(std::move(op), std::move(left), std::move(right));
  }
  return left;
}

ExprPtr ExpressionParser::power() {
  ExprPtr left = unary(Filters::kYes);
  while (accept_operator("**")) {
    ExprPtr right = unary(Filters::kYes);
    left = binary("**", std::move(left), std::move(right));
  }
  return left;
}

ExprPtr ExpressionParser::unary(Filters filters) {
  const Level level(*this);
  ExprPtr expr;
  if (current().is_operator("-") || current().is_operator("+")) {
    auto made = node(Expr::Kind::kUnary);
    made->name = take().text;
    made->kids.push_back(unary(Filters::kNo));
    expr = done(std::move(made));
  } else {
    expr = primary();
  }
  expr = postfix(std::move(expr));
  return filters == Filters::kYes ? filters_and_tests(std::move(expr)) : std::move(expr);
}

}  // namespace kvasir::jinja
