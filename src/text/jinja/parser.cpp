#include "text/jinja/parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "text/jinja/expression_parser.h"
#include "text/jinja/lexer.h"

namespace kvasir::jinja {
namespace {

class Parser {
 public:
  Parser(std::string_view source, const std::string& where) : in_(tokenize(source, where), where) {}

  Body run() {
    Body body = statements({});
    if (in_.current().kind != Token::Kind::kEnd) in_.fail(fmt::format("'{}' ends nothing", in_.current().text));
    return body;
  }

 private:
  using Names = std::initializer_list<std::string_view>;

  // Up to a block that begins with one of `ends`; its name is then the current token. The whole text when
  // there are none.
  Body statements(Names ends) {
    const ExpressionParser::Level level(in_);
    Body body;
    while (in_.current().kind != Token::Kind::kEnd) {
      const Token token = in_.take();
      if (token.kind == Token::Kind::kText) {
        Stmt text = statement(Stmt::Kind::kText);
        text.literal = Value::literal(token.text);
        body.push_back(std::move(text));
      } else if (token.kind == Token::Kind::kVariableBegin) {
        Stmt output = statement(Stmt::Kind::kOutput);
        output.exprs.push_back(in_.tuple());
        if (in_.current().kind != Token::Kind::kVariableEnd)
          in_.fail(fmt::format("'{}' is not expected here", in_.current().text));
        in_.take();
        body.push_back(std::move(output));
      } else {
        for (const std::string_view end : ends) {
          if (in_.current().is_name(end)) return body;
        }
        block(body);
      }
    }
    if (ends.size() > 0) in_.fail(fmt::format("'{}' is missing", *(ends.end() - 1)));
    return body;
  }

  Stmt statement(Stmt::Kind kind) const {
    Stmt made;
    made.kind = kind;
    made.line = in_.current().line;
    return made;
  }

  void block_end() {
    if (in_.current().kind != Token::Kind::kBlockEnd)
      in_.fail(fmt::format("'{}' is not expected here", in_.current().text));
    in_.take();
  }

  // The body of a block up to {% end %}, which is taken.
  Body body_until(std::string_view end) {
    Body body = statements({end});
    in_.take();
    block_end();
    return body;
  }

  void block(Body& out) {
    const std::string name = in_.expect_identifier();
    if (name == "if") {
      out.push_back(if_block());
    } else if (name == "for") {
      out.push_back(for_block());
    } else if (name == "set") {
      out.push_back(set_block());
    } else if (name == "macro") {
      out.push_back(macro_block());
    } else if (name == "call") {
      out.push_back(call_block());
    } else if (name == "filter") {
      out.push_back(filter_block());
    } else if (name == "with") {
      out.push_back(with_block());
    } else if (name == "generation") {
      // Marks what the assistant wrote, for training; its text is as any other.
      Stmt group = statement(Stmt::Kind::kGroup);
      block_end();
      group.bodies.push_back(body_until("endgeneration"));
      out.push_back(std::move(group));
    } else if (name == "break" || name == "continue") {
      if (loops_ == 0) in_.fail(fmt::format("'{}' is outside of a loop", name));
      out.push_back(statement(name == "break" ? Stmt::Kind::kBreak : Stmt::Kind::kContinue));
      block_end();
    } else {
      in_.fail(fmt::format("the tag '{}' is not supported", name));
    }
  }

  Stmt if_block() {
    Stmt made = statement(Stmt::Kind::kIf);
    made.exprs.push_back(in_.tuple());
    block_end();
    while (true) {
      made.bodies.push_back(statements({"elif", "else", "endif"}));
      const std::string next = in_.take().text;
      if (next == "elif") {
        made.exprs.push_back(in_.tuple());
        block_end();
        continue;
      }
      block_end();
      if (next == "else") made.bodies.push_back(body_until("endif"));
      return made;
    }
  }

  // "a", "a, b", "(a, b)" or "a, (b, c)".
  std::vector<Target> targets() {
    const ExpressionParser::Level level(in_);
    std::vector<Target> made;
    do {
      const Token& next = in_.current();
      if (!made.empty() && (next.is_operator("=") || next.is_operator(")") || next.is_name("in"))) break;
      Target target;
      if (in_.accept_operator("(")) {
        target.inside = targets();
        in_.expect_operator(")");
      } else {
        target.name = in_.expect_identifier();
        if (in_.accept_operator(".")) target.attribute = in_.expect_identifier();
      }
      made.push_back(std::move(target));
    } while (in_.accept_operator(","));
    if (made.size() == 1 && !made[0].inside.empty()) return std::move(made[0].inside);
    return made;
  }

  static bool plain(const std::vector<Target>& targets) {
    return std::ranges::all_of(targets, [](const Target& one) { return one.attribute.empty() && plain(one.inside); });
  }

  Stmt for_block() {
    Stmt made = statement(Stmt::Kind::kFor);
    made.targets = targets();
    if (!plain(made.targets)) in_.fail("a loop cannot assign to an attribute");
    in_.expect_name("in");
    made.exprs.push_back(in_.loop_items());
    made.exprs.push_back(in_.accept_name("if") ? in_.expression() : nullptr);
    made.recursive = in_.accept_name("recursive");
    block_end();
    ++loops_;
    made.bodies.push_back(statements({"else", "endfor"}));
    --loops_;
    const bool otherwise = in_.take().text == "else";
    block_end();
    made.bodies.push_back(otherwise ? body_until("endfor") : Body{});
    return made;
  }

  Stmt set_block() {
    Stmt made = statement(Stmt::Kind::kSet);
    made.targets = targets();
    if (in_.accept_operator("=")) {
      made.exprs.push_back(in_.tuple());
      block_end();
      return made;
    }
    if (made.targets.size() != 1) in_.fail("'=' is expected");
    made.kind = Stmt::Kind::kSetBlock;
    if (in_.accept_operator("|")) made.exprs.push_back(in_.filters(nullptr));
    block_end();
    made.bodies.push_back(body_until("endset"));
    return made;
  }

  std::vector<Parameter> parameters() {
    std::vector<Parameter> made;
    in_.expect_operator("(");
    while (!in_.current().is_operator(")")) {
      Parameter parameter{in_.expect_identifier(), nullptr};
      if (in_.accept_operator("=")) {
        parameter.standard = in_.expression();
      } else if (!made.empty() && made.back().standard) {
        in_.fail("a parameter without a default follows one with a default");
      }
      made.push_back(std::move(parameter));
      if (!in_.accept_operator(",")) break;
    }
    in_.expect_operator(")");
    return made;
  }

  // The body of a macro or a call runs apart from the loops around it.
  void add_apart(Stmt& made, std::string_view end) {
    const int loops = std::exchange(loops_, 0);
    const Stmt::Extras before = in_.exchange_extras({});
    made.bodies.push_back(body_until(end));
    made.extras = in_.exchange_extras({});
    in_.exchange_extras({before.varargs || made.extras.varargs, before.kwargs || made.extras.kwargs,
                         before.caller || made.extras.caller});
    loops_ = loops;
  }

  Stmt macro_block() {
    Stmt made = statement(Stmt::Kind::kMacro);
    made.name = in_.expect_identifier();
    made.parameters = parameters();
    block_end();
    add_apart(made, "endmacro");
    return made;
  }

  Stmt call_block() {
    Stmt made = statement(Stmt::Kind::kCallBlock);
    if (in_.current().is_operator("(")) made.parameters = parameters();
    ExprPtr call = in_.primary_chain();
    if (call->kind != Expr::Kind::kCall) in_.fail("{% call %} needs a call of a macro");
    made.exprs.push_back(std::move(call));
    block_end();
    add_apart(made, "endcall");
    return made;
  }

  Stmt filter_block() {
    Stmt made = statement(Stmt::Kind::kFilterBlock);
    made.exprs.push_back(in_.filters(nullptr));
    block_end();
    made.bodies.push_back(body_until("endfilter"));
    return made;
  }

  Stmt with_block() {
    Stmt made = statement(Stmt::Kind::kWith);
    while (in_.current().kind != Token::Kind::kBlockEnd) {
      made.targets.push_back({in_.expect_identifier(), {}});
      in_.expect_operator("=");
      made.exprs.push_back(in_.expression());
      if (!in_.accept_operator(",")) break;
    }
    block_end();
    made.bodies.push_back(body_until("endwith"));
    return made;
  }

  ExpressionParser in_;
  int loops_ = 0;  // around the current statement
};

}  // namespace

Template parse(std::string_view source, std::string where) {
  Template made;
  made.body = Parser(source, where).run();
  made.where = std::move(where);
  return made;
}

}  // namespace kvasir::jinja
