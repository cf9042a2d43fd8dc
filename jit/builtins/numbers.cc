// Operators on numbers, bools and devices.
#include <cmath>
#include <complex>
#include <limits>
#include <numeric>

#include "jit/builtins/builtins.h"

namespace tessera::jit {
namespace {
// Whether two values are one object. Items of enums are made anew where they come from Python.
bool is_one(const Value& a, const Value& b) {
  if (a.tag() != b.tag()) return false;
  if (a.is_none()) return true;
  if (a.is_tensor()) return a.tensor().is_same(b.tensor());
  const Object* o = object_of(a);
  return !o || o->kind == ObjectKind::kEnumItem ? equal(a, b) : o == object_of(b);
}

using Tag = Value::Tag;
using C = std::complex<double>;

enum class Kind { kInt, kFloat, kComplex };
Kind kind_of(const Value* a) {
  Kind k = Kind::kInt;
  for (int i = 0; i < 2; ++i) {
    if (a[i].tag() == Tag::kComplex) return Kind::kComplex;
    if (a[i].tag() == Tag::kDouble) k = Kind::kFloat;
  }
  return k;
}
int64_t wrapping(uint64_t x) { return static_cast<int64_t>(x); }
uint64_t u(const Value& v) { return static_cast<uint64_t>(v.integer()); }
void check_divisor(bool nonzero) { TESSERA_CHECK(nonzero, "division by 0"); }

int64_t floor_div(int64_t a, int64_t b) {
  check_divisor(b != 0);
  if (b == -1) return wrapping(-static_cast<uint64_t>(a));
  const int64_t q = a / b;
  return q - (a % b != 0 && (a < 0) != (b < 0));
}
int64_t floor_mod(int64_t a, int64_t b) {
  check_divisor(b != 0);
  if (b == -1) return 0;
  const int64_t m = a % b;
  return m + (m != 0 && (m < 0) != (b < 0) ? b : 0);
}
double floor_mod(double a, double b) {
  const double m = std::fmod(a, b);
  return m != 0 && (m < 0) != (b < 0) ? m + b : m;
}

void check_power(double x, double y) { TESSERA_CHECK(x != 0 || y >= 0, "0.0 cannot be raised to a negative power"); }

template <char Op>
void arithmetic(const Value* a, size_t, Value* r, const Operator&) {
  const Kind k = kind_of(a);
  if constexpr (Op == '^')
    if (k != Kind::kComplex) check_power(a[0].number(), a[1].number());
  if (k == Kind::kComplex) {
    const C x = a[0].scalar().to_complex(), y = a[1].scalar().to_complex();
    r[0] = Op == '+'   ? Value::of(x + y)
           : Op == '-' ? Value::of(x - y)
           : Op == '*' ? Value::of(x * y)
           : Op == '/' ? Value::of(x / y)
           : Op == '^' ? Value::of(std::pow(x, y))
           : Op == '=' ? Value::of(x == y)
                       : Value::of(x != y);
    return;
  }
  if (k == Kind::kInt) {
    const int64_t x = a[0].integer(), y = a[1].integer();
    switch (Op) {
      case '+':
        r[0] = Value::of(wrapping(u(a[0]) + u(a[1])));
        return;
      case '-':
        r[0] = Value::of(wrapping(u(a[0]) - u(a[1])));
        return;
      case '*':
        r[0] = Value::of(wrapping(u(a[0]) * u(a[1])));
        return;
      case 'd':
        r[0] = Value::of(floor_div(x, y));
        return;
      case '%':
        r[0] = Value::of(floor_mod(x, y));
        return;
      case 'f':
        check_divisor(y != 0);
        r[0] = Value::of(y == -1 ? int64_t{0} : x % y);
        return;
      case '=':
        r[0] = Value::of(x == y);
        return;
      case '!':
        r[0] = Value::of(x != y);
        return;
      case '<':
        r[0] = Value::of(x < y);
        return;
      case '>':
        r[0] = Value::of(x > y);
        return;
      case 'l':
        r[0] = Value::of(x <= y);
        return;
      case 'g':
        r[0] = Value::of(x >= y);
        return;
      default:
        break;
    }
  }
  const double x = a[0].number(), y = a[1].number();
  switch (Op) {
    case '+':
      r[0] = Value::of(x + y);
      return;
    case '-':
      r[0] = Value::of(x - y);
      return;
    case '*':
      r[0] = Value::of(x * y);
      return;
    case '/':
      r[0] = Value::of(x / y);
      return;
    case '^':
      r[0] = Value::of(std::pow(x, y));
      return;
    case 'd':
      r[0] = Value::of(std::floor(x / y));
      return;
    case '%':
      r[0] = Value::of(floor_mod(x, y));
      return;
    case 'f':
      r[0] = Value::of(std::fmod(x, y));
      return;
    case 'a':
      r[0] = Value::of(std::atan2(x, y));
      return;
    case 'h':
      r[0] = Value::of(std::hypot(x, y));
      return;
    case 'c':
      r[0] = Value::of(std::copysign(x, y));
      return;
    case 'r':
      r[0] = Value::of(std::remainder(x, y));
      return;
    case '=':
      r[0] = Value::of(x == y);
      return;
    case '!':
      r[0] = Value::of(x != y);
      return;
    case '<':
      r[0] = Value::of(x < y);
      return;
    case '>':
      r[0] = Value::of(x > y);
      return;
    case 'l':
      r[0] = Value::of(x <= y);
      return;
    case 'g':
      r[0] = Value::of(x >= y);
      return;
    default:
      break;
  }
}

constexpr ArithmeticEntry kArithmetic[] = {
    {"aten::add", arithmetic<'+'>, 'p', true},        {"aten::sub", arithmetic<'-'>, 'p', true},
    {"aten::mul", arithmetic<'*'>, 'p', true},        {"aten::div", arithmetic<'/'>, 'f', true},
    {"aten::pow", arithmetic<'^'>, 'f', true},        {"aten::floordiv", arithmetic<'d'>, 'p', false},
    {"aten::remainder", arithmetic<'%'>, 'p', false}, {"aten::fmod", arithmetic<'f'>, 'f', false},
    {"aten::atan2", arithmetic<'a'>, 'f', false},     {"aten::hypot", arithmetic<'h'>, 'f', false},
    {"aten::copysign", arithmetic<'c'>, 'f', false},  {"aten::mathremainder", arithmetic<'r'>, 'f', false},
    {"aten::eq", arithmetic<'='>, 'b', true},         {"aten::ne", arithmetic<'!'>, 'b', true},
    {"aten::lt", arithmetic<'<'>, 'b', false},        {"aten::gt", arithmetic<'>'>, 'b', false},
    {"aten::le", arithmetic<'l'>, 'b', false},        {"aten::ge", arithmetic<'g'>, 'b', false},
};

// Functions of one number with a float for a result, by their names.
struct Unary {
  const char* name;
  double (*f)(double);
};
constexpr Unary kUnary[] = {
    {"aten::sqrt", std::sqrt},
    {"aten::exp", std::exp},
    {"aten::log", std::log},
    {"aten::log2", std::log2},
    {"aten::log10", std::log10},
    {"aten::log1p", std::log1p},
    {"aten::sin", std::sin},
    {"aten::cos", std::cos},
    {"aten::tan", std::tan},
    {"aten::asin", std::asin},
    {"aten::acos", std::acos},
    {"aten::atan", std::atan},
    {"aten::sinh", std::sinh},
    {"aten::cosh", std::cosh},
    {"aten::tanh", std::tanh},
    {"aten::asinh", std::asinh},
    {"aten::acosh", std::acosh},
    {"aten::atanh", std::atanh},
    {"aten::erf", std::erf},
    {"aten::erfc", std::erfc},
    {"aten::expm1", std::expm1},
    {"aten::fabs", std::fabs},
    {"aten::gamma", std::tgamma},
    {"aten::lgamma", std::lgamma},
    {"aten::degrees", [](double x) { return x * (180.0 / 3.14159265358979323846); }},
    {"aten::radians", [](double x) { return x * (3.14159265358979323846 / 180.0); }},
};
struct ComplexUnary {
  const char* name;
  C (*f)(const C&);
};
constexpr ComplexUnary kComplexUnary[] = {
    {"aten::sqrt", std::sqrt}, {"aten::exp", std::exp},     {"aten::log", std::log},     {"aten::log10", std::log10},
    {"aten::sin", std::sin},   {"aten::cos", std::cos},     {"aten::tan", std::tan},     {"aten::asin", std::asin},
    {"aten::acos", std::acos}, {"aten::atan", std::atan},   {"aten::sinh", std::sinh},   {"aten::cosh", std::cosh},
    {"aten::tanh", std::tanh}, {"aten::asinh", std::asinh}, {"aten::acosh", std::acosh}, {"aten::atanh", std::atanh},
};
void unary(const Value* a, size_t, Value* r, const Operator& op) {
  for (const Unary& e : kUnary) {
    if (op.name != e.name) continue;
    if (a[0].tag() == Tag::kComplex) break;
    r[0] = Value::of(e.f(a[0].number()));
    return;
  }
  const C z = a[0].scalar().to_complex();
  for (const auto& [name, f] : kComplexUnary)
    if (op.name == name) r[0] = Value::of(f(z));
}
#define TESSERA_UNARY(NAME)                                                                           \
  {"aten::" NAME ".int(int a) -> float", unary}, {"aten::" NAME ".float(float a) -> float", unary}, { \
    "aten::" NAME ".Scalar(Scalar a) -> Scalar", unary                                                \
  }
#define TESSERA_UNARY_C(NAME) {"aten::" NAME ".complex(complex a) -> complex", unary}, TESSERA_UNARY(NAME)

int64_t to_int(double d) {
  TESSERA_CHECK(!std::isnan(d) && !std::isinf(d), "cannot convert float ", std::isnan(d) ? "NaN" : "infinity",
                " to integer");
  return static_cast<int64_t>(d);
}
std::string with_base(int64_t v, const char* prefix, unsigned shift) {
  std::string digits;
  uint64_t x = v < 0 ? -static_cast<uint64_t>(v) : static_cast<uint64_t>(v);
  do {
    digits.insert(digits.begin(), "0123456789abcdef"[x & ((1u << shift) - 1)]);
    x >>= shift;
  } while (x);
  return str_cat(v < 0 ? "-" : "", prefix, digits);
}
double round_to(double x, int64_t digits) {
  const double scale = std::pow(10.0, static_cast<double>(digits));
  return std::nearbyint(x * scale) / scale;
}
bool truth(const Value& v) { return v.scalar().to_bool(); }
Value pick(const Value* a, bool larger) {
  const double x = a[0].number(), y = a[1].number();
  const Value& v = larger ? (y > x ? a[1] : a[0]) : (y < x ? a[1] : a[0]);
  if (a[0].tag() != a[1].tag()) return Value::of(v.number());
  return Value(v);
}
void bits(const Value* a, Value* r, char op) {
  const int64_t x = a[0].integer(), y = a[1].integer();
  const int64_t v = op == '&' ? x & y : op == '|' ? x | y : x ^ y;
  r[0] = a[0].tag() == Tag::kBool ? Value::of(v != 0) : Value::of(v);
}

// Of a number of any kind: one of the same kind, but that of a complex one is a float.
Value size_of(const Value& x) {
  const Scalar number = x.scalar();
  if (number.is_complex()) return Value::of(std::abs(number.to_complex()));
  return number.is_floating_point() ? Value::of(std::fabs(x.number())) : Value::of(std::abs(x.integer()));
}

constexpr BuiltinEntry kNumbers[] = {
    TESSERA_UNARY_C("sqrt"),
    TESSERA_UNARY_C("exp"),
    TESSERA_UNARY_C("log"),
    TESSERA_UNARY("log2"),
    TESSERA_UNARY_C("log10"),
    TESSERA_UNARY("log1p"),
    TESSERA_UNARY_C("sin"),
    TESSERA_UNARY_C("cos"),
    TESSERA_UNARY_C("tan"),
    TESSERA_UNARY_C("asin"),
    TESSERA_UNARY_C("acos"),
    TESSERA_UNARY_C("atan"),
    TESSERA_UNARY_C("sinh"),
    TESSERA_UNARY_C("cosh"),
    TESSERA_UNARY_C("tanh"),
    TESSERA_UNARY_C("asinh"),
    TESSERA_UNARY_C("acosh"),
    TESSERA_UNARY_C("atanh"),
    TESSERA_UNARY("erf"),
    TESSERA_UNARY("erfc"),
    TESSERA_UNARY("expm1"),
    TESSERA_UNARY("fabs"),
    TESSERA_UNARY("gamma"),
    TESSERA_UNARY("lgamma"),
    TESSERA_UNARY("degrees"),
    TESSERA_UNARY("radians"),
    {"aten::log.float_float(float a, float b) -> float",
     TESSERA_BUILTIN(r[0] = Value::of(std::log(a[0].number()) / std::log(a[1].number())))},
    {"aten::log.int_int(int a, int b) -> float",
     TESSERA_BUILTIN(r[0] = Value::of(std::log(a[0].number()) / std::log(a[1].number())))},
    {"aten::log.int_float(int a, float b) -> float",
     TESSERA_BUILTIN(r[0] = Value::of(std::log(a[0].number()) / std::log(a[1].number())))},
    {"aten::log.float_int(float a, int b) -> float",
     TESSERA_BUILTIN(r[0] = Value::of(std::log(a[0].number()) / std::log(a[1].number())))},
    {"aten::isnan.complex(complex a) -> bool",
     TESSERA_BUILTIN(const C z = a[0].scalar().to_complex();
                     r[0] = Value::of(std::isnan(z.real()) || std::isnan(z.imag())))},
    {"aten::isinf.complex(complex a) -> bool",
     TESSERA_BUILTIN(const C z = a[0].scalar().to_complex();
                     r[0] = Value::of(std::isinf(z.real()) || std::isinf(z.imag())))},
    {"aten::isfinite.complex(complex a) -> bool",
     TESSERA_BUILTIN(const C z = a[0].scalar().to_complex();
                     r[0] = Value::of(std::isfinite(z.real()) && std::isfinite(z.imag())))},
    {"aten::eq.bool(bool a, bool b) -> bool", arithmetic<'='>},
    {"aten::ne.bool(bool a, bool b) -> bool", arithmetic<'!'>},
    {"aten::eq.device(Device a, Device b) -> bool", TESSERA_BUILTIN(r[0] = Value::of(a[0].device() == a[1].device()))},
    {"aten::ne.device(Device a, Device b) -> bool",
     TESSERA_BUILTIN(r[0] = Value::of(!(a[0].device() == a[1].device())))},
    {"aten::pow.int_to_int(int a, int b) -> int",
     TESSERA_BUILTIN(check_power(a[0].number(), a[1].number());
                     r[0] = Value::of(static_cast<int64_t>(std::pow(a[0].number(), a[1].number()))))},
    {"aten::neg.int(int a) -> int", TESSERA_BUILTIN(r[0] = Value::of(wrapping(-u(a[0]))))},
    {"aten::neg.float(float a) -> float", TESSERA_BUILTIN(r[0] = Value::of(-a[0].number()))},
    {"aten::neg.complex(complex a) -> complex", TESSERA_BUILTIN(r[0] = Value::of(-a[0].scalar().to_complex()))},
    {"aten::neg.Scalar(Scalar a) -> Scalar", TESSERA_BUILTIN(r[0] = Value::of(-a[0].scalar()))},
    {"aten::bitwise_not.int(int a) -> int", TESSERA_BUILTIN(r[0] = Value::of(~a[0].integer()))},
    {"prim::abs.int(int a) -> int", TESSERA_BUILTIN(r[0] = Value::of(std::abs(a[0].integer())))},
    {"prim::abs.float(float a) -> float", TESSERA_BUILTIN(r[0] = Value::of(std::fabs(a[0].number())))},
    {"prim::abs.complex(complex a) -> float", TESSERA_BUILTIN(r[0] = Value::of(std::abs(a[0].scalar().to_complex())))},
    {"prim::abs.Scalar(Scalar a) -> Scalar", TESSERA_BUILTIN(r[0] = size_of(a[0]))},
    // Of floats first: a number of either kind becomes what the first of them takes.
    {"aten::floor.float(float a) -> int", TESSERA_BUILTIN(r[0] = Value::of(to_int(std::floor(a[0].number()))))},
    {"aten::floor.int(int a) -> int", TESSERA_BUILTIN(r[0] = a[0])},
    {"aten::ceil.float(float a) -> int", TESSERA_BUILTIN(r[0] = Value::of(to_int(std::ceil(a[0].number()))))},
    {"aten::ceil.int(int a) -> int", TESSERA_BUILTIN(r[0] = a[0])},
    {"aten::trunc.float(float a) -> int", TESSERA_BUILTIN(r[0] = Value::of(to_int(a[0].number())))},
    {"aten::round.float(float a) -> float", TESSERA_BUILTIN(r[0] = Value::of(std::nearbyint(a[0].number())))},
    {"aten::round.int(int a) -> float", TESSERA_BUILTIN(r[0] = Value::of(a[0].number()))},
    {"aten::round.digits(float a, int ndigits) -> float",
     TESSERA_BUILTIN(r[0] = Value::of(round_to(a[0].number(), a[1].integer())))},
    {"aten::isnan.float(float a) -> bool",
     TESSERA_BUILTIN(r[0] = Value::of(static_cast<bool>(std::isnan(a[0].number()))))},
    {"aten::isinf.float(float a) -> bool",
     TESSERA_BUILTIN(r[0] = Value::of(static_cast<bool>(std::isinf(a[0].number()))))},
    {"aten::isfinite.float(float a) -> bool",
     TESSERA_BUILTIN(r[0] = Value::of(static_cast<bool>(std::isfinite(a[0].number()))))},
    {"aten::gcd.int(int a, int b) -> int", TESSERA_BUILTIN(r[0] = Value::of(std::gcd(a[0].integer(), a[1].integer())))},
    {"aten::factorial.int(int a) -> int",
     TESSERA_BUILTIN(TESSERA_CHECK_VALUE(a[0].integer() >= 0, "factorial() not defined for negative values");
                     uint64_t f = 1; for (int64_t i = 2; i <= a[0].integer(); ++i) f *= static_cast<uint64_t>(i);
                     r[0] = Value::of(wrapping(f)))},
    {"aten::ldexp(float x, int i) -> float",
     TESSERA_BUILTIN(r[0] = Value::of(std::ldexp(a[0].number(), static_cast<int>(a[1].integer()))))},
    {"aten::frexp(float a) -> (float mantissa, int exponent)",
     TESSERA_BUILTIN(int e; r[0] = Value::of(std::frexp(a[0].number(), &e));
                     r[1] = Value::of(static_cast<int64_t>(e)))},
    {"aten::modf(float a) -> (float fraction, float whole)",
     TESSERA_BUILTIN(double w; r[0] = Value::of(std::modf(a[0].number(), &w)); r[1] = Value::of(w))},
    {"aten::divmod.int(int x, int y) -> (int q, int m)",
     TESSERA_BUILTIN(r[0] = Value::of(floor_div(a[0].integer(), a[1].integer()));
                     r[1] = Value::of(floor_mod(a[0].integer(), a[1].integer())))},
    {"aten::divmod.float(float x, float y) -> (float q, float m)",
     TESSERA_BUILTIN(const double x = a[0].number(), y = a[1].number(); r[0] = Value::of(std::floor(x / y));
                     r[1] = Value::of(floor_mod(x, y)))},
    {"aten::__and__.int(int a, int b) -> int", TESSERA_BUILTIN(bits(a, r, '&'))},
    {"aten::__and__.bool(bool a, bool b) -> bool", TESSERA_BUILTIN(bits(a, r, '&'))},
    {"aten::__or__.int(int a, int b) -> int", TESSERA_BUILTIN(bits(a, r, '|'))},
    {"aten::__or__.bool(bool a, bool b) -> bool", TESSERA_BUILTIN(bits(a, r, '|'))},
    {"aten::__xor__.int(int a, int b) -> int", TESSERA_BUILTIN(bits(a, r, '^'))},
    {"aten::__xor__.bool(bool a, bool b) -> bool", TESSERA_BUILTIN(bits(a, r, '^'))},
    {"aten::__lshift__.int(int a, int b) -> int",
     TESSERA_BUILTIN(r[0] = Value::of(wrapping(u(a[0]) << (a[1].integer() & 63))))},
    {"aten::__rshift__.int(int a, int b) -> int",
     TESSERA_BUILTIN(r[0] = Value::of(a[0].integer() >> (a[1].integer() & 63)))},
    {"aten::__not__(bool self) -> bool", TESSERA_BUILTIN(r[0] = Value::of(!a[0].boolean()))},
    {"aten::__is__(t1 self, t2 obj) -> bool", TESSERA_BUILTIN(r[0] = Value::of(is_one(a[0], a[1])))},
    {"aten::__isnot__(t1 self, t2 obj) -> bool", TESSERA_BUILTIN(r[0] = Value::of(!is_one(a[0], a[1])))},
    {"aten::Int.float(float a) -> int", TESSERA_BUILTIN(r[0] = Value::of(to_int(a[0].number())))},
    {"aten::Int.bool(bool a) -> int", TESSERA_BUILTIN(r[0] = Value::of(a[0].integer()))},
    {"aten::Int.int(int a) -> int", TESSERA_BUILTIN(r[0] = a[0])},
    {"aten::Int.Scalar(Scalar a) -> int",
     TESSERA_BUILTIN(r[0] = Value::of(a[0].tag() == Tag::kDouble ? to_int(a[0].number()) : a[0].integer()))},
    {"aten::Float.int(int a) -> float", TESSERA_BUILTIN(r[0] = Value::of(a[0].number()))},
    {"aten::Float.bool(bool a) -> float", TESSERA_BUILTIN(r[0] = Value::of(a[0].number()))},
    {"aten::Float.float(float a) -> float", TESSERA_BUILTIN(r[0] = a[0])},
    {"aten::Float.Scalar(Scalar a) -> float", TESSERA_BUILTIN(r[0] = Value::of(a[0].number()))},
    {"aten::Bool.int(int a) -> bool", TESSERA_BUILTIN(r[0] = Value::of(truth(a[0])))},
    {"aten::Bool.float(float a) -> bool", TESSERA_BUILTIN(r[0] = Value::of(truth(a[0])))},
    {"aten::Bool.bool(bool a) -> bool", TESSERA_BUILTIN(r[0] = a[0])},
    {"aten::Bool.Scalar(Scalar a) -> bool", TESSERA_BUILTIN(r[0] = Value::of(truth(a[0])))},
    {"aten::Complex.Scalar(Scalar a) -> complex", TESSERA_BUILTIN(r[0] = Value::of(a[0].scalar().to_complex()))},
    {"aten::Complex.Scalar_Scalar(Scalar a, Scalar b) -> complex",
     TESSERA_BUILTIN(r[0] = Value::of(a[0].scalar().to_complex() + a[1].scalar().to_complex() * C(0, 1)))},
    {"aten::Complex.bool(bool a) -> complex", TESSERA_BUILTIN(r[0] = Value::of(C(a[0].number(), 0)))},
    {"aten::real.complex(complex a) -> float", TESSERA_BUILTIN(r[0] = Value::of(a[0].scalar().to_complex().real()))},
    {"aten::imag.complex(complex a) -> float", TESSERA_BUILTIN(r[0] = Value::of(a[0].scalar().to_complex().imag()))},
    {"aten::conj.complex(complex a) -> complex",
     TESSERA_BUILTIN(r[0] = Value::of(std::conj(a[0].scalar().to_complex())))},
    {"aten::angle.complex(complex a) -> float",
     TESSERA_BUILTIN(r[0] = Value::of(std::arg(a[0].scalar().to_complex())))},
    {"aten::polar.float(float a, float b) -> complex",
     TESSERA_BUILTIN(r[0] = Value::of(std::polar(a[0].number(), a[1].number())))},
    {"prim::min.int(int a, int b) -> int", TESSERA_BUILTIN(r[0] = pick(a, false))},
    {"prim::min.float(float a, float b) -> float", TESSERA_BUILTIN(r[0] = pick(a, false))},
    {"prim::min.int_float(int a, float b) -> float", TESSERA_BUILTIN(r[0] = pick(a, false))},
    {"prim::min.float_int(float a, int b) -> float", TESSERA_BUILTIN(r[0] = pick(a, false))},
    {"prim::min(Scalar a, Scalar b) -> Scalar", TESSERA_BUILTIN(r[0] = pick(a, false))},
    {"prim::max.int(int a, int b) -> int", TESSERA_BUILTIN(r[0] = pick(a, true))},
    {"prim::max.float(float a, float b) -> float", TESSERA_BUILTIN(r[0] = pick(a, true))},
    {"prim::max.int_float(int a, float b) -> float", TESSERA_BUILTIN(r[0] = pick(a, true))},
    {"prim::max.float_int(float a, int b) -> float", TESSERA_BUILTIN(r[0] = pick(a, true))},
    {"prim::max(Scalar a, Scalar b) -> Scalar", TESSERA_BUILTIN(r[0] = pick(a, true))},
    {"aten::hex(int i) -> str", TESSERA_BUILTIN(r[0] = Value::of(with_base(a[0].integer(), "0x", 4)))},
    {"aten::oct(int i) -> str", TESSERA_BUILTIN(r[0] = Value::of(with_base(a[0].integer(), "0o", 3)))},
    {"aten::bin(int i) -> str", TESSERA_BUILTIN(r[0] = Value::of(with_base(a[0].integer(), "0b", 1)))},
    {"aten::hash.generic(t value) -> int", TESSERA_BUILTIN(r[0] = Value::of(static_cast<int64_t>(hash_of(a[0]))))},
    {"aten::__range_length(int lo, int hi, int step) -> int",
     TESSERA_BUILTIN(const int64_t lo = a[0].integer(), hi = a[1].integer(), s = a[2].integer();
                     TESSERA_CHECK(s != 0, "range() arg 3 must not be zero");
                     r[0] = Value::of(s > 0 && lo < hi   ? 1 + (hi - 1 - lo) / s
                                      : s < 0 && lo > hi ? 1 + (lo - 1 - hi) / -s
                                                         : int64_t{0}))},
    {"aten::__derive_index(int index, int start, int step) -> int",
     TESSERA_BUILTIN(r[0] = Value::of(wrapping(u(a[1]) + u(a[0]) * u(a[2]))))},
    {"prim::type(Device self) -> str",
     TESSERA_BUILTIN(r[0] = Value::of(std::string(device_type_name(a[0].device().type))))},
    {"prim::index(Device self) -> int?",
     TESSERA_BUILTIN(r[0] =
                         a[0].device().has_index() ? Value::of(static_cast<int64_t>(a[0].device().index)) : Value())},
    {"aten::device(str a) -> Device", TESSERA_BUILTIN(r[0] = Value::of(Device(a[0].string())))},
    {"aten::device.with_index(str type, int? index=None) -> Device",
     TESSERA_BUILTIN(const Device d(a[0].string());
                     r[0] = Value::of(a[1].is_none() ? d : Device(d.type, static_cast<int>(a[1].integer()))))},
};

}  // namespace

std::span<const ArithmeticEntry> arithmetic_entries() { return kArithmetic; }
BuiltinTable number_builtins() { return {kNumbers, std::size(kNumbers)}; }

}  // namespace tessera::jit
