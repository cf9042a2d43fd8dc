#include "export/numbers.h"

#include <algorithm>
#include <charconv>

#include "tensor/core/error.h"

namespace tessera::exported {
namespace {

using Args = const Number*;

[[noreturn]] void too_large() { throw Error("a size has more than 64 bits"); }
void check(bool overflow) {
  if (overflow) too_large();
}
int64_t whole(double f) {
  if (!(f >= -0x1p63 && f < 0x1p63)) too_large();
  return static_cast<int64_t>(f);
}

// The rules of Python's binary operators: ints (bools among them) stay ints, a float makes the other one a float.
template <class I, class F>
Number arithmetic(Args a, I ints, F floats) {
  if (a[0].is_float() || a[1].is_float()) return Number::of(static_cast<double>(floats(a[0].real(), a[1].real())));
  return Number::of(static_cast<int64_t>(ints(a[0].i, a[1].i)));
}
template <class F>
Number compare(Args a, F f) {
  const bool floats = a[0].is_float() || a[1].is_float();
  return Number::of(static_cast<bool>(floats ? f(a[0].real(), a[1].real()) : f(a[0].i, a[1].i)));
}

Number add(Args a, size_t) {
  return arithmetic(
      a,
      [](int64_t x, int64_t y) {
        int64_t r;
        check(__builtin_add_overflow(x, y, &r));
        return r;
      },
      [](double x, double y) { return x + y; });
}
Number sub(Args a, size_t) {
  return arithmetic(
      a,
      [](int64_t x, int64_t y) {
        int64_t r;
        check(__builtin_sub_overflow(x, y, &r));
        return r;
      },
      [](double x, double y) { return x - y; });
}
Number mul(Args a, size_t) {
  return arithmetic(
      a,
      [](int64_t x, int64_t y) {
        int64_t r;
        check(__builtin_mul_overflow(x, y, &r));
        return r;
      },
      [](double x, double y) { return x * y; });
}
void check_divisor(const Number& n) {
  if (n.real() == 0) throw Error("a size is divided by zero");
}
int64_t floor_div(int64_t x, int64_t y) {
  if (y == -1) {
    check(x == INT64_MIN);
    return -x;
  }
  const int64_t q = x / y;
  return q - (x % y != 0 && (x < 0) != (y < 0));
}
int64_t floor_mod(int64_t x, int64_t y) {
  if (y == -1) return 0;
  const int64_t r = x % y;
  return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}
Number floordiv(Args a, size_t) {
  check_divisor(a[1]);
  return arithmetic(a, floor_div, [](double x, double y) { return std::floor(x / y); });
}
Number mod(Args a, size_t) {
  check_divisor(a[1]);
  return arithmetic(a, floor_mod, [](double x, double y) {
    const double r = std::fmod(x, y);
    return r != 0 && (r < 0) != (y < 0) ? r + y : r;
  });
}
Number truediv(Args a, size_t) {
  check_divisor(a[1]);
  return Number::of(a[0].real() / a[1].real());
}
Number power(Args a, size_t) {
  if (a[0].is_float() || a[1].is_float() || a[1].i < 0) return Number::of(std::pow(a[0].real(), a[1].real()));
  int64_t result = 1, base = a[0].i;
  for (int64_t n = a[1].i; n > 0; n >>= 1) {
    if (n & 1) check(__builtin_mul_overflow(result, base, &result));
    if (n > 1) check(__builtin_mul_overflow(base, base, &base));
  }
  return Number::of(result);
}
Number eq(Args a, size_t) {
  return compare(a, [](auto x, auto y) { return x == y; });
}
Number ne(Args a, size_t) {
  return compare(a, [](auto x, auto y) { return x != y; });
}
Number lt(Args a, size_t) {
  return compare(a, [](auto x, auto y) { return x < y; });
}
Number le(Args a, size_t) {
  return compare(a, [](auto x, auto y) { return x <= y; });
}
Number gt(Args a, size_t) {
  return compare(a, [](auto x, auto y) { return x > y; });
}
Number ge(Args a, size_t) {
  return compare(a, [](auto x, auto y) { return x >= y; });
}
template <class F>
Number bits(Args a, F f) {
  if (a[0].is_float() || a[1].is_float()) throw TypeError("bits of a float");
  const int64_t r = f(a[0].i, a[1].i);
  return a[0].kind == Number::Kind::kBool && a[1].kind == Number::Kind::kBool ? Number::of(r != 0) : Number::of(r);
}
Number and_(Args a, size_t) {
  return bits(a, [](int64_t x, int64_t y) { return x & y; });
}
Number or_(Args a, size_t) {
  return bits(a, [](int64_t x, int64_t y) { return x | y; });
}
Number xor_(Args a, size_t) {
  return bits(a, [](int64_t x, int64_t y) { return x ^ y; });
}
// `a and b` of conditions: without a choice of what is computed.
Number both(Args a, size_t n) {
  return Number::of(std::all_of(a, a + n, [](const Number& x) { return x.truth(); }));
}
Number any(Args a, size_t n) {
  return Number::of(std::any_of(a, a + n, [](const Number& x) { return x.truth(); }));
}
Number not_(Args a, size_t) { return Number::of(!a[0].truth()); }
Number neg(Args a, size_t) {
  if (a[0].is_float()) return Number::of(-a[0].f);
  check(a[0].i == INT64_MIN);
  return Number::of(-a[0].i);
}
Number pos(Args a, size_t) { return a[0].is_float() ? a[0] : Number::of(a[0].i); }
Number absolute(Args a, size_t n) {
  return a[0].is_float() ? Number::of(std::fabs(a[0].f)) : a[0].i < 0 ? neg(a, n) : pos(a, n);
}
// The first of the largest, as Python's max, and a float if one of them is, as sizes have it.
template <class Better>
Number best(Args a, size_t n, Better better) {
  Number found = a[0];
  bool floats = found.is_float();
  for (size_t i = 1; i < n; ++i) {
    floats |= a[i].is_float();
    const Number pair[] = {a[i], found};
    if (better(pair, 2).truth()) found = a[i];
  }
  return floats ? Number::of(found.real()) : found;
}
Number maximum(Args a, size_t n) { return best(a, n, gt); }
Number minimum(Args a, size_t n) { return best(a, n, lt); }
Number to_float(Args a, size_t) { return Number::of(a[0].real()); }
Number trunc(Args a, size_t) { return a[0].is_float() ? Number::of(whole(std::trunc(a[0].f))) : Number::of(a[0].i); }
Number floor(Args a, size_t) { return a[0].is_float() ? Number::of(whole(std::floor(a[0].f))) : Number::of(a[0].i); }
Number ceil(Args a, size_t) { return a[0].is_float() ? Number::of(whole(std::ceil(a[0].f))) : Number::of(a[0].i); }
Number round(Args a, size_t) {  // halves to the even one, the mode that programs begin with
  return a[0].is_float() ? Number::of(whole(std::nearbyint(a[0].f))) : Number::of(a[0].i);
}
Number root(Args a, size_t) { return Number::of(std::sqrt(a[0].real())); }
Number choose(Args a, size_t) { return a[0].truth() ? a[1] : a[2]; }
Number truth(Args a, size_t) { return Number::of(a[0].truth()); }

constexpr NumberFunction kFunctions[] = {
    {"add", 2, 2, add},     {"sub", 2, 2, sub},       {"mul", 2, 2, mul},       {"truediv", 2, 2, truediv},
    {"mod", 2, 2, mod},     {"pow", 2, 2, power},     {"neg", 1, 1, neg},       {"floordiv", 2, 2, floordiv},
    {"pos", 1, 1, pos},     {"eq", 2, 2, eq},         {"ne", 2, 2, ne},         {"lt", 2, 2, lt},
    {"le", 2, 2, le},       {"gt", 2, 2, gt},         {"ge", 2, 2, ge},         {"and_", 2, 2, and_},
    {"or_", 2, 2, or_},     {"xor", 2, 2, xor_},      {"not_", 1, 1, not_},     {"and", 1, 255, both},
    {"or", 1, 255, any},    {"max", 1, 255, maximum}, {"min", 1, 255, minimum}, {"float", 1, 1, to_float},
    {"int", 1, 1, trunc},   {"trunc", 1, 1, trunc},   {"floor", 1, 1, floor},   {"ceil", 1, 1, ceil},
    {"round", 1, 1, round}, {"sqrt", 1, 1, root},     {"ite", 3, 3, choose},    {"abs", 1, 1, absolute},
    {"bool", 1, 1, truth},
};
const NumberFunction* function_named(std::string_view name) {
  for (const NumberFunction& f : kFunctions)
    if (name == f.name) return &f;
  return nullptr;
}

// Names that expressions have for these: Python's own and SymPy's.
constexpr std::pair<std::string_view, std::string_view> kOtherNames[] = {
    {"Max", "max"},
    {"Min", "min"},
    {"FloorDiv", "floordiv"},
    {"CleanDiv", "floordiv"},
    {"Mod", "mod"},
    {"PythonMod", "mod"},
    {"IntTrueDiv", "truediv"},
    {"FloatTrueDiv", "truediv"},
    {"ToFloat", "float"},
    {"TruncToInt", "trunc"},
    {"FloorToInt", "floor"},
    {"CeilToInt", "ceil"},
    {"RoundToInt", "round"},
    {"ceiling", "ceil"},
    {"Abs", "abs"},
    {"PowByNatural", "pow"},
    {"Eq", "eq"},
    {"Ne", "ne"},
    {"And", "and"},
    {"Or", "or"},
    {"Not", "not_"},
    {"Add", "add"},
    {"Mul", "mul"},
};
constexpr std::string_view kPlainNames[] = {"max",  "min",  "float", "trunc", "round",
                                            "sqrt", "ceil", "floor", "abs",   "int"};

}  // namespace

Number Number::of(const Value& v) {
  switch (v.tag()) {
    case Value::Tag::kBool:
      return of(v.boolean());
    case Value::Tag::kInt:
      return of(v.integer());
    case Value::Tag::kDouble:
      return of(v.number());
    case Value::Tag::kTensor:
      if (v.tensor().defined()) {
        const Scalar s = v.tensor().item_scalar();
        return s.is_bool() ? of(s.to_bool()) : s.is_integral(false) ? of(s.to_int()) : of(s.to_double());
      }
      [[fallthrough]];
    default:
      throw TypeError("expected a number");
  }
}
Value Number::value() const {
  return kind == Kind::kFloat ? Value::of(f) : kind == Kind::kBool ? Value::of(i != 0) : Value::of(i);
}
std::string Number::text() const {
  if (kind == Kind::kBool) return i ? "True" : "False";
  if (kind == Kind::kInt) return std::to_string(i);
  char buffer[32];
  return {buffer, std::to_chars(buffer, buffer + sizeof buffer, f).ptr};
}
bool equal(const Number& a, const Number& b) {
  const Number pair[] = {a, b};
  return eq(pair, 2).truth();
}

const NumberFunction* function_of_expression(std::string_view name) {
  for (const auto& [other, own] : kOtherNames)
    if (name == other) return function_named(own);
  for (std::string_view plain : kPlainNames)
    if (name == plain) return function_named(plain);
  return nullptr;
}
const NumberFunction* function_of_target(std::string_view target) {
  for (std::string_view begin : {"_operator.", "builtins.", "math.", "torch.sym_"}) {
    if (!target.starts_with(begin)) continue;
    const std::string_view name = target.substr(begin.size());
    return name == "not" ? function_named("not_") : name == "and" || name == "or" ? nullptr : function_named(name);
  }
  return nullptr;
}

size_t Symbols::place(std::string_view name) {
  const auto it = places_.find(name);
  if (it != places_.end()) return it->second;
  const size_t digits = name.find_first_of("0123456789");
  TESSERA_CHECK(
      digits != std::string_view::npos &&
          (name.substr(0, digits) == "s" || name.substr(0, digits) == "u" || name.substr(0, digits) == "zuf") &&
          name.find_first_not_of("0123456789", digits) == std::string_view::npos,
      "'", name.substr(0, 80), "' is no name of a symbol");
  return places_.emplace(std::string(name), places_.size()).first->second;
}

// Recursive descent over Python's precedence.
class ExpressionParser {
 public:
  ExpressionParser(std::string_view text, Symbols& symbols, Expression* out)
      : text_(text), symbols_(symbols), out_(*out) {}
  void whole() {
    ternary(0);
    spaces();
    if (at_ != text_.size()) fail();
  }

 private:
  static constexpr int kMaxDepth = 100;

  [[noreturn]] void fail() const {
    throw Error(str_cat("'", text_.substr(0, 80), "' is no expression of sizes (byte ", at_, ")"));
  }
  void spaces() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }
  static bool is_word(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || is_digit(c); }
  static bool is_digit(char c) { return c >= '0' && c <= '9'; }
  bool accept(std::string_view token) {
    spaces();
    if (!text_.substr(at_).starts_with(token)) return false;
    const size_t end = at_ + token.size();
    if (is_word(token[0]) && end < text_.size() && is_word(text_[end])) return false;
    at_ = end;
    return true;
  }
  void call(std::string_view name, size_t count) { call(function_named(name), count); }
  void call(const NumberFunction* f, size_t count) {
    if (count < f->least || count > f->most) fail();
    Expression::Step s(Expression::Step::kFunction);
    s.function = f;
    s.count = static_cast<uint8_t>(count);
    out_.steps_.push_back(s);
  }

  // a if c else b
  void ternary(int depth) {
    if (depth > kMaxDepth) fail();
    const size_t begin = out_.steps_.size();
    either(depth);
    if (!accept("if")) return;
    const std::vector<Expression::Step> first(out_.steps_.begin() + static_cast<ptrdiff_t>(begin), out_.steps_.end());
    out_.steps_.resize(begin);
    either(depth + 1);
    if (!accept("else")) fail();
    out_.steps_.insert(out_.steps_.end(), first.begin(), first.end());
    ternary(depth + 1);
    call("ite", 3);
  }
  void either(int depth) { chain(depth, "or", &ExpressionParser::all); }
  void all(int depth) { chain(depth, "and", &ExpressionParser::negation); }
  void chain(int depth, const char* word, void (ExpressionParser::*part)(int)) {
    (this->*part)(depth);
    size_t count = 1;
    while (accept(word)) (this->*part)(depth), ++count;
    if (count > 1) call(word, count);
  }
  void negation(int depth) {
    if (depth > kMaxDepth) fail();
    if (!accept("not")) return comparison(depth);
    negation(depth + 1);
    call("not_", 1);
  }
  void comparison(int depth) {
    sum(depth);
    constexpr std::pair<std::string_view, std::string_view> kSigns[] = {{"==", "eq"}, {"!=", "ne"}, {"<=", "le"},
                                                                        {">=", "ge"}, {"<", "lt"},  {">", "gt"}};
    for (const auto& [sign, name] : kSigns)
      if (accept(sign)) {
        sum(depth);
        return call(name, 2);
      }
  }
  void sum(int depth) {
    product(depth);
    while (true) {
      const bool plus = accept("+");
      if (!plus && !accept("-")) return;
      product(depth);
      call(plus ? "add" : "sub", 2);
    }
  }
  void product(int depth) {
    sign(depth);
    while (true) {
      const size_t before = at_;
      if (accept("**")) {
        at_ = before;
        return;
      }
      const char* name = accept("*")    ? "mul"
                         : accept("//") ? "floordiv"
                         : accept("/")  ? "truediv"
                         : accept("%")  ? "mod"
                                        : nullptr;
      if (!name) return;
      sign(depth);
      call(name, 2);
    }
  }
  void sign(int depth) {
    if (depth > kMaxDepth) fail();
    if (accept("-")) {
      sign(depth + 1);
      return call("neg", 1);
    }
    if (accept("+")) return sign(depth + 1);
    atom(depth);
    if (!accept("**")) return;
    sign(depth + 1);
    call("pow", 2);
  }
  void atom(int depth) {
    spaces();
    if (at_ == text_.size()) fail();
    if (accept("(")) {
      ternary(depth + 1);
      if (!accept(")")) fail();
    } else if (is_digit(text_[at_]) || text_[at_] == '.') {
      number();
    } else {
      word(depth);
    }
  }
  void number() {
    const char *begin = text_.data() + at_, *end = text_.data() + text_.size();
    Expression::Step s(Expression::Step::kNumber);
    double f;
    int64_t i;
    const auto as_float = std::from_chars(begin, end, f);
    const auto as_int = std::from_chars(begin, end, i);
    if (as_float.ec != std::errc()) fail();
    const bool is_int = as_int.ptr == as_float.ptr;
    if (is_int && as_int.ec != std::errc()) fail();
    s.number = is_int ? Number::of(i) : Number::of(f);
    at_ += static_cast<size_t>(as_float.ptr - begin);
    out_.steps_.push_back(s);
  }
  std::string_view name() {
    const size_t begin = at_;
    while (at_ < text_.size() && is_word(text_[at_])) ++at_;
    if (at_ == begin) fail();
    return text_.substr(begin, at_ - begin);
  }
  void word(int depth) {
    std::string_view w = name();
    if (w == "math" && accept(".")) w = name();
    if (!accept("(")) {
      Expression::Step s(Expression::Step::kSymbol);
      if (w == "True" || w == "False")
        s.what = Expression::Step::kNumber, s.number = Number::of(w == "True");
      else
        s.place = symbols_.place(w);
      out_.steps_.push_back(s);
      return;
    }
    const NumberFunction* f = function_of_expression(w);
    if (!f) fail();
    size_t count = 0;
    do ternary(depth + 1), ++count;
    while (accept(","));
    if (!accept(")")) fail();
    const bool folds = f->most == 2 && (w == "Add" || w == "Mul");
    for (; folds && count > 2; --count) call(f, 2);
    call(f, count);
  }

  std::string_view text_;
  Symbols& symbols_;
  Expression& out_;
  size_t at_ = 0;
};

Expression::Expression(std::string_view text, Symbols& symbols) : text_(text) {
  TESSERA_CHECK(text.size() <= 10000, "an expression of sizes is longer than 10,000 bytes");
  ExpressionParser(text_, symbols, this).whole();
}
std::vector<size_t> Expression::symbols() const {
  std::vector<size_t> found;
  for (const Step& s : steps_)
    if (s.what == Step::kSymbol && std::find(found.begin(), found.end(), s.place) == found.end())
      found.push_back(s.place);
  return found;
}
bool Expression::is_known(const SymbolValues& v) const {
  return std::all_of(steps_.begin(), steps_.end(),
                     [&](const Step& s) { return s.what != Step::kSymbol || v.known[s.place]; });
}
Number Expression::evaluate(const SymbolValues& v) const {
  std::vector<Number> stack;
  for (const Step& s : steps_) {
    if (s.what == Step::kNumber) {
      stack.push_back(s.number);
    } else if (s.what == Step::kSymbol) {
      stack.push_back(v.values[s.place]);
    } else {
      const Number result = s.function->call(stack.data() + stack.size() - s.count, s.count);
      stack.resize(stack.size() - s.count);
      stack.push_back(result);
    }
  }
  return stack.back();
}

}  // namespace tessera::exported
