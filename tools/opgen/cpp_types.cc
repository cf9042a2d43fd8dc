#include "tools/opgen/cpp_types.h"

#include <cmath>
#include <cstdio>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace tessera::opgen {
namespace {

struct PlainType {
  TypeKind kind;
  const char* value;     // by value, or as the element of an optional
  const char* argument;  // as an argument
};

constexpr PlainType kPlain[] = {
    {TypeKind::kInt, "int64_t", "int64_t"},
    {TypeKind::kSymInt, "SymInt", "SymInt"},
    {TypeKind::kFloat, "double", "double"},
    {TypeKind::kBool, "bool", "bool"},
    {TypeKind::kScalar, "Scalar", "const Scalar&"},
    {TypeKind::kScalarType, "DType", "DType"},
    {TypeKind::kLayout, "Layout", "Layout"},
    {TypeKind::kMemoryFormat, "MemoryFormat", "MemoryFormat"},
    {TypeKind::kDevice, "Device", "Device"},
    {TypeKind::kStr, "std::string_view", "std::string_view"},
    {TypeKind::kDimname, "std::string_view", "std::string_view"},
    {TypeKind::kStorage, "Storage", "Storage"},
};

const PlainType* plain(TypeKind kind) {
  for (const PlainType& p : kPlain)
    if (p.kind == kind) return &p;
  return nullptr;
}

std::optional<std::string> list_type(const SchemaType& t) {
  switch (t.elements[0].kind) {
    case TypeKind::kTensor:
      return "TensorList";
    case TypeKind::kOptional:
      return t.elements[0].elements[0].is(TypeKind::kTensor) ? std::optional<std::string>("TensorList") : std::nullopt;
    case TypeKind::kInt:
      return "IntList";
    case TypeKind::kSymInt:
      return "SymIntList";
    case TypeKind::kFloat:
      return "std::span<const double>";
    case TypeKind::kBool:
      return "std::span<const bool>";
    case TypeKind::kScalar:
      return "std::span<const Scalar>";
    default:
      return std::nullopt;
  }
}

std::string float_literal(double v) {
  if (std::isnan(v)) return "std::numeric_limits<double>::quiet_NaN()";
  if (std::isinf(v))
    return v > 0 ? "std::numeric_limits<double>::infinity()" : "-std::numeric_limits<double>::infinity()";
  char buffer[40];
  for (int digits = 1; digits <= 17; ++digits) {  // the shortest text that reads back
    std::snprintf(buffer, sizeof buffer, "%.*g", digits, v);
    if (std::strtod(buffer, nullptr) == v) break;
  }
  std::string out = buffer;
  if (out.find_first_of(".en") == std::string::npos) out += ".0";
  return out;
}

std::string dtype_enumerator(const std::string& name) {
  if (name.rfind("float8_", 0) == 0) return "DType::kFloat8_" + name.substr(7);
  std::string out = "DType::k" + name;
  out[8] = static_cast<char>(std::toupper(out[8]));
  if (name.rfind("uint", 0) == 0 || name.rfind("qint", 0) == 0)
    out = "DType::k" + std::string(1, static_cast<char>(std::toupper(name[0]))) + "Int" + name.substr(4);
  if (name.rfind("quint", 0) == 0) out = "DType::kQUInt" + name.substr(5);
  if (name == "bfloat16") out = "DType::kBFloat16";
  return out;
}

std::string enumerator(TypeKind kind, const std::string& name) {
  if (kind == TypeKind::kScalarType) return dtype_enumerator(name);
  std::string camel;
  for (absl::string_view part : absl::StrSplit(name, '_')) {
    if (part.empty()) continue;
    camel += static_cast<char>(std::toupper(part[0]));
    absl::StrAppend(&camel, part.substr(1));
  }
  if (kind == TypeKind::kLayout) return "Layout::k" + camel;
  if (camel == "ContiguousFormat") camel = "Contiguous";
  if (camel == "PreserveFormat") camel = "Preserve";
  if (camel == "ChannelsLast3d") camel = "ChannelsLast3d";
  return "MemoryFormat::k" + camel;
}

std::optional<std::string> list_default(const SchemaType& t, const SchemaValue& v) {
  if (v.list.empty()) return "{}";
  std::vector<std::string> parts;
  for (const SchemaValue& e : v.list)
    parts.push_back(e.kind == SchemaValue::Kind::kBool ? (e.b ? "true" : "false") : std::to_string(e.i));
  const std::string values = absl::StrJoin(parts, ", ");
  switch (t.elements[0].kind) {
    case TypeKind::kInt:
    case TypeKind::kSymInt:
      return absl::StrCat("internal::int_list<", values, ">()");
    case TypeKind::kBool:
      return absl::StrCat("internal::bool_list<", values, ">()");
    default:
      return std::nullopt;
  }
}

}  // namespace

bool is_tensor(const SchemaType& type) { return type.without_optional().is(TypeKind::kTensor); }
bool is_tensor_list(const SchemaType& type) {
  const SchemaType& t = type.without_optional();
  return t.is_list() && is_tensor(t.elements[0]);
}

std::optional<std::string> cpp_arg_type(const SchemaType& type) {
  if (is_tensor(type)) return "const Tensor&";
  const SchemaType& t = type.without_optional();
  const bool optional = type.is_optional();
  if (t.is(TypeKind::kGenerator)) return "const Generator&";
  if (t.is_list()) {
    std::optional<std::string> list = list_type(t);
    return list && optional ? std::optional<std::string>(absl::StrCat("std::optional<", *list, ">")) : list;
  }
  const PlainType* p = plain(t.kind);
  if (!p) return std::nullopt;
  if (!optional) return p->argument;
  const std::string out = absl::StrCat("std::optional<", p->value, ">");
  return t.is(TypeKind::kScalar) ? absl::StrCat("const ", out, "&") : out;
}

std::optional<std::string> cpp_result_type(const SchemaArgument& result) {
  const SchemaType& t = result.type;
  if (t.is(TypeKind::kTensor)) return result.is_write() ? "const Tensor&" : "Tensor";
  if (t.is_list() && t.elements[0].is(TypeKind::kTensor)) return "std::vector<Tensor>";
  if (t.is_list() && (t.elements[0].is(TypeKind::kInt) || t.elements[0].is(TypeKind::kSymInt))) return "IntVector";
  const PlainType* p = plain(t.kind);
  if (!p) return std::nullopt;
  return t.is(TypeKind::kStr) || t.is(TypeKind::kDimname) ? "std::string" : p->value;
}

std::optional<std::string> cpp_return_type(const FunctionSchema& schema) {
  if (schema.returns.empty()) return "void";
  if (schema.returns.size() == 1) return cpp_result_type(schema.returns[0]);
  std::vector<std::string> parts;
  for (const SchemaArgument& r : schema.returns) {
    std::optional<std::string> part = cpp_result_type(r);
    if (!part) return std::nullopt;
    parts.push_back(*part == "const Tensor&" ? "Tensor" : *part);
  }
  return absl::StrCat("std::tuple<", absl::StrJoin(parts, ", "), ">");
}

std::string cpp_saved_type(const SchemaType& type) {
  const SchemaType& t = type.without_optional();
  std::string value;
  if (t.is_list()) {
    switch (t.elements[0].kind) {
      case TypeKind::kInt:
        value = "IntVector";
        break;
      case TypeKind::kSymInt:
        value = "std::vector<SymInt>";
        break;
      case TypeKind::kFloat:
        value = "std::vector<double>";
        break;
      case TypeKind::kBool:
        value = "autograd::SavedBools";
        break;
      default:
        value = "std::vector<Scalar>";
    }
  } else if (t.is(TypeKind::kGenerator)) {
    return "Generator";
  } else if (t.is(TypeKind::kStr) || t.is(TypeKind::kDimname)) {
    value = "std::string";
  } else {
    value = plain(t.kind)->value;
  }
  return type.is_optional() ? absl::StrCat("std::optional<", value, ">") : value;
}

std::string cpp_save_expr(const SchemaType& type, const std::string& name) {
  const SchemaType& t = type.without_optional();
  return t.is_list() || t.is(TypeKind::kStr) || t.is(TypeKind::kDimname)
             ? absl::StrCat("autograd::to_saved(", name, ")")
             : name;
}

std::optional<std::string> cpp_default(const SchemaType& type, const SchemaValue& v) {
  const SchemaType& t = type.without_optional();
  switch (v.kind) {
    case SchemaValue::Kind::kNone:
      if (t.is(TypeKind::kTensor) || t.is(TypeKind::kGenerator)) return "{}";
      return type.is_optional() ? std::optional<std::string>("std::nullopt") : std::nullopt;
    case SchemaValue::Kind::kBool:
      return v.b ? "true" : "false";
    case SchemaValue::Kind::kInt:
      return t.is(TypeKind::kFloat) ? float_literal(static_cast<double>(v.i))
             : v.i == INT64_MIN     ? "INT64_MIN"
                                    : absl::StrCat(v.i, v.i > INT32_MAX || v.i < INT32_MIN ? "LL" : "");
    case SchemaValue::Kind::kFloat:
      return float_literal(v.f);
    case SchemaValue::Kind::kString:
      return cpp_string(v.s);
    case SchemaValue::Kind::kEnum:
      return enumerator(t.kind, v.s);
    case SchemaValue::Kind::kList:
      return list_default(t, v);
    case SchemaValue::Kind::kDevice:
      return v.s == "cpu" ? std::optional<std::string>("Device()") : std::nullopt;
    case SchemaValue::Kind::kComplex:
      return absl::StrCat("std::complex<double>(", float_literal(v.f), ", ", float_literal(v.imag), ")");
  }
  return std::nullopt;
}

std::string cpp_identifier(const std::string& name) {
  static const std::set<std::string> kReserved = {
      "alignas",  "alignof",   "and",       "and_eq",   "asm",     "auto",   "bitand",   "bitor",    "bool",
      "break",    "case",      "catch",     "char",     "class",   "compl",  "concept",  "const",    "constexpr",
      "continue", "default",   "delete",    "do",       "double",  "else",   "enum",     "explicit", "export",
      "extern",   "false",     "float",     "for",      "friend",  "goto",   "if",       "inline",   "int",
      "long",     "mutable",   "namespace", "new",      "not",     "not_eq", "operator", "or",       "or_eq",
      "private",  "protected", "public",    "register", "return",  "short",  "signed",   "sizeof",   "static",
      "struct",   "switch",    "template",  "this",     "throw",   "true",   "try",      "typedef",  "typeid",
      "typename", "union",     "unsigned",  "using",    "virtual", "void",   "volatile", "while",    "xor",
      "xor_eq",   "signbit",   "isnan",     "isinf",    "isfinite"};
  static const std::set<std::string> kMacros = {"signbit", "isnan", "isinf",
                                                "isfinite"};  // functions in C++, fine as names
  return kReserved.count(name) && !kMacros.count(name) ? name + "_" : name;
}

std::string cpp_string(std::string_view text) {
  std::string out = "\"";
  for (unsigned char c : text) {
    if (c == '"' || c == '\\')
      absl::StrAppend(&out, "\\", std::string(1, static_cast<char>(c)));
    else if (c == '\n')
      out += "\\n";
    else if (c == '\t')
      out += "\\t";
    else if (c < 0x20) {
      char b[8];
      std::snprintf(b, sizeof b, "\\%03o", c);
      out += b;
    } else
      out += static_cast<char>(c);
  }
  return out + "\"";
}

std::string param_list(const OpForm& form, bool with_names) {
  std::vector<std::string> parts;
  for (const SchemaArgument& a : form.schema.arguments)
    parts.push_back(absl::StrCat(cpp_arg_type(a.type).value_or("?"), with_names ? " " + cpp_identifier(a.name) : ""));
  return absl::StrJoin(parts, ", ");
}

std::string arg_names(const OpForm& form) {
  std::vector<std::string> parts;
  for (const SchemaArgument& a : form.schema.arguments) parts.push_back(cpp_identifier(a.name));
  return absl::StrJoin(parts, ", ");
}

std::string kernel_params(const OpForm& form) {
  const std::string params = param_list(form, true);
  return params.empty() ? "CallContext ctx" : absl::StrCat("CallContext ctx, ", params);
}

std::string signature(const OpForm& form) {
  return absl::StrCat(*cpp_return_type(form.schema), "(", param_list(form, false), ")");
}

std::string line_note(const Entry& entry, int line) { return absl::StrCat("#line ", line, " \"", entry.path, "\"\n"); }

std::string resolve_line_notes(const std::string& text, const std::string& file_name) {
  std::string out;
  int line = 0;
  for (absl::string_view l : absl::StrSplit(text, '\n')) {
    ++line;
    if (l == "#line @")
      absl::StrAppend(&out, "#line ", line + 1, " \"", file_name, "\"\n");
    else
      absl::StrAppend(&out, l, "\n");
  }
  if (!out.empty()) out.pop_back();  // StrSplit gave an empty piece after the last newline
  return out;
}

}  // namespace tessera::opgen
