// Reading C++ expressions of the tables just enough to find the names in them.
#pragma once

#include <string>
#include <vector>

namespace tessera::opgen {

struct FormulaToken {
  enum class Kind { kIdent, kNumber, kString, kSpace, kPunct };
  Kind kind = Kind::kPunct;
  std::string text;
};

// Splits an expression; joined, the tokens give it back.
std::vector<FormulaToken> tokenize_formula(const std::string& text);

// A name used as a value: not a member (after . or ->), not qualified (after or before ::), not called. Index into the
// tokens.
struct FormulaName {
  size_t index = 0;
  std::string name;
  std::string method;  // "sizes" of `self.sizes()`, a call without arguments; else empty
  size_t end = 0;      // one past the call's closing parenthesis, or past the name
};
std::vector<FormulaName> value_names(const std::vector<FormulaToken>& tokens);
// Unbalanced parentheses, brackets or braces: a reason, or "".
std::string formula_imbalance(const std::vector<FormulaToken>& tokens);
bool is_plain_identifier(const std::string& text);

}  // namespace tessera::opgen
