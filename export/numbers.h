// Numbers of programs beside tensors: sizes, what is computed of them, and the expressions that say what sizes may be.
#pragma once

#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/dispatch/value.h"

namespace tessera::exported {

// A bool, an int or a float, as Python has them; ints have 64 bits.
struct Number {
  enum class Kind : uint8_t { kBool, kInt, kFloat };
  Kind kind = Kind::kInt;
  union {
    int64_t i = 0;
    double f;
  };

  static Number of(bool b) {
    Number n = of(static_cast<int64_t>(b));
    n.kind = Kind::kBool;
    return n;
  }
  static Number of(int64_t i) {
    Number n;
    n.i = i;
    return n;
  }
  static Number of(double f) {
    Number n;
    n.kind = Kind::kFloat;
    n.f = f;
    return n;
  }
  static Number of(const Value& v);  // TypeError for what is no number; a tensor of one element is its element
  Value value() const;
  bool is_float() const { return kind == Kind::kFloat; }
  double real() const { return is_float() ? f : static_cast<double>(i); }
  bool truth() const { return is_float() ? f != 0 : i != 0; }
  std::string text() const;
};
bool equal(const Number& a, const Number& b);

// A function as Python has it: floordiv and mod round down, truediv gives a float. Error where a result has more than
// 64 bits, and for division by zero.
struct NumberFunction {
  const char* name;     // "add"
  uint8_t least, most;  // arguments
  Number (*call)(const Number* args, size_t count);
};
// By its name in an expression, "max" or "FloorDiv"; null for others.
const NumberFunction* function_of_expression(std::string_view name);
// By the target of a node, "_operator.add" or "torch.sym_max"; null for others.
const NumberFunction* function_of_target(std::string_view target);

// The symbols of a program: "s0", "u3". Each has a place among the values of a call.
class Symbols {
 public:
  size_t place(std::string_view name);
  size_t size() const { return places_.size(); }

 private:
  std::map<std::string, size_t, std::less<>> places_;
};

// What is known of the symbols in one call.
struct SymbolValues {
  explicit SymbolValues(size_t n) : values(n), known(n) {}
  std::vector<Number> values;
  std::vector<bool> known;
};

// An expression or condition of symbols: "(2*s0 + -1)", "max(s0, 4) >= (s1 // 2)".
class Expression {
 public:
  Expression() = default;
  // Error for what is none, is longer than 10,000 bytes, or nests deeper than 100.
  Expression(std::string_view text, Symbols& symbols);

  const std::string& text() const { return text_; }
  bool is_symbol() const { return steps_.size() == 1 && steps_[0].what == Step::kSymbol; }
  size_t symbol() const { return steps_[0].place; }
  std::vector<size_t> symbols() const;  // their places, each once
  bool is_known(const SymbolValues& v) const;
  Number evaluate(const SymbolValues& v) const;  // all symbols are known

 private:
  friend class ExpressionParser;
  // In the order of computing: values are pushed, functions take theirs from the top.
  struct Step {
    enum What : uint8_t { kNumber, kSymbol, kFunction } what;
    explicit Step(What w = kNumber) : what(w) {}
    uint8_t count = 0;
    size_t place = 0;
    Number number;
    const NumberFunction* function = nullptr;
  };
  std::string text_;
  std::vector<Step> steps_;
};

}  // namespace tessera::exported
