#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>

#include "jit/source/ast.h"
#include "jit/source/lexer.h"

namespace tessera::jit {
namespace {

constexpr int kMaxDepth = 400;

struct Level {
  int power;
  std::string_view ops[6];
};
// Binary operators from the loosest to the tightest; comparisons and what binds looser is apart.
constexpr Level kBinary[] = {{0, {"|"}},        {1, {"^"}},      {2, {"&"}},
                             {3, {"<<", ">>"}}, {4, {"+", "-"}}, {5, {"*", "/", "//", "%", "@"}}};
constexpr int kLevels = 6;
constexpr std::string_view kReserved[] = {
    "False",  "None",     "True", "and",    "as",   "assert",  "async",  "await",  "break", "class",  "continue", "def",
    "del",    "elif",     "else", "except", "for",  "finally", "from",   "global", "if",    "import", "in",       "is",
    "lambda", "nonlocal", "not",  "or",     "pass", "raise",   "return", "try",    "while", "with",   "yield"};
struct Refused {
  std::string_view word, name;
};
constexpr Refused kRefused[] = {
    {"import", "import statements"}, {"from", "import statements"},      {"try", "try blocks"},
    {"global", "global variables"},  {"nonlocal", "nonlocal variables"}, {"async", "async functions"},
    {"yield", "yield statements"},   {"await", "await expressions"}};

class Parser {
 public:
  explicit Parser(Source& source) : source_(source), lexed_(lex(source)) {}

  const Ast* module() {
    Ast* block = node(A::kBlock, 0);
    while (!is(T::kEnd)) {
      if (is(T::kNewline) || is(T::kIndent) || is(T::kDedent)) {
        ++at_;
        continue;
      }
      statement(block);
    }
    return finish(block);
  }
  const Ast* whole_expression() {
    while (is(T::kIndent) || is(T::kNewline)) ++at_;
    const Ast* e = expressions();
    while (is(T::kNewline) || is(T::kDedent)) ++at_;
    if (!is(T::kEnd)) expected("the end");
    return e;
  }
  // "(A, B) -> C"; without the arrow the result's type is found by compiling
  const Ast* signature() {
    while (is(T::kIndent)) ++at_;
    Ast* both = node(A::kTuple);
    both->kids.push_back(expression());
    both->kids.push_back(accept("->") ? expression() : empty());
    return finish(both);
  }

 private:
  // --- tokens ---
  const Token& tok(size_t k = 0) const { return lexed_.tokens[std::min(at_ + k, lexed_.tokens.size() - 1)]; }
  bool is(T kind) const { return tok().kind == kind; }
  bool is(std::string_view s, size_t k = 0) const {
    return (tok(k).kind == T::kOperator || tok(k).kind == T::kName) && tok(k).text == s;
  }
  bool accept(std::string_view s) {
    if (!is(s)) return false;
    ++at_;
    return true;
  }
  Range here() const {
    Range r;
    r.source = &source_, r.begin = tok().begin, r.end = tok().end;
    return r;
  }
  [[noreturn]] void expected(std::string_view what) {
    const std::string_view got = is(T::kEnd) ? "the end" : is(T::kNewline) ? "a new line" : tok().text;
    fail(here(), str_cat("expected ", what, " but found '", got, "' here"));
  }
  [[noreturn]] void refuse(std::string_view what) {
    throw UnsupportedError(str_cat(what, " aren't supported"), here());
  }
  void expect(std::string_view s) {
    if (!accept(s)) expected(s);
  }
  std::string name() {
    if (!is(T::kName) || std::find(std::begin(kReserved), std::end(kReserved), tok().text) != std::end(kReserved))
      expected("a name");
    return std::string(lexed_.tokens[at_++].text);
  }
  Ast* node(A kind) { return node(kind, tok().begin); }
  Ast* node(A kind, size_t begin) { return source_.make(kind, begin, begin); }
  Ast* finish(Ast* n) {
    n->end = at_ ? lexed_.tokens[at_ - 1].end : n->begin;
    if (at_ && lexed_.tokens[at_ - 1].kind >= T::kNewline) {  // the last token with a text
      size_t k = at_ - 1;
      while (k && lexed_.tokens[k].kind >= T::kNewline) --k;
      n->end = std::max(n->begin, lexed_.tokens[k].end);
    }
    return n;
  }
  Ast* empty() { return node(A::kEmpty); }
  struct Deeper {
    Parser& p;
    explicit Deeper(Parser& parser) : p(parser) {
      if (++p.depth_ > kMaxDepth) fail(p.here(), "the program is nested too deeply");
    }
    ~Deeper() { --p.depth_; }
  };

  // --- expressions ---
  Ast* expressions() {  // a, b, ...
    const size_t b = tok().begin;
    Ast* first = starred();
    if (!is(",")) return first;
    Ast* t = node(A::kTuple, b);
    t->kids.push_back(first);
    while (accept(",")) {
      if (ends_list()) break;
      t->kids.push_back(starred());
    }
    return finish(t);
  }
  bool ends_list() const {
    return tok().kind >= T::kNewline || is(")") || is("]") || is("}") || is("=") || is(":") || is(";") || is("in");
  }
  Ast* starred() {
    if (!is("*")) return expression();
    Ast* s = node(A::kStarred);
    ++at_;
    s->kids.push_back(binary(0));
    return finish(s);
  }
  Ast* expression() {
    Deeper deeper(*this);
    if (is("lambda")) refuse("lambda expressions");
    const size_t b = tok().begin;
    Ast* value = disjunction();
    if (is(":=")) refuse("assignment expressions");
    if (!is("if")) return value;
    ++at_;
    Ast* n = node(A::kIf, b);
    n->kids = {disjunction()};
    n->kids.push_back(value);
    expect("else");
    n->kids.push_back(expression());
    return finish(n);
  }
  Ast* two(A kind, Ast* left, Ast* right, std::string_view text = {}) {
    Ast* n = node(kind, left->begin);
    n->kids = {left, right};
    n->text = text;
    return finish(n);
  }
  Ast* disjunction() {
    Ast* left = conjunction();
    while (accept("or")) left = two(A::kOr, left, conjunction());
    return left;
  }
  Ast* conjunction() {
    Ast* left = negation();
    while (accept("and")) left = two(A::kAnd, left, negation());
    return left;
  }
  Ast* negation() {
    if (!is("not")) return comparison();
    Deeper deeper(*this);
    Ast* n = node(A::kNot);
    ++at_;
    n->kids.push_back(negation());
    return finish(n);
  }
  std::string_view comparison_operator() {
    for (std::string_view o : {"<", ">", "==", "!=", "<=", ">=", "in"})
      if (accept(o)) return o;
    if (accept("is")) return accept("not") ? "is not" : "is";
    if (is("not") && is("in", 1)) {
      at_ += 2;
      return "not in";
    }
    return {};
  }
  Ast* comparison() {
    Ast* left = binary(0);
    Ast* result = nullptr;
    for (std::string_view o = comparison_operator(); !o.empty(); o = comparison_operator()) {
      Ast* right = binary(0);
      Ast* one = two(A::kCompare, left, right, o);
      result = result ? two(A::kAnd, result, one) : one;
      left = right;
    }
    return result ? result : left;
  }
  Ast* binary(int level) {
    if (level == kLevels) return unary();
    Ast* left = binary(level + 1);
    while (tok().kind == T::kOperator) {
      const std::string_view o = tok().text;
      bool found = false;
      for (std::string_view candidate : kBinary[level].ops) found = found || (!candidate.empty() && candidate == o);
      if (!found) break;
      ++at_;
      left = two(A::kBinary, left, binary(level + 1), o);
    }
    return left;
  }
  Ast* unary() {
    if (tok().kind == T::kOperator && (is("-") || is("+") || is("~"))) {
      Deeper deeper(*this);
      Ast* n = node(A::kUnary);
      n->text = tok().text;
      ++at_;
      n->kids.push_back(unary());
      return finish(n);
    }
    Ast* base = primary();
    if (accept("**")) return two(A::kBinary, base, unary(), "**");
    return base;
  }
  Ast* primary() {
    Ast* e = atom();
    for (int chain = 0;; ++chain) {
      if (chain > 5000) fail(here(), "the program is nested too deeply");
      if (is("(")) {
        Ast* call = node(A::kCall, e->begin);
        call->kids.push_back(e);
        ++at_;
        arguments(call);
        finish(call);
        call->end = e->end;  // messages show what is called
        e = call;
      } else if (is("[")) {
        Ast* sub = node(A::kSubscript, e->begin);
        sub->kids.push_back(e);
        ++at_;
        subscripts(sub);
        e = finish(sub);
      } else if (is(".")) {
        ++at_;
        Ast* a = node(A::kAttr, e->begin);
        a->kids.push_back(e);
        if (is("None"))
          ++at_, a->text = "None";
        else
          a->text = name();
        e = finish(a);
      } else {
        return e;
      }
    }
  }
  void arguments(Ast* call) {
    while (!accept(")")) {
      Ast* k = node(A::kKeyword);
      if (is("**")) throw UnsupportedError("keyword-arg expansion is not supported", here());
      if (is(T::kName) && is("=", 1)) {
        k->text = name();
        ++at_;
        k->kids.push_back(expression());
        call->kids.push_back(finish(k));
      } else if (is("*")) {
        call->kids.push_back(starred());
      } else {
        const size_t b = tok().begin;
        Ast* e = expression();
        if (is("for")) e = comprehension(A::kComp, b, e, nullptr);  // a generator that is consumed at once
        call->kids.push_back(e);
      }
      if (!is(")")) expect(",");
    }
  }
  void subscripts(Ast* sub) {
    bool tuple = false;
    const size_t from = sub->kids.size();
    while (!accept("]")) {
      const size_t b = tok().begin;
      Ast* parts[3] = {nullptr, nullptr, nullptr};
      if (!is(":")) parts[0] = starred();
      if (is(":")) {
        Ast* s = node(A::kSlice, b);
        for (int i = 1; i < 3 && accept(":"); ++i)
          if (!is(":") && !is(",") && !is("]")) parts[i] = expression();
        for (Ast*& p : parts) s->kids.push_back(p ? p : empty());
        parts[0] = finish(s);
      }
      sub->kids.push_back(parts[0]);
      if (is("]")) continue;
      expect(",");
      tuple = true;
    }
    if (sub->kids.size() == from) expected("an index");
    if (Ast* only = const_cast<Ast*>(sub->kids.back());
        !tuple && sub->kids.size() == from + 1 && only->is(A::kTuple) && !only->kids.empty()) {  // x[(a, b)]
      sub->kids.pop_back();
      sub->kids.insert(sub->kids.end(), only->kids.begin(), only->kids.end());
      tuple = true;
    }
    if (tuple) sub->number = 1;  // x[1,] is not x[1]
  }
  Ast* comprehension(A kind, size_t b, Ast* first, Ast* second) {
    Ast* n = node(kind, b);
    n->kids.push_back(first);
    if (second) n->kids.push_back(second);
    expect("for");
    n->kids.push_back(target_list());
    expect("in");
    n->kids.push_back(disjunction());
    while (accept("if")) n->kids.push_back(disjunction());
    if (is("for")) throw UnsupportedError("Only a single generator is currently supported", here());
    return finish(n);
  }
  Ast* target_list() {
    const size_t b = tok().begin;
    Ast* first = primary_target();
    if (!is(",")) return first;
    Ast* t = node(A::kTuple, b);
    t->kids.push_back(first);
    while (accept(",")) {
      if (is("in")) break;
      t->kids.push_back(primary_target());
    }
    return finish(t);
  }
  Ast* primary_target() {
    if (!is("*")) return primary();
    Ast* s = node(A::kStarred);
    ++at_;
    s->kids.push_back(primary());
    return finish(s);
  }
  Ast* atom() {
    const size_t b = tok().begin;
    if (is(T::kNumber)) return number();
    if (is(T::kString) || is(T::kFormatted)) return strings();
    if (accept("(")) {
      Deeper deeper(*this);
      if (accept(")")) return finish(node(A::kTuple, b));
      if (is("yield")) refuse("yield statements");
      Ast* e = expressions();
      if (is("for")) e = comprehension(A::kComp, b, e, nullptr);
      expect(")");
      if (e->is(A::kTuple)) e->begin = static_cast<uint32_t>(b), e->end = lexed_.tokens[at_ - 1].end;
      return e;
    }
    if (accept("[")) {
      Deeper deeper(*this);
      Ast* l = node(A::kList, b);
      while (!accept("]")) {
        Ast* e = starred();
        if (l->kids.empty() && is("for")) {
          l = comprehension(A::kComp, b, e, nullptr);
          expect("]");
          return finish(l);
        }
        l->kids.push_back(e);
        if (!is("]")) expect(",");
      }
      return finish(l);
    }
    if (accept("{")) {
      Deeper deeper(*this);
      Ast* d = node(A::kDict, b);
      while (!accept("}")) {
        if (is("**")) throw UnsupportedError("Dict expansion ('**dict') is not supported", here());
        Ast* k = expression();
        if (!is(":")) throw UnsupportedError("set literals aren't supported", here());
        ++at_;
        Ast* v = expression();
        if (d->kids.empty() && is("for")) {
          d = comprehension(A::kDictComp, b, k, v);
          expect("}");
          return finish(d);
        }
        d->kids.push_back(k);
        d->kids.push_back(v);
        if (!is("}")) expect(",");
      }
      return finish(d);
    }
    const A constant = is("True")    ? A::kTrue
                       : is("False") ? A::kFalse
                       : is("None")  ? A::kNone
                       : is("...")   ? A::kEllipsis
                                     : A::kEmpty;
    Ast* n = node(constant == A::kEmpty ? A::kName : constant);
    if (constant != A::kEmpty) {
      ++at_;
      return finish(n);
    }
    for (const Refused& r : kRefused)
      if (is(T::kName) && tok().text == r.word) refuse(r.name);
    if (is("lambda")) refuse("lambda expressions");
    if (!is(T::kName)) expected("an expression");
    n->text = name();
    return finish(n);
  }
  Ast* number() {
    const Token& t = tok();
    std::string text(t.text);
    std::erase(text, '_');
    Ast* n = node(A::kInt);
    ++at_;
    const bool based = text.size() > 1 && text[0] == '0' && std::strchr("xXbBoO", text[1]);
    if (based) {
      const int base = (text[1] | 0x20) == 'x' ? 16 : (text[1] | 0x20) == 'b' ? 2 : 8;
      n->text = std::to_string(std::strtoull(text.c_str() + 2, nullptr, base));
    } else if (text.find_first_of(".eEjJ") != std::string::npos) {
      n->kind = (text.back() | 0x20) == 'j' ? A::kImaginary : A::kFloat;
      n->number = std::strtod(text.c_str(), nullptr);
    } else {
      n->text = text;
      if (text.size() > 19) n->kind = A::kFloat, n->number = std::strtod(text.c_str(), nullptr);
    }
    return finish(n);
  }
  Ast* strings() {  // neighbours are one
    Ast* n = node(A::kString);
    Ast* formatted = nullptr;
    while (is(T::kString) || is(T::kFormatted)) {
      const Token t = tok();
      ++at_;
      if (t.kind == T::kString) {
        n->text += unescape(t, t.text, source_);
        continue;
      }
      if (!formatted) formatted = node(A::kFormatted, n->begin);
      pieces(t, formatted, n);
    }
    finish(n);
    if (!formatted) return n;
    if (!n->text.empty()) formatted->kids.push_back(n);
    return finish(formatted);
  }
  // The parts of an f-string; `text` is the literal under way.
  void pieces(const Token& t, Ast* formatted, Ast*& text) {
    const std::string_view s = t.text;
    size_t literal = 0;
    const auto put = [&](size_t end) { text->text += unescape(t, s.substr(literal, end - literal), source_); };
    for (size_t i = 0; i < s.size();) {
      if (s[i] != '{' && s[i] != '}') {
        ++i;
        continue;
      }
      if (i + 1 < s.size() && s[i + 1] == s[i]) {
        put(i + 1);
        i += 2, literal = i;
        continue;
      }
      put(i);
      Range r;
      r.source = &source_, r.begin = t.begin, r.end = t.end;
      size_t depth = 1, j = i + 1, end = 0;  // of the expression: where a conversion or a specification begins
      for (; j < s.size() && depth; ++j) {
        if (s[j] == '{' || s[j] == '[' || s[j] == '(') {
          if (end) throw UnsupportedError("Expressions in format specifications of f-strings aren't supported", r);
          ++depth;
        }
        if (s[j] == '}' || s[j] == ']' || s[j] == ')') --depth;
        if (depth == 1 && !end && (s[j] == ':' || (s[j] == '!' && s.substr(j, 2) != "!="))) end = j;
      }
      if (depth || s[i] == '}') fail(r, "a brace of this f-string has no other end");
      if (!end) end = j - 1;
      Source& inner = source_.inner(s.substr(i + 1, end - i - 1), t.begin);
      if (!text->text.empty()) formatted->kids.push_back(finish(text));
      text = node(A::kString, t.begin);
      if (const std::string_view how = s.substr(end, j - 1 - end); how.empty() || how == "!s" || how == ":") {
        formatted->kids.push_back(parse_expression(inner));
      } else {
        Ast* field = node(A::kFormatted, t.begin);
        field->text = std::string(how);
        field->kids.push_back(parse_expression(inner));
        formatted->kids.push_back(finish(field));
      }
      i = j, literal = j;
    }
    put(s.size());
  }

  // --- statements ---
  Ast* block() {
    expect(":");
    Ast* b = node(A::kBlock);
    if (is(T::kNewline)) {
      while (is(T::kNewline)) ++at_;
      if (!is(T::kIndent)) expected("an indented block");
      ++at_;
      while (!is(T::kDedent) && !is(T::kEnd)) statement(b);
      if (is(T::kDedent)) ++at_;
    } else {
      simple_line(b);
    }
    return finish(b);
  }
  void simple_line(Ast* into) {
    do {
      if (is(T::kNewline)) break;
      into->kids.push_back(simple());
    } while (accept(";"));
    if (!is(T::kNewline)) expected("the end of the line");
    while (is(T::kNewline)) ++at_;
  }
  void statement(Ast* into) {
    Deeper deeper(*this);
    std::vector<const Ast*> decorators;
    while (is("@")) {
      ++at_;
      decorators.push_back(expression());
      while (is(T::kNewline)) ++at_;
    }
    if (is("def")) return into->kids.push_back(function(decorators));
    if (is("class")) return into->kids.push_back(class_definition(decorators));
    if (is("if")) return into->kids.push_back(if_statement());
    Ast* n = node(A::kWhile);
    if (accept("while")) {
      n->kids = {expression()};
      n->kids.push_back(block());
      no_else("while");
      return into->kids.push_back(finish(n));
    }
    if (accept("for")) {
      n->kind = A::kFor;
      n->kids = {target_list()};
      expect("in");
      n->kids.push_back(expressions());
      n->kids.push_back(block());
      no_else("for");
      return into->kids.push_back(finish(n));
    }
    if (accept("with")) {
      n->kind = A::kWith;
      do {
        n->kids.push_back(expression());
        n->kids.push_back(accept("as") ? primary() : empty());
      } while (accept(","));
      n->kids.push_back(block());
      return into->kids.push_back(finish(n));
    }
    for (const Refused& r : kRefused)
      if (is(T::kName) && tok().text == r.word) refuse(r.name);
    simple_line(into);
  }
  void no_else(const char* loop) {
    if (is("else")) throw UnsupportedError(str_cat("else branches of ", loop, " loops aren't supported"), here());
  }
  Ast* if_statement() {
    Ast* n = node(A::kIf);
    ++at_;
    n->kids = {expression()};
    n->kids.push_back(block());
    if (is("elif")) {
      Ast* b = node(A::kBlock);
      b->kids.push_back(if_statement());
      n->kids.push_back(finish(b));
    } else if (accept("else")) {
      n->kids.push_back(block());
    } else {
      n->kids.push_back(finish(node(A::kBlock, tok().begin)));
    }
    return finish(n);
  }
  Ast* simple() {
    Ast* n = node(A::kPass);
    for (const Refused& r : kRefused)
      if (is(T::kName) && tok().text == r.word) refuse(r.name);
    const auto optional = [&] { return is(T::kNewline) || is(";") ? empty() : expressions(); };
    if (accept("pass")) return finish(n);
    if (accept("break")) return n->kind = A::kBreak, finish(n);
    if (accept("continue")) return n->kind = A::kContinue, finish(n);
    if (accept("return")) {
      n->kind = A::kReturn;
      n->kids = {optional()};
      return finish(n);
    }
    if (accept("raise")) {
      n->kind = A::kRaise;
      n->kids = {optional()};
      if (accept("from")) expression();
      return finish(n);
    }
    if (accept("assert")) {
      n->kind = A::kAssert;
      n->kids = {expression()};
      n->kids.push_back(accept(",") ? expression() : empty());
      return finish(n);
    }
    if (accept("del")) {
      n->kind = A::kDelete;
      const Ast* e = expressions();
      if (e->is(A::kTuple))
        n->kids = e->kids;
      else
        n->kids = {e};
      return finish(n);
    }
    return assignment();
  }
  Ast* assignment() {
    const size_t b = tok().begin;
    Ast* left = expressions();
    if (accept(":")) {
      Ast* n = node(A::kAnnAssign, b);
      n->kids = {left, expression()};
      n->kids.push_back(accept("=") ? expressions() : empty());
      return finish(n);
    }
    if (tok().kind == T::kOperator && tok().text.size() > 1 && tok().text.back() == '=' &&
        std::string_view("+-*/%&|^@<>").find(tok().text[0]) != std::string_view::npos && !is("<=") && !is(">=")) {
      Ast* n = node(A::kAugAssign, b);
      n->text = tok().text.substr(0, tok().text.size() - 1);
      ++at_;
      n->kids = {left, expressions()};
      return finish(n);
    }
    if (!is("=")) {
      Ast* n = node(A::kExpr, b);
      n->kids = {left};
      return finish(n);
    }
    std::vector<const Ast*> targets;
    Ast* value = left;
    while (accept("=")) {
      targets.push_back(value);
      value = expressions();
    }
    Ast* n = node(A::kAssign, b);
    n->kids = {value};
    n->kids.insert(n->kids.end(), targets.begin(), targets.end());
    finish(n);
    if (const Token* c = comment_between(n->end, tok().end); c && targets.size() == 1) {  // x = []  # type: List[int]
      n->kind = A::kAnnAssign;
      n->kids = {targets[0], sub_expression(*c), value};
    }
    return n;
  }
  // A type comment that begins in a stretch of the text.
  const Token* comment_between(size_t from, size_t to) const {
    for (const Token& c : lexed_.type_comments)
      if (c.begin >= from && c.begin <= to + 1) return &c;
    return nullptr;
  }
  const Ast* sub_expression(const Token& c) {
    Source& inner = source_.inner(c.text, c.begin);
    return parse_expression(inner);
  }

  Ast* function(const std::vector<const Ast*>& decorators) {
    Ast* n = node(A::kDef);
    ++at_;
    n->text = name();
    Ast* params = node(A::kParams);
    expect("(");
    bool keyword_only = false;
    std::vector<Ast*> all;
    while (!accept(")")) {
      if (is("**"))
        throw UnsupportedError(
            "Compiled functions can't take variable number of arguments or use "
            "keyword-only arguments with defaults",
            here());
      if (accept("*")) {
        if (!is(",")) throw UnsupportedError("Compiled functions can't take variable number of arguments", here());
        keyword_only = true;
      } else if (accept("/")) {
      } else {
        Ast* p = node(A::kParam);
        p->number = keyword_only;
        p->text = name();
        p->kids = {accept(":") ? expression() : empty()};
        p->kids.push_back(accept("=") ? expression() : empty());
        all.push_back(finish(p));
        params->kids.push_back(p);
      }
      if (!is(")")) { expect(","); }
    }
    finish(params);
    n->kids = {params, accept("->") ? expression() : empty()};
    const size_t colon = tok().begin;
    Ast* body = block();
    type_comment(n, all, colon, body);
    per_line_comments(all, params->begin, body->begin);
    n->kids.push_back(body);
    n->kids.insert(n->kids.end(), decorators.begin(), decorators.end());
    return finish(n);
  }
  // def f(a, b):  # type: (int, Tensor) -> int
  void type_comment(Ast* def, std::vector<Ast*>& params, size_t colon, const Ast* body) {
    const size_t first = body->kids.empty() ? body->end : body->kids[0]->begin;
    for (const Token& c : lexed_.type_comments) {
      if (c.begin < colon || c.begin > first || c.text[0] != '(') continue;
      Source& inner = source_.inner(c.text, c.begin);
      const Ast* both = Parser(inner).signature();
      const Ast& types = (*both)[0];
      if (types.is(A::kEllipsis)) {  // the types stand at the parameters
        def->kids[1] = (*both).kids[1];
        return;
      }
      std::vector<const Ast*> list = types.is(A::kTuple) ? types.kids : std::vector<const Ast*>{&types};
      const size_t skip = params.size() == list.size() + 1 ? 1 : 0;  // self has no type there
      if (params.size() != list.size() + skip)
        fail(*both, str_cat("Number of type annotations for function parameters (", list.size(),
                            ") does not match the number of parameters on the function (", params.size(), ")!"));
      for (size_t i = 0; i < list.size(); ++i) params[i + skip]->kids[0] = list[i];
      def->kids[1] = (*both).kids[1];
      return;
    }
  }
  // def f(a,  # type: int
  void per_line_comments(std::vector<Ast*>& params, size_t from, size_t to) {
    for (size_t i = 0; i < params.size(); ++i) {
      const size_t end = i + 1 < params.size() ? params[i + 1]->begin : to;
      if (!params[i]->kids[0]->is(A::kEmpty)) continue;
      for (const Token& c : lexed_.type_comments)
        if (c.begin > params[i]->end && c.begin < end && c.begin > from && c.text[0] != '(') {
          params[i]->kids[0] = sub_expression(c);
          break;
        }
    }
  }
  Ast* class_definition(const std::vector<const Ast*>& decorators) {
    Ast* n = node(A::kClass);
    ++at_;
    n->text = name();
    Ast* base = empty();
    if (accept("(")) {
      while (!accept(")")) {
        Ast* b = is(T::kName) && is("=", 1) ? (at_ += 2, expression()) : expression();
        if (base->is(A::kEmpty)) base = b;
        if (!is(")")) expect(",");
      }
    }
    n->kids = {block(), base};
    n->kids.insert(n->kids.end(), decorators.begin(), decorators.end());
    return finish(n);
  }

  Source& source_;
  Lexed lexed_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

const Ast* parse_source(Source& source) { return Parser(source).module(); }
const Ast* parse_expression(Source& source) { return Parser(source).whole_expression(); }

int Source::line_of(size_t offset) const {
  return first_line_ +
         static_cast<int>(std::count(text_.begin(), text_.begin() + std::min(offset, text_.size()), '\n'));
}

// Two lines before, the place, two lines after.
std::string Range::excerpt(std::string_view function) const {
  if (!source) return {};
  const std::string& t = source->text();
  const auto line_start = [&](size_t p) {
    const size_t k = p ? t.rfind('\n', p - 1) : std::string::npos;
    return k == std::string::npos ? 0 : k + 1;
  };
  const auto line_end = [&](size_t p) {
    const size_t k = t.find('\n', p);
    return k == std::string::npos ? t.size() : k;
  };
  const size_t b = std::min<size_t>(begin, t.size()), e = std::min<size_t>(std::max(end, begin + 1), t.size());
  size_t from = line_start(b), to = line_end(e ? e - 1 : 0);
  for (int i = 0; i < 2 && from; ++i) from = line_start(from - 1);
  std::string out = str_cat("  File \"", source->file(), "\", line ", source->line_of(b));
  if (!function.empty()) out += str_cat(", in ", function);
  out += '\n';
  for (int after = 0; after < 2 && to < t.size(); ++after) to = line_end(to + 1);
  size_t p = from;
  while (p < to || p == from) {
    const size_t q = line_end(p);
    const std::string_view line(t.data() + p, q - p);
    out += str_cat(line, "\n");
    if (q > b && p < e) {  // marks under what lies in this line
      size_t first = line.find_first_not_of(" \t");
      first = std::max(p + (first == std::string_view::npos ? 0 : first), b);
      const size_t last = std::min(q, e);
      if (last > first) {
        out.append(first - p, ' ');
        out.append(last - first, '~');
        if (last == e || q >= e) out += " <--- HERE";
        out += '\n';
      }
    }
    p = q + 1;
    if (q >= t.size()) break;
  }
  return out;
}

CompileError::CompileError(const std::string& reason, const Range& where)
    : Error(str_cat("\n", reason, where.source ? ":\n" : "", where.excerpt())) {}
UnsupportedError::UnsupportedError(const std::string& reason, const Range& where)
    : CompileError(str_cat(reason, where.source ? ":\n" : "", where.excerpt())) {}
void fail(const Range& where, const std::string& reason) { throw CompileError(reason, where); }

}  // namespace tessera::jit
