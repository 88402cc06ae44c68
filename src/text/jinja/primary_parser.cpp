// The second half of ExpressionParser: what operators join.
#include <fmt/format.h>

#include "text/jinja/expression_parser.h"

namespace kvasir::jinja {

ExprPtr ExpressionParser::primary_chain() { return postfix(primary()); }

ExprPtr ExpressionParser::primary() {
  const Token& token = current();
  switch (token.kind) {
    case Token::Kind::kInteger:
      return constant(Value::integer(take().integer));
    case Token::Kind::kReal:
      return constant(Value::real(take().real));
    case Token::Kind::kString: {
      std::string text = take().text;
      while (current().kind == Token::Kind::kString) text += take().text;
      return constant(Value::literal(text));
    }
    case Token::Kind::kName: {
      auto expr = node(Expr::Kind::kName);
      expr->name = take().text;
      extras_.varargs |= expr->name == "varargs";
      extras_.kwargs |= expr->name == "kwargs";
      extras_.caller |= expr->name == "caller";
      if (expr->name == "true" || expr->name == "True") return constant(Value::boolean(true));
      if (expr->name == "false" || expr->name == "False") return constant(Value::boolean(false));
      if (expr->name == "none" || expr->name == "None") return constant(Value::none());
      return expr;
    }
    case Token::Kind::kOperator:
      if (token.text == "(") return parenthesized();
      if (token.text == "[") return list_literal();
      if (token.text == "{") return dict_literal();
      break;
    default:
      break;
  }
  fail(token.text.empty() ? "an expression is expected" : fmt::format("'{}' is not expected here", token.text));
}

ExprPtr ExpressionParser::parenthesized() {
  expect_operator("(");
  if (accept_operator(")")) return node(Expr::Kind::kTuple);
  ExprPtr inside = tuple();
  expect_operator(")");
  return inside;
}

ExprPtr ExpressionParser::list_literal() {
  auto expr = node(Expr::Kind::kList);
  expect_operator("[");
  while (!current().is_operator("]")) {
    expr->kids.push_back(expression());
    if (!accept_operator(",")) break;
  }
  expect_operator("]");
  return done(std::move(expr));
}

ExprPtr ExpressionParser::dict_literal() {
  auto expr = node(Expr::Kind::kDict);
  expect_operator("{");
  while (!current().is_operator("}")) {
    expr->kids.push_back(expression());
    expect_operator(":");
    expr->kids.push_back(expression());
    if (!accept_operator(",")) break;
  }
  expect_operator("}");
  return done(std::move(expr));
}

ExprPtr ExpressionParser::postfix(ExprPtr object) {
  while (true) {
    if (current().is_operator(".")) {
      object = attribute(std::move(object));
    } else if (current().is_operator("[")) {
      object = subscript(std::move(object));
    } else if (current().is_operator("(")) {
      object = call(std::move(object));
    } else {
      return object;
    }
  }
}

ExprPtr ExpressionParser::attribute(ExprPtr object) {
  expect_operator(".");
  if (current().kind == Token::Kind::kInteger) {
    ExprPtr key = constant(Value::integer(take().integer));
    return pair(Expr::Kind::kItem, std::move(object), std::move(key));
  }
  auto expr = node(Expr::Kind::kAttribute);
  expr->name = expect_identifier();
  expr->kids.push_back(std::move(object));
  return done(std::move(expr));
}

ExprPtr ExpressionParser::subscript(ExprPtr object) {
  auto slice = node(Expr::Kind::kSlice);
  expect_operator("[");
  const auto at_part_end = [&] { return current().is_operator(":") || current().is_operator("]"); };
  ExprPtr start = at_part_end() ? nullptr : expression();
  if (start && accept_operator("]")) return pair(Expr::Kind::kItem, std::move(object), std::move(start));
  expect_operator(":");
  ExprPtr stop = at_part_end() ? nullptr : expression();
  ExprPtr step;
  if (accept_operator(":") && !at_part_end()) step = expression();
  expect_operator("]");
  slice->kids.push_back(std::move(object));
  slice->kids.push_back(std::move(start));
  slice->kids.push_back(std::move(stop));
  slice->kids.push_back(std::move(step));
  return done(std::move(slice));
}

void ExpressionParser::arguments(Expr& call) {
  expect_operator("(");
  while (!current().is_operator(")")) {
    if (call.named_rest || (call.rest && current().is_operator("*"))) fail("an argument follows what comes last");
    if (accept_operator("*")) {
      call.rest = expression();
    } else if (accept_operator("**")) {
      call.named_rest = expression();
    } else if (current().kind == Token::Kind::kName && after_current().is_operator("=")) {
      std::string name = take().text;
      take();
      call.named.emplace_back(std::move(name), expression());
    } else if (call.named.empty() && !call.rest) {
      call.kids.push_back(expression());
    } else {
      fail("an argument without a name follows one with a name");
    }
    if (!accept_operator(",")) break;
  }
  expect_operator(")");
}

ExprPtr ExpressionParser::call(ExprPtr callee) {
  auto expr = node(Expr::Kind::kCall);
  expr->kids.push_back(std::move(callee));
  arguments(*expr);
  return done(std::move(expr));
}

ExprPtr ExpressionParser::filters_and_tests(ExprPtr input) {
  while (true) {
    if (accept_operator("|")) {
      input = one_filter(std::move(input));
    } else if (accept_name("is")) {
      input = test(std::move(input));
    } else if (current().is_operator("(")) {
      input = call(std::move(input));
    } else {
      return input;
    }
  }
}

ExprPtr ExpressionParser::one_filter(ExprPtr input) {
  auto expr = node(Expr::Kind::kFilter);
  expr->name = expect_identifier();
  expr->kids.push_back(std::move(input));
  if (current().is_operator("(")) arguments(*expr);
  return done(std::move(expr));
}

ExprPtr ExpressionParser::filters(ExprPtr input) {
  do {
    input = one_filter(std::move(input));
  } while (accept_operator("|"));
  return input;
}

ExprPtr ExpressionParser::test(ExprPtr input) {
  const bool negated = accept_name("not");
  auto expr = node(Expr::Kind::kTest);
  expr->name = expect_identifier();
  expr->kids.push_back(std::move(input));
  const Token& next = current();
  const bool literal = next.kind == Token::Kind::kString || next.kind == Token::Kind::kInteger ||
                       next.kind == Token::Kind::kReal || next.is_operator("[") || next.is_operator("{");
  const bool word =
      next.kind == Token::Kind::kName && !next.is_name("else") && !next.is_name("or") && !next.is_name("and");
  if (next.is_operator("(")) {
    arguments(*expr);
  } else if (word && next.is_name("is")) {
    fail("'is' cannot follow a test");
  } else if (literal || (word && !next.is_name("if"))) {
    expr->kids.push_back(primary_chain());
  }
  ExprPtr made = done(std::move(expr));
  if (!negated) return made;
  auto inverse = node(Expr::Kind::kUnary);
  inverse->name = "not";
  inverse->kids.push_back(std::move(made));
  return done(std::move(inverse));
}

}  // namespace kvasir::jinja
