// TorchScript's source as a tree: one node type for all, with a kind, a text and children. One parser serves functions
// that a program scripts and the code of archives.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/core/error.h"

namespace tessera::jit {

enum class A : uint8_t {
  // expressions
  kName,       // text
  kInt,        // text holds the digits
  kFloat,      // number
  kImaginary,  // number
  kString,     // text
  kTrue,
  kFalse,
  kNone,
  kEllipsis,
  kAttr,       // kids: object; text
  kCall,       // kids: callee, arguments (kStarred and kKeyword among them)
  kSubscript,  // kids: object, indices (kSlice, kEllipsis among them)
  kSlice,      // kids: begin, end, step; kEmpty where left out
  kTuple,      // kids
  kList,       // kids
  kDict,       // kids: key, value, key, value ...
  kComp,       // list comprehension. kids: element, target, iterable, conditions
  kDictComp,   // kids: key, value, target, iterable, conditions
  kBinary,     // text: operator; kids: left, right
  kUnary,      // text: "-", "+", "~"
  kNot,        // kids: one
  kAnd,        // kids: left, right
  kOr,
  kCompare,    // text: "<", "is not", "not in" ...; kids: left, right
  kIf,         // an expression: kids: condition, then, otherwise; a statement: condition, kBlock, kBlock
  kStarred,    // kids: one
  kKeyword,    // text; kids: one
  kFormatted,  // an f-string: kids: kString and expressions
  kEmpty,
  // statements
  kBlock,      // kids
  kExpr,       // kids: one
  kAssign,     // kids: value, targets; an annotated one: kAnnAssign
  kAnnAssign,  // kids: target, annotation, value or kEmpty
  kAugAssign,  // text: operator; kids: target, value
  kWhile,      // kids: condition, kBlock
  kFor,        // kids: target, iterable, kBlock
  kReturn,     // kids: value or kEmpty
  kRaise,      // kids: value or kEmpty
  kAssert,     // kids: condition, message or kEmpty
  kPass,
  kBreak,
  kContinue,
  kDelete,  // kids
  kWith,    // kids: expression, target or kEmpty, ..., kBlock
  kDef,     // text: name; kids: kParams, return annotation or kEmpty, kBlock, decorators
  kParams,  // kids: kParam
  kParam,   // text: name; kids: annotation or kEmpty, default or kEmpty. number 1: keyword only
  kClass,   // text: name; kids: kBlock, base or kEmpty, decorators
};

class Source;

struct Ast {
  A kind;
  uint32_t begin = 0, end = 0;  // bytes of the source
  std::string text;
  double number = 0;
  std::vector<const Ast*> kids;
  const Source* source = nullptr;
  const Ast& operator[](size_t i) const { return *kids[i]; }
  bool is(A k) const { return kind == k; }
};

// A text with the trees that were made of it; lives for ever, or as long as the unit that it belongs to.
class Source {
 public:
  Source(std::string text, std::string file, int first_line)
      : text_(std::move(text)), file_(std::move(file)), first_line_(first_line) {}
  const std::string& text() const { return text_; }
  const std::string& file() const { return file_; }
  int line_of(size_t offset) const;
  Ast* make(A kind, size_t begin, size_t end) {
    nodes_.emplace_back();
    Ast& n = nodes_.back();
    n.kind = kind, n.begin = static_cast<uint32_t>(begin), n.end = static_cast<uint32_t>(end), n.source = this;
    return &n;
  }
  // A text of its own inside of this one (a type comment, a part of an f-string).
  Source& inner(std::string_view text, size_t at) {
    return *inner_.emplace_back(std::make_unique<Source>(std::string(text), file_, line_of(at)));
  }

 private:
  std::string text_, file_;
  int first_line_;
  std::deque<Ast> nodes_;
  std::vector<std::unique_ptr<Source>> inner_;
};

// A place in a source: what nodes of graphs remember.
struct Range {
  const Source* source = nullptr;
  uint32_t begin = 0, end = 0;
  Range() = default;
  Range(const Ast& a) : source(a.source), begin(a.begin), end(a.end) {}
  // `  File "x.py", line 3` and the lines around with a mark under the place; empty without a source.
  std::string excerpt(std::string_view function = {}) const;
};

// What a text can't be compiled for: "reason:" and the excerpt. RuntimeError in Python.
class CompileError : public Error {
 public:
  CompileError(const std::string& reason, const Range& where);
  CompileError(const std::string& whole) : Error(whole) {}
};
// The same for a construct that the language does not have.
class UnsupportedError : public CompileError {
 public:
  UnsupportedError(const std::string& reason, const Range& where);
};
[[noreturn]] void fail(const Range& where, const std::string& reason);

// A module's text: kBlock of kDef, kClass and other statements.
const Ast* parse_source(Source& source);
// One expression.
const Ast* parse_expression(Source& source);

}  // namespace tessera::jit
