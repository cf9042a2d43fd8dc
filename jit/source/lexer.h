// The tokens of TorchScript's source.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "jit/source/ast.h"

namespace tessera::jit {

enum class T : uint8_t { kName, kNumber, kString, kFormatted, kOperator, kNewline, kIndent, kDedent, kEnd };

struct Token {
  T kind;
  uint32_t begin, end;
  std::string_view text;  // of the source; of a string: what is between the quotes
  bool raw = false;       // r"..."
  bool bytes = false;
};

struct Lexed {
  std::vector<Token> tokens;
  std::vector<Token> type_comments;  // "# type: ...": text is what follows the colon
};
Lexed lex(const Source& source);
// What stands between quotes, escapes resolved.
std::string unescape(const Token& t, std::string_view text, const Source& source);

}  // namespace tessera::jit
