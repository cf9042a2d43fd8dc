#include "tensor/dispatch/schema.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace tessera {
namespace {

struct NamedConstant {
  TypeKind type;
  const char* name;  // the first name of an integer is the canonical one
  int64_t value;
};

// The documented integers; those of ScalarType are the ones that schemas print and checkpoints of graphs store.
constexpr NamedConstant kConstants[] = {
    {TypeKind::kInt, "Mean", 1},
    {TypeKind::kInt, "Sum", 2},
    {TypeKind::kLayout, "strided", 0},
    {TypeKind::kLayout, "sparse_coo", 1},
    {TypeKind::kLayout, "sparse", 1},
    {TypeKind::kLayout, "sparse_csr", 2},
    {TypeKind::kLayout, "_mkldnn", 3},
    {TypeKind::kLayout, "sparse_csc", 4},
    {TypeKind::kLayout, "sparse_bsr", 5},
    {TypeKind::kLayout, "sparse_bsc", 6},
    {TypeKind::kLayout, "jagged", 7},
    {TypeKind::kMemoryFormat, "contiguous_format", 0},
    {TypeKind::kMemoryFormat, "preserve_format", 1},
    {TypeKind::kMemoryFormat, "channels_last", 2},
    {TypeKind::kMemoryFormat, "channels_last_3d", 3},
    {TypeKind::kScalarType, "uint8", 0},
    {TypeKind::kScalarType, "int8", 1},
    {TypeKind::kScalarType, "int16", 2},
    {TypeKind::kScalarType, "int32", 3},
    {TypeKind::kScalarType, "int64", 4},
    {TypeKind::kScalarType, "float16", 5},
    {TypeKind::kScalarType, "float32", 6},
    {TypeKind::kScalarType, "float64", 7},
    {TypeKind::kScalarType, "complex32", 8},
    {TypeKind::kScalarType, "complex64", 9},
    {TypeKind::kScalarType, "complex128", 10},
    {TypeKind::kScalarType, "bool", 11},
    {TypeKind::kScalarType, "qint8", 12},
    {TypeKind::kScalarType, "quint8", 13},
    {TypeKind::kScalarType, "qint32", 14},
    {TypeKind::kScalarType, "bfloat16", 15},
    {TypeKind::kScalarType, "quint4x2", 16},
    {TypeKind::kScalarType, "quint2x4", 17},
    {TypeKind::kScalarType, "float8_e5m2", 23},
    {TypeKind::kScalarType, "float8_e4m3fn", 24},
    {TypeKind::kScalarType, "float8_e5m2fnuz", 25},
    {TypeKind::kScalarType, "float8_e4m3fnuz", 26},
    {TypeKind::kScalarType, "uint16", 27},
    {TypeKind::kScalarType, "uint32", 28},
    {TypeKind::kScalarType, "uint64", 29},
    {TypeKind::kScalarType, "float8_e8m0fnu", 44},
    {TypeKind::kScalarType, "byte", 0},
    {TypeKind::kScalarType, "char", 1},
    {TypeKind::kScalarType, "short", 2},
    {TypeKind::kScalarType, "int", 3},
    {TypeKind::kScalarType, "long", 4},
    {TypeKind::kScalarType, "half", 5},
    {TypeKind::kScalarType, "float", 6},
    {TypeKind::kScalarType, "double", 7},
    {TypeKind::kScalarType, "chalf", 8},
    {TypeKind::kScalarType, "cfloat", 9},
    {TypeKind::kScalarType, "cdouble", 10},
};

struct TypeName {
  const char* name;
  TypeKind kind;
};

constexpr TypeName kTypeNames[] = {
    {"Tensor", TypeKind::kTensor},
    {"int", TypeKind::kInt},
    {"float", TypeKind::kFloat},
    {"bool", TypeKind::kBool},
    {"complex", TypeKind::kComplex},
    {"Scalar", TypeKind::kScalar},
    {"str", TypeKind::kStr},
    {"SymInt", TypeKind::kSymInt},
    {"SymFloat", TypeKind::kSymFloat},
    {"SymBool", TypeKind::kSymBool},
    {"ScalarType", TypeKind::kScalarType},
    {"Layout", TypeKind::kLayout},
    {"MemoryFormat", TypeKind::kMemoryFormat},
    {"Device", TypeKind::kDevice},
    {"Generator", TypeKind::kGenerator},
    {"Storage", TypeKind::kStorage},
    {"Stream", TypeKind::kStream},
    {"Dimname", TypeKind::kDimname},
    {"QScheme", TypeKind::kQScheme},
    {"Any", TypeKind::kAny},
    {"NoneType", TypeKind::kNone},
    {"Dict", TypeKind::kDict},
    {"Union", TypeKind::kUnion},
    {"Future", TypeKind::kFuture},
    {"RRef", TypeKind::kRRef},
    {"Await", TypeKind::kAwait},
    {"None", TypeKind::kNone},
    {"DeviceIndex", TypeKind::kInt},
};
// Documented types without members that a schema may name.
constexpr const char* kClassNames[] = {"AnyEnumType", "AnyListType", "AnyTupleType", "AnyClassType",
                                       "Capsule",     "Quantizer",   "PyObject",     "Function"};

const char* type_name(TypeKind kind) {
  for (const TypeName& t : kTypeNames)
    if (t.kind == kind) return t.name;
  return "?";
}

std::string float_str(double v) {
  char buffer[64];
  if (std::isnan(v)) return "nan";
  if (std::isinf(v)) return v > 0 ? "inf" : "-inf";
  if (std::fabs(v) < 9.2e18 && v == std::trunc(v)) {
    std::snprintf(buffer, sizeof buffer, "%s%lld.", v == 0 && std::signbit(v) ? "-" : "", static_cast<long long>(v));
  } else {
    std::snprintf(buffer, sizeof buffer, "%.17g", v);
  }
  return buffer;
}

std::string quoted(std::string_view s) {
  std::string out = "\"";
  for (unsigned char c : s) {
    static constexpr char kFrom[] = "\\'\"\a\b\f\n\r\t\v";
    static constexpr char kTo[] = "\\'\"abfnrtv";
    const char* at = c ? std::strchr(kFrom, c) : nullptr;
    if (at) {
      out += '\\';
      out += kTo[at - kFrom];
    } else if (c < 0x20 || c >= 0x7f) {
      char octal[8];
      std::snprintf(octal, sizeof octal, "\\%03o", c);
      out += octal;
    } else {
      out += static_cast<char>(c);
    }
  }
  return out + '"';
}

std::string join(const std::vector<std::string>& parts, const char* separator) {
  std::string out;
  for (size_t i = 0; i < parts.size(); ++i) out += (i ? separator : "") + parts[i];
  return out;
}

std::string alias_str(const AliasInfo& a) {
  if (!a.before.empty() && a.before[0].starts_with('$')) return "!";
  std::string out = "(" + join(a.before, "|");
  if (a.is_write) out += '!';
  if (a.after != a.before) out += " -> " + join(a.after, "|");
  return out + ")";
}

std::string type_str(const SchemaType& t, bool aliases) {
  auto inner = [&](size_t i) { return type_str(t.elements[i], aliases); };
  auto all = [&] {
    std::string out;
    for (size_t i = 0; i < t.elements.size(); ++i) out += (i ? ", " : "") + inner(i);
    return out;
  };
  std::string out;
  switch (t.kind) {
    case TypeKind::kVariable:
    case TypeKind::kClass:
      out = t.name;
      break;
    case TypeKind::kList:
      out = inner(0) + (t.size < 0 ? "[]" : "[" + std::to_string(t.size) + "]");
      break;
    case TypeKind::kOptional:
      out = inner(0) + "?";
      break;
    case TypeKind::kTuple:
      out = "(" + all() + ")";
      break;
    case TypeKind::kDict:
    case TypeKind::kUnion:
    case TypeKind::kFuture:
    case TypeKind::kRRef:
    case TypeKind::kAwait:
      out = std::string(type_name(t.kind)) + "(" + all() + ")";
      break;
    default:
      out = type_name(t.kind);
  }
  if (aliases && t.alias) out += alias_str(*t.alias);
  return out;
}

std::string marked(const std::string& reason, std::string_view text, size_t offset) {
  // One line of the schema, with a marker below; long schemas are cut around the place.
  offset = std::min(offset, text.size());
  size_t begin = text.rfind('\n', offset ? offset - 1 : 0);
  begin = begin == std::string_view::npos || begin >= offset ? 0 : begin + 1;
  size_t end = std::min(text.find('\n', offset), text.size());
  if (offset - begin > 400) begin = offset - 400;
  if (end - offset > 400) end = offset + 400;
  return reason + " here:\n" + std::string(text.substr(begin, end - begin)) + "\n" + std::string(offset - begin, ' ') +
         "~ <--- HERE";
}

enum class Tok : uint8_t { kEnd, kIdent, kNumber, kString, kPunct, kArrow, kEllipsis, kScope };

struct Token {
  Tok kind = Tok::kEnd;
  size_t begin = 0, end = 0;
};

bool ident_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool digit(char c) { return c >= '0' && c <= '9'; }

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) { advance(); }

  FunctionSchema schema();
  OperatorName operator_name();
  SchemaType whole_type();

 private:
  static constexpr int kMaxDepth = 32;  // nesting of types and lists: hostile input must not exhaust the stack
  static constexpr size_t kMaxLength = 1 << 16;

  [[noreturn]] void fail(const std::string& reason, size_t at) const { throw SchemaError(reason, text_, at); }
  [[noreturn]] void fail_expected(const char* what) const {
    fail(
        str_cat("expected ", what, " but found ", tok_.kind == Tok::kEnd ? "the end" : "'" + std::string(word()) + "'"),
        tok_.begin);
  }
  std::string_view word() const { return text_.substr(tok_.begin, tok_.end - tok_.begin); }
  bool punct(char c) const { return tok_.kind == Tok::kPunct && text_[tok_.begin] == c; }
  bool accept(char c) {
    if (!punct(c)) return false;
    advance();
    return true;
  }
  void expect(char c) {
    const char what[] = {'\'', c, '\'', 0};
    if (!accept(c)) fail_expected(what);
  }
  std::string ident(const char* what) {
    if (tok_.kind != Tok::kIdent) fail_expected(what);
    std::string out(word());
    advance();
    return out;
  }
  void expect_end() {
    if (tok_.kind != Tok::kEnd) fail_expected("the end");
  }

  void advance();
  size_t scan_number(size_t i) const;
  size_t scan_string(size_t i) const;
  std::string string_literal();
  OperatorName name();
  SchemaType type(int depth);
  SchemaType base_type(int depth);
  void elements(SchemaType* t, int depth, size_t count);
  std::optional<AliasInfo> alias();
  std::vector<std::string> alias_sets();
  SchemaArgument argument(bool kwarg_only);
  void arguments(FunctionSchema* s);
  void returns(FunctionSchema* s);
  SchemaArgument return_value();
  SchemaValue default_value(const SchemaType& t, int depth);
  SchemaValue scalar_default(const SchemaType& t, bool optional);
  SchemaValue number(const SchemaType& t, bool keep_int = false);
  SchemaValue device();
  void check_order(const FunctionSchema& s, const std::vector<size_t>& offsets) const;

  std::string_view text_;
  Token tok_;
  int unnamed_sets_ = 0;
  size_t next_ = 0;
  std::vector<size_t> argument_offsets_;
};

void Parser::advance() {
  if (text_.size() > kMaxLength) fail("the schema is longer than 65536 bytes", 0);
  size_t i = next_;
  while (i < text_.size() && (std::strchr(" \t\n\r", text_[i]) ? text_[i] != 0 : text_[i] == '#')) {
    if (text_[i] == '#')
      i = std::min(text_.find('\n', i), text_.size());
    else
      ++i;
  }
  tok_ = {Tok::kEnd, i, i};
  if (i < text_.size()) {
    const char c = text_[i];
    const char d = i + 1 < text_.size() ? text_[i + 1] : '\0';
    size_t end = i + 1;
    if (ident_start(c)) {
      while (end < text_.size() && (ident_start(text_[end]) || digit(text_[end]))) ++end;
      tok_.kind = Tok::kIdent;
    } else if (digit(c) || (c == '.' && digit(d))) {
      end = scan_number(i);
      tok_.kind = Tok::kNumber;
    } else if (c == '"' || c == '\'') {
      end = scan_string(i);
      tok_.kind = Tok::kString;
    } else if (c == '-' && d == '>') {
      ++end;
      tok_.kind = Tok::kArrow;
    } else if (c == ':' && d == ':') {
      ++end;
      tok_.kind = Tok::kScope;
    } else if (text_.substr(i, 3) == "...") {
      end += 2;
      tok_.kind = Tok::kEllipsis;
    } else if (c != 0 && std::strchr("()[]?!*|,=.-+:", c)) {
      tok_.kind = Tok::kPunct;
    } else {
      fail("unexpected character", i);
    }
    tok_.end = end;
  }
  next_ = tok_.end;
}

size_t Parser::scan_number(size_t i) const {
  while (i < text_.size() && digit(text_[i])) ++i;
  if (i < text_.size() && text_[i] == '.' && text_.substr(i, 3) != "...") {
    ++i;
    while (i < text_.size() && digit(text_[i])) ++i;
  }
  if (i < text_.size() && (text_[i] == 'e' || text_[i] == 'E')) {
    size_t j = i + 1;
    if (j < text_.size() && (text_[j] == '-' || text_[j] == '+')) ++j;
    if (j < text_.size() && digit(text_[j])) {
      while (j < text_.size() && digit(text_[j])) ++j;
      i = j;
    }
  }
  if (i < text_.size() && text_[i] == 'j') ++i;
  return i;
}

size_t Parser::scan_string(size_t i) const {
  const char quote = text_[i];
  for (size_t j = i + 1; j < text_.size(); ++j) {
    if (text_[j] == '\\')
      ++j;
    else if (text_[j] == quote)
      return j + 1;
    else if (text_[j] == '\n')
      break;
  }
  fail("unterminated string", i);
}

std::string Parser::string_literal() {
  if (tok_.kind != Tok::kString) fail_expected("a string");
  std::string out;
  for (size_t i = tok_.begin + 1; i + 1 < tok_.end; ++i) {
    if (text_[i] != '\\') {
      out += text_[i];
      continue;
    }
    const char c = text_[++i];
    static constexpr char kFrom[] = "\\'\"abfnrtv";
    static constexpr char kTo[] = "\\'\"\a\b\f\n\r\t\v";
    if (const char* at = c ? std::strchr(kFrom, c) : nullptr) {
      out += kTo[at - kFrom];
      continue;
    }
    if (c < '0' || c > '7') fail("unknown escape in a string", i);
    int value = 0;
    for (int k = 0; k < 3; ++k, ++i) {
      if (i + 1 >= tok_.end || text_[i] < '0' || text_[i] > '7') fail("an octal escape has three digits", i);
      value = value * 8 + (text_[i] - '0');
    }
    if (value > 255) fail("an octal escape is at most \\377", i - 3);
    out += static_cast<char>(value);
    --i;
  }
  advance();
  return out;
}

OperatorName Parser::name() {
  OperatorName out;
  out.name = ident("an operator name");
  while (tok_.kind == Tok::kScope) {
    advance();
    out.name += "::" + ident("a name after '::'");
  }
  if (accept('.')) {
    const size_t at = tok_.begin;
    out.overload = ident("an overload name after '.'");
    if (out.overload == "default") fail("'default' is not a legal overload name", at);
  }
  return out;
}

std::vector<std::string> Parser::alias_sets() {
  std::vector<std::string> out;
  do {
    const size_t at = tok_.begin;
    out.push_back(accept('*') ? "*" : ident("an alias set"));
    if (std::count(out.begin(), out.end(), out.back()) > 1) fail("the alias set is named twice", at);
  } while (accept('|'));
  return out;
}

std::optional<AliasInfo> Parser::alias() {
  AliasInfo a;
  if (accept('!')) {  // "Tensor! x": written to, and no alias of anything
    a.before = {str_cat("$", unnamed_sets_++)};
    a.is_write = true;
    return a;
  }
  if (!accept('(')) return std::nullopt;
  a.before = alias_sets();
  a.is_write = accept('!');
  if (tok_.kind == Tok::kArrow) {
    advance();
    a.after = alias_sets();
  } else {
    a.after = a.before;
  }
  expect(')');
  return a;
}

void Parser::elements(SchemaType* t, int depth, size_t count) {
  expect('(');
  while (!punct(')')) {
    if (!t->elements.empty()) expect(',');
    t->elements.push_back(type(depth + 1));
  }
  if (count && t->elements.size() != count)
    fail(str_cat(type_name(t->kind), " takes ", count, count == 1 ? " type" : " types"), tok_.begin);
  expect(')');
}

SchemaType Parser::base_type(int depth) {
  SchemaType t;
  if (punct('(')) {
    t.kind = TypeKind::kTuple;
    elements(&t, depth, 0);
    return t;
  }
  const size_t at = tok_.begin;
  std::string word = ident("a type");
  const TypeName* known =
      std::find_if(std::begin(kTypeNames), std::end(kTypeNames), [&](const TypeName& n) { return word == n.name; });
  if (known != std::end(kTypeNames)) {
    t.kind = known->kind;
    switch (t.kind) {
      case TypeKind::kDict:
        elements(&t, depth, 2);
        break;
      case TypeKind::kUnion:
        elements(&t, depth, 0);
        break;
      case TypeKind::kFuture:
      case TypeKind::kRRef:
      case TypeKind::kAwait:
        elements(&t, depth, 1);
        break;
      default:
        break;
    }
  } else if (word == "__torch__") {
    t.kind = TypeKind::kClass;
    while (accept('.')) word += "." + ident("a class name after '.'");
    if (word == "__torch__") fail("expected '.' and a class name after __torch__", tok_.begin);
    t.name = word;
  } else if (std::find(std::begin(kClassNames), std::end(kClassNames), word) != std::end(kClassNames)) {
    t.kind = TypeKind::kClass;
    t.name = word;
  } else if (word[0] >= 'a' && word[0] <= 'z') {
    t.kind = TypeKind::kVariable;
    t.name = word;
  } else {
    fail(
        "unknown type '" + word +
            "' (the common ones: Tensor, int, SymInt, float, bool, Scalar, str, ScalarType, Layout, Device, Generator)",
        at);
  }
  t.alias = alias();
  return t;
}

SchemaType Parser::type(int depth) {
  if (depth > kMaxDepth) fail("types are nested too deeply", tok_.begin);
  SchemaType t = base_type(depth);
  for (int suffixes = 0;; ++suffixes) {
    if (suffixes > kMaxDepth) fail("types are nested too deeply", tok_.begin);
    if (accept('?')) {
      if (t.is_optional()) continue;
      SchemaType outer;
      outer.kind = TypeKind::kOptional;
      outer.elements.push_back(std::move(t));
      t = std::move(outer);
    } else if (accept('[')) {
      SchemaType outer;
      outer.kind = TypeKind::kList;
      if (!punct(']')) {
        const std::string_view w = word();
        if (tok_.kind != Tok::kNumber ||
            std::from_chars(w.data(), w.data() + w.size(), outer.size).ptr != w.data() + w.size() || outer.size < 0)
          fail_expected("the length of a list, or ']'");
        advance();
      }
      expect(']');
      outer.elements.push_back(std::move(t));
      outer.alias = alias();
      t = std::move(outer);
    } else {
      return t;
    }
  }
}

// keep_int: 1 stays an integer although the type is float, as the documented text of `float? x=1` does.
SchemaValue Parser::number(const SchemaType& t, bool keep_int) {
  const size_t at = tok_.begin;
  const bool negative = accept('-');
  if (tok_.kind == Tok::kIdent && (word() == "inf" || word() == "nan")) {
    if (t.is(TypeKind::kInt) || t.is(TypeKind::kSymInt)) fail_expected("an integer");
    SchemaValue v;
    v.kind = SchemaValue::Kind::kFloat;
    v.f = std::strtod(word() == "inf" ? "inf" : "nan", nullptr);
    if (negative) v.f = -v.f;
    advance();
    return v;
  }
  if (tok_.kind != Tok::kNumber) fail_expected("a number");
  const std::string w = (negative ? "-" : "") + std::string(word());
  SchemaValue v;
  const bool integral = w.find_first_of(".eEj") == std::string::npos;
  if (integral && (keep_int || !t.is(TypeKind::kFloat)) && !t.is(TypeKind::kComplex)) {
    v.kind = SchemaValue::Kind::kInt;
    const auto r = std::from_chars(w.data(), w.data() + w.size(), v.i);
    if (r.ec != std::errc()) fail("the integer does not fit in 64 bits", at);
  } else {
    if (t.is(TypeKind::kInt) || t.is(TypeKind::kSymInt)) fail("expected an integer but found '" + w + "'", at);
    v.kind = SchemaValue::Kind::kFloat;
    v.f = std::strtod(w.c_str(), nullptr);
    if (w.back() == 'j') {
      if (!t.is(TypeKind::kComplex) && !t.is(TypeKind::kScalar))
        fail("a complex default for an argument that is not complex", at);
      v.kind = SchemaValue::Kind::kComplex;
      v.imag = v.f;
      v.f = 0;
    }
  }
  advance();
  // "1.+2.j"
  if ((punct('+') || punct('-')) && v.kind != SchemaValue::Kind::kComplex &&
      (t.is(TypeKind::kComplex) || t.is(TypeKind::kScalar))) {
    const bool minus = punct('-');
    advance();
    const std::string im(word());
    if (tok_.kind != Tok::kNumber || im.back() != 'j') fail_expected("an imaginary part");
    if (v.kind == SchemaValue::Kind::kInt) v.f = static_cast<double>(v.i), v.i = 0;
    v.kind = SchemaValue::Kind::kComplex;
    v.imag = std::strtod(im.c_str(), nullptr) * (minus ? -1 : 1);
    advance();
  }
  return v;
}

SchemaValue Parser::device() {
  SchemaValue v;
  v.kind = SchemaValue::Kind::kDevice;
  if (tok_.kind == Tok::kString) {
    const size_t at = tok_.begin;
    v.s = string_literal();
    // Only what prints back: name or name:index.
    const size_t colon = std::min(v.s.find(':'), v.s.size());
    bool good = colon > 0 && ident_start(v.s[0]);
    for (size_t i = 0; i < colon; ++i) good = good && (ident_start(v.s[i]) || digit(v.s[i]));
    for (size_t i = colon + 1; i < v.s.size(); ++i) good = good && digit(v.s[i]);
    if (!good || colon + 1 == v.s.size()) fail("expected a device such as \"cpu\" or \"cuda:0\"", at);
    return v;
  }
  v.s = ident("a device");
  if (accept(':')) {
    if (tok_.kind != Tok::kNumber || word().find_first_not_of("0123456789") != std::string_view::npos)
      fail_expected("a device index");
    v.s += ":" + std::string(word());
    advance();
  }
  return v;
}

SchemaValue Parser::scalar_default(const SchemaType& t, bool optional) {
  SchemaValue v;
  const size_t at = tok_.begin;
  switch (t.kind) {
    case TypeKind::kStr:
    case TypeKind::kDimname:
      v.kind = SchemaValue::Kind::kString;
      v.s = string_literal();
      return v;
    case TypeKind::kDevice:
      return device();
    case TypeKind::kBool:
    case TypeKind::kSymBool:
      if (tok_.kind != Tok::kIdent || (word() != "True" && word() != "False")) fail_expected("True or False");
      break;
    case TypeKind::kInt:
    case TypeKind::kSymInt:
    case TypeKind::kFloat:
    case TypeKind::kSymFloat:
    case TypeKind::kComplex:
    case TypeKind::kScalar:
    case TypeKind::kAny:
    case TypeKind::kVariable:
    case TypeKind::kUnion:
      if (tok_.kind == Tok::kString && (t.is(TypeKind::kAny) || t.is(TypeKind::kVariable) || t.is(TypeKind::kUnion))) {
        v.kind = SchemaValue::Kind::kString;
        v.s = string_literal();
        return v;
      }
      break;
    case TypeKind::kScalarType:
    case TypeKind::kLayout:
    case TypeKind::kMemoryFormat: {
      v.kind = SchemaValue::Kind::kEnum;
      if (tok_.kind == Tok::kIdent) {
        const std::optional<int64_t> value = schema_enum_value(t.kind, word());
        if (!value) fail("'" + std::string(word()) + "' is not a " + type_name(t.kind), at);
        v.i = *value;
        advance();
      } else {
        SchemaType integer;
        integer.kind = TypeKind::kInt;
        v.i = number(integer).i;
      }
      v.s = schema_enum_name(t.kind, v.i);
      if (v.s.empty()) fail(str_cat(v.i, " is not a ", type_name(t.kind)), at);
      return v;
    }
    default:
      fail("an argument of type " + t.str() + " can't have this default", at);
  }
  if (tok_.kind == Tok::kIdent && (word() == "True" || word() == "False")) {
    if (t.is(TypeKind::kInt) || t.is(TypeKind::kSymInt) || t.is(TypeKind::kFloat)) fail_expected("a number");
    v.kind = SchemaValue::Kind::kBool;
    v.b = word() == "True";
    advance();
    return v;
  }
  if (tok_.kind == Tok::kIdent && (t.is(TypeKind::kInt) || t.is(TypeKind::kSymInt))) {
    if (const std::optional<int64_t> value =
            schema_enum_value(TypeKind::kInt, word())) {  // reduction=Mean is an integer from here on
      v.kind = SchemaValue::Kind::kInt;
      v.i = *value;
      advance();
      return v;
    }
  }
  return number(t, optional);
}

SchemaValue Parser::default_value(const SchemaType& t, int depth) {
  if (depth > kMaxDepth) fail("lists are nested too deeply", tok_.begin);
  SchemaValue v;
  if (tok_.kind == Tok::kIdent && word() == "None") {
    advance();
    return v;
  }
  const SchemaType& u = t.without_optional();
  if (u.is_list()) {
    v.kind = SchemaValue::Kind::kList;
    if (accept('[')) {
      while (!punct(']')) {
        if (!v.list.empty()) expect(',');
        const size_t at = tok_.begin;
        v.list.push_back(default_value(u.elements[0], depth + 1));
        if (v.list.back().kind == SchemaValue::Kind::kNone && !u.elements[0].is_optional())
          fail("None in a list of " + u.elements[0].str(), at);
      }
      expect(']');
      return v;
    }
    if (u.size < 0) fail_expected("a list");
    if (u.size > 64) fail("the list is too long for a single default", tok_.begin);
    // int[2] k=1 stands for [1, 1].
    const SchemaValue one = default_value(u.elements[0], depth + 1);
    v.list.assign(static_cast<size_t>(u.size), one);
    return v;
  }
  return scalar_default(u, t.is_optional());
}

SchemaArgument Parser::argument(bool kwarg_only) {
  SchemaArgument a;
  a.kwarg_only = kwarg_only;
  argument_offsets_.push_back(tok_.begin);
  a.type = type(0);
  a.name = ident("an argument name");
  if (accept('=')) a.default_value = default_value(a.type, 0);
  return a;
}

void Parser::arguments(FunctionSchema* s) {
  expect('(');
  bool kwarg_only = false, first = true;
  while (!punct(')')) {
    if (!first) expect(',');
    first = false;
    const size_t at = tok_.begin;
    if (tok_.kind == Tok::kEllipsis) {
      s->is_vararg = true;
      advance();
      if (!punct(')')) fail_expected("')' after '...'");
    } else if (accept('*')) {
      if (kwarg_only) fail("'*' stands twice", at);
      kwarg_only = true;
      if (!punct(',')) fail("keyword-only arguments must follow '*'", at);
    } else {
      s->arguments.push_back(argument(kwarg_only));
    }
  }
  expect(')');
}

SchemaArgument Parser::return_value() {
  SchemaArgument a;
  a.type = type(0);
  if (tok_.kind == Tok::kIdent) a.name = ident("a name");
  return a;
}

void Parser::returns(FunctionSchema* s) {
  if (tok_.kind == Tok::kEllipsis) {
    s->is_varret = true;
    advance();
    return;
  }
  if (!accept('(')) {
    s->returns.push_back(return_value());
    return;
  }
  bool first = true;
  while (!punct(')')) {
    if (!first) expect(',');
    first = false;
    if (tok_.kind == Tok::kEllipsis) {
      s->is_varret = true;
      advance();
      if (!punct(')')) fail_expected("')' after '...'");
    } else {
      s->returns.push_back(return_value());
    }
  }
  expect(')');
}

void Parser::check_order(const FunctionSchema& s, const std::vector<size_t>& offsets) const {
  bool seen_default = false;
  for (size_t i = 0; i < s.arguments.size(); ++i) {
    const SchemaArgument& a = s.arguments[i];
    for (size_t k = 0; k < i; ++k)
      if (s.arguments[k].name == a.name) fail("two arguments have the name '" + a.name + "'", offsets[i]);
    if (a.kwarg_only) continue;
    if (a.default_value)
      seen_default = true;
    else if (seen_default)
      fail("the argument '" + a.name + "' without a default follows one with a default", offsets[i]);
  }
}

FunctionSchema Parser::schema() {
  FunctionSchema s;
  if (!punct('(')) {
    OperatorName n = name();
    s.name = std::move(n.name);
    s.overload = std::move(n.overload);
  }
  arguments(&s);
  if (tok_.kind != Tok::kArrow) fail_expected("'->'");
  advance();
  returns(&s);
  expect_end();
  check_order(s, argument_offsets_);
  return s;
}

OperatorName Parser::operator_name() {
  OperatorName n = name();
  expect_end();
  return n;
}

SchemaType Parser::whole_type() {
  SchemaType t = type(0);
  expect_end();
  return t;
}

bool same_float(double a, double b) { return std::memcmp(&a, &b, sizeof a) == 0 || a == b; }

// Every value of type `narrow` is also one of type `wide`.
bool is_subtype(const SchemaType& narrow, const SchemaType& wide) {
  if (wide.is(TypeKind::kAny)) return true;
  if (wide.is_optional()) return narrow.is(TypeKind::kNone) || is_subtype(narrow.without_optional(), wide.elements[0]);
  if (narrow.kind != wide.kind) {
    if (wide.is(TypeKind::kScalar))
      return narrow.is(TypeKind::kInt) || narrow.is(TypeKind::kFloat) || narrow.is(TypeKind::kComplex);
    return wide.is(TypeKind::kSymInt) && narrow.is(TypeKind::kInt);
  }
  if (narrow.elements.size() != wide.elements.size() || narrow.name != wide.name ||
      (wide.size >= 0 && narrow.size != wide.size))
    return false;
  for (size_t i = 0; i < narrow.elements.size(); ++i)
    if (!is_subtype(narrow.elements[i], wide.elements[i])) return false;
  return true;
}

bool same_aliases(const SchemaArgument& a, const SchemaArgument& b) {
  const AliasInfo* x = a.type.alias_anywhere();
  const AliasInfo* y = b.type.alias_anywhere();
  return x && y ? *x == *y : x == y;
}

// Empty if the new argument takes everything that the old one took.
std::string argument_change(const SchemaArgument& now, const SchemaArgument& old) {
  if (now.name != old.name) return str_cat("the argument '", old.name, "' is now '", now.name, "'");
  if (!is_subtype(old.type, now.type))
    return str_cat("the argument '", old.name, "' was ", old.type.str(), " and is now ", now.type.str());
  if (!same_aliases(now, old)) return str_cat("the alias annotation of '", old.name, "' changed");
  if (old.default_value && now.default_value != old.default_value)
    return str_cat("the default of '", old.name, "' changed");
  if (now.kwarg_only && !old.kwarg_only) return str_cat("the argument '", old.name, "' became keyword-only");
  return "";
}

}  // namespace

SchemaError::SchemaError(const std::string& reason, std::string_view text, size_t offset)
    : Error(marked(reason, text, offset)), reason_(reason), offset_(offset) {}

bool SchemaType::has_tensor() const {
  return kind == TypeKind::kTensor ||
         std::any_of(elements.begin(), elements.end(), [](const SchemaType& t) { return t.has_tensor(); });
}

const AliasInfo* SchemaType::alias_anywhere() const {
  if (alias) return &*alias;
  for (const SchemaType& t : elements)
    if (const AliasInfo* a = t.alias_anywhere()) return a;
  return nullptr;
}

std::string SchemaType::str() const { return type_str(*this, true); }
std::string SchemaType::str_without_alias() const { return type_str(*this, false); }

bool operator==(const SchemaValue& x, const SchemaValue& y) {
  return x.kind == y.kind && x.b == y.b && x.i == y.i && same_float(x.f, y.f) && same_float(x.imag, y.imag) &&
         x.s == y.s && x.list == y.list;
}

std::string SchemaValue::str() const {
  switch (kind) {
    case Kind::kNone:
      return "None";
    case Kind::kBool:
      return b ? "True" : "False";
    case Kind::kInt:
    case Kind::kEnum:
      return std::to_string(i);
    case Kind::kFloat:
      return float_str(f);
    case Kind::kComplex:
      return float_str(f) + (std::signbit(imag) ? "" : "+") + float_str(imag) + "j";
    case Kind::kString:
      return quoted(s);
    case Kind::kDevice:
      return s;
    case Kind::kList:
      break;
  }
  std::string out = "[";
  for (size_t k = 0; k < list.size(); ++k) out += (k ? ", " : "") + list[k].str();
  return out + "]";
}

std::string SchemaArgument::str() const {
  std::string out = type.str();
  if (!name.empty()) out += " " + name;
  if (!default_value) return out;
  const SchemaType& t = type.without_optional();
  const std::vector<SchemaValue>& l = default_value->list;
  // int[2] k=1: the documented text shortens lists of plain integers (and no others).
  const bool all_equal = !l.empty() && std::all_of(l.begin(), l.end(), [&](const SchemaValue& v) { return v == l[0]; });
  const bool shorten = t.is_list() && t.size == static_cast<int64_t>(l.size()) && t.size != 1 && all_equal &&
                       t.elements[0].is(TypeKind::kInt);
  return out + "=" + (shorten ? l[0].str() : default_value->str());
}

std::string_view FunctionSchema::name_space() const {
  const size_t at = name.find("::");
  return at == std::string::npos ? std::string_view() : std::string_view(name).substr(0, at);
}

std::string_view FunctionSchema::base_name() const {
  const size_t at = name.rfind("::");
  return at == std::string::npos ? std::string_view(name) : std::string_view(name).substr(at + 2);
}

bool FunctionSchema::is_mutable() const {
  return std::any_of(arguments.begin(), arguments.end(), [](const SchemaArgument& a) { return a.is_write(); });
}

int FunctionSchema::find_argument(std::string_view argument) const {
  for (size_t i = 0; i < arguments.size(); ++i)
    if (arguments[i].name == argument) return static_cast<int>(i);
  return -1;
}

std::string FunctionSchema::str() const {
  std::string out = qualified_name() + "(";
  bool star = false, first = true;
  for (const SchemaArgument& a : arguments) {
    if (!first) out += ", ";
    first = false;
    if (a.kwarg_only && !star) {
      out += "*, ";
      star = true;
    }
    out += a.str();
  }
  if (is_vararg) out += first ? "..." : ", ...";
  out += ") -> ";
  // One return that starts with a parenthesis, a tuple, needs a second pair.
  const bool parens =
      returns.size() != 1 ? !(returns.empty() && is_varret) : is_varret || returns[0].type.str()[0] == '(';
  if (parens) out += "(";
  for (size_t i = 0; i < returns.size(); ++i) out += (i ? ", " : "") + returns[i].str();
  if (is_varret) out += returns.empty() ? "..." : ", ...";
  if (parens) out += ")";
  return out;
}

bool FunctionSchema::is_backward_compatible_with(const FunctionSchema& old, std::string* why) const {
  auto no = [&](std::string reason) {
    if (why) *why = std::move(reason);
    return false;
  };
  if (qualified_name() != old.qualified_name()) return no("the name changed");
  if (is_vararg != old.is_vararg || is_varret != old.is_varret) return no("'...' changed");
  if (returns.size() != old.returns.size()) return no("the number of returns changed");
  for (size_t i = 0; i < returns.size(); ++i)
    if (!is_subtype(returns[i].type, old.returns[i].type) || !same_aliases(returns[i], old.returns[i]))
      return no(str_cat("return ", i, " changed"));
  std::vector<const SchemaArgument*> positional, keyword;
  for (const SchemaArgument& a : arguments) (a.kwarg_only ? keyword : positional).push_back(&a);
  size_t matched = 0;
  for (const SchemaArgument& a : old.arguments) {
    const SchemaArgument* now = nullptr;
    if (!a.kwarg_only) {
      if (matched >= positional.size()) return no(str_cat("the argument '", a.name, "' is gone or keyword-only"));
      now = positional[matched++];
    } else {
      const int at = find_argument(a.name);
      if (at < 0) return no(str_cat("the argument '", a.name, "' is gone"));
      now = &arguments[static_cast<size_t>(at)];
    }
    if (std::string change = argument_change(*now, a); !change.empty()) return no(std::move(change));
  }
  for (const SchemaArgument& a : arguments)
    if (old.find_argument(a.name) < 0 && !a.default_value)
      return no(str_cat("the new argument '", a.name, "' has no default"));
  return true;
}

FunctionSchema parse_schema(std::string_view text) { return Parser(text).schema(); }
OperatorName parse_operator_name(std::string_view text) { return Parser(text).operator_name(); }
SchemaType parse_schema_type(std::string_view text) { return Parser(text).whole_type(); }

std::optional<int64_t> schema_enum_value(TypeKind type, std::string_view name) {
  for (const NamedConstant& c : kConstants)
    if (c.type == type && name == c.name) return c.value;
  return std::nullopt;
}

std::string_view schema_enum_name(TypeKind type, int64_t value) {
  for (const NamedConstant& c : kConstants)
    if (c.type == type && value == c.value) return c.name;
  return {};
}

}  // namespace tessera
