// Operator schemas: the language that torch.library documents, as plain data, with a parser and a printer.
//
//   ns::name.overload(Tensor(a!) self, int[2] k=1, *, ScalarType? dtype=None) -> (Tensor(a!) values, Tensor indices)
//
// Used by the op-table compiler, torch.library, Python's torch.ops and the boxed calls. Plain C++ (it goes into the
// Python extension).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/core/error.h"

namespace tessera {

// A schema that can't be parsed. what() has the reason, the schema and a marker under the place; RuntimeError in
// Python.
class SchemaError : public Error {
 public:
  SchemaError(const std::string& reason, std::string_view text, size_t offset);
  const std::string& reason() const { return reason_; }
  size_t offset() const { return offset_; }  // byte in the schema text

 private:
  std::string reason_;
  size_t offset_;
};

// (a), (a!), (a|b), (a -> *), (a! -> a|b): the sets that a value belongs to before and after the call. "*" is the
// wildcard set.
struct AliasInfo {
  std::vector<std::string> before;
  std::vector<std::string> after;  // equal to `before` unless an arrow was given
  bool is_write = false;
  friend bool operator==(const AliasInfo&, const AliasInfo&) = default;
};

enum class TypeKind : uint8_t {
  kTensor,
  kInt,
  kFloat,
  kBool,
  kComplex,
  kScalar,
  kStr,
  kSymInt,
  kSymFloat,
  kSymBool,
  kScalarType,
  kLayout,
  kMemoryFormat,
  kDevice,
  kGenerator,
  kStorage,
  kStream,
  kDimname,
  kQScheme,
  kAny,
  kNone,
  kVariable,  // a type variable: name() is "t"
  kClass,     // any other named type: "__torch__.torch.classes.ns.Name"
  kList,
  kOptional,
  kTuple,
  kDict,
  kUnion,
  kFuture,
  kRRef,
  kAwait,  // these have elements
};

struct SchemaType {
  TypeKind kind = TypeKind::kAny;
  int64_t size = -1;                 // kList: N of T[N], or -1
  std::string name;                  // kVariable, kClass
  std::vector<SchemaType> elements;  // kList, kOptional, kFuture ...: one; kDict: two; kTuple, kUnion: any number
  std::optional<AliasInfo> alias;

  bool is(TypeKind k) const { return kind == k; }
  bool is_list() const { return kind == TypeKind::kList; }
  bool is_optional() const { return kind == TypeKind::kOptional; }
  // True if a tensor is anywhere inside.
  bool has_tensor() const;
  const SchemaType& without_optional() const { return is_optional() ? elements[0] : *this; }
  // The first alias annotation on this type or on what it contains; nullptr if there is none.
  const AliasInfo* alias_anywhere() const;
  std::string str() const;  // as in a schema, annotations included
  std::string str_without_alias() const;
  friend bool operator==(const SchemaType&, const SchemaType&) = default;
};

// A default. Named constants (Mean, contiguous_format, strided, long ...) keep their name and have the documented
// integer in `i`.
struct SchemaValue {
  enum class Kind : uint8_t { kNone, kBool, kInt, kFloat, kComplex, kString, kDevice, kEnum, kList };
  Kind kind = Kind::kNone;
  bool b = false;
  int64_t i = 0;
  double f = 0;
  double imag = 0;  // kComplex: f + imag*j
  std::string s;    // kString, kDevice; kEnum: the canonical name ("long", "strided")
  std::vector<SchemaValue> list;
  std::string str() const;
  friend bool operator==(const SchemaValue& x, const SchemaValue& y);
};

struct SchemaArgument {
  std::string name;  // may be empty for a return
  SchemaType type;
  std::optional<SchemaValue> default_value;
  bool kwarg_only = false;
  bool is_write() const {
    const AliasInfo* a = type.alias_anywhere();
    return a && a->is_write;
  }
  std::string str() const;
  friend bool operator==(const SchemaArgument&, const SchemaArgument&) = default;
};

struct FunctionSchema {
  std::string name;      // "aten::add", or without a namespace, as written; may be empty: "(Tensor x) -> Tensor"
  std::string overload;  // "" or "Tensor"
  std::vector<SchemaArgument> arguments;
  std::vector<SchemaArgument> returns;
  bool is_vararg = false;  // "..." after the arguments
  bool is_varret = false;  // "..." after the returns

  std::string_view name_space() const;  // "aten" of "aten::add", "" if there is none
  std::string_view base_name() const;   // "add"
  std::string qualified_name() const { return overload.empty() ? name : name + "." + overload; }
  bool is_mutable() const;                             // an argument is written
  int find_argument(std::string_view argument) const;  // index or -1
  // The text in the documented normal form; parsing it gives an equal schema.
  std::string str() const;
  // Programs (and stored graphs) written against `old` keep working with this schema: same name, every old argument
  // still there at its place with the same or a wider type and its default kept, new arguments have defaults, the
  // returns are the same or narrower. Else `why` says why not.
  bool is_backward_compatible_with(const FunctionSchema& old, std::string* why = nullptr) const;
  friend bool operator==(const FunctionSchema&, const FunctionSchema&) = default;
};

struct OperatorName {
  std::string name;
  std::string overload;
  friend bool operator==(const OperatorName&, const OperatorName&) = default;
};

// Throws SchemaError.
FunctionSchema parse_schema(std::string_view text);
OperatorName parse_operator_name(std::string_view text);  // "aten::add.Tensor"
SchemaType parse_schema_type(std::string_view text);      // "Tensor(a!)[]"

// The documented integer of a named default ("Mean", "long", "strided", "contiguous_format"), by the type that it
// stands for.
std::optional<int64_t> schema_enum_value(TypeKind type, std::string_view name);
// The other way round: the canonical name, or "" if the integer means nothing.
std::string_view schema_enum_name(TypeKind type, int64_t value);

}  // namespace tessera
