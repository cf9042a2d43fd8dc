// Operators as programs see them: those of the registries, those of this library on numbers, strings, lists and dicts,
// by name and with types.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "jit/object.h"
#include "jit/type.h"
#include "tensor/dispatch/registry.h"

namespace tessera::jit {

struct Operator;
// An operator of this library: results go to rets.
using Builtin = void (*)(const Value* args, size_t n, Value* rets, const Operator& op);

struct OpArg {
  std::string name;
  TypePtr type;
  Value default_value;
  bool has_default = false, keyword_only = false, is_write = false;
  int64_t size = -1;              // of int[2]
  TypeKind raw = TypeKind::kAny;  // what the registry's side wants: ScalarType, Layout ... or the element of a list
  bool raw_list = false, raw_optional = false;
};

struct Operator {
  std::string name, overload;  // "aten::add", "Tensor"
  std::vector<OpArg> args;
  std::vector<TypePtr> rets;
  const OpInfo* info = nullptr;  // of the registry's
  Builtin builtin = nullptr;
  bool vararg = false;
  bool pure = true;     // no effect, nothing random, no alias that could be written
  bool writes = false;  // an argument, or nobody knows: operators that are defined at run time
  std::string schema;   // text
  int order = 0;

  std::string full_name() const { return overload.empty() ? name : name + "." + overload; }
};

// What programs may call besides the builtins; before the first compilation (a program links the registries that it
// needs).
void set_operators(OpInfoList all);
// The overloads of "aten::add" in the order in which they are tried.
const std::vector<const Operator*>& operators_named(const std::string& name);
// By the whole name, "aten::add.Tensor", or null.
const Operator* find_operator(std::string_view full_name);
std::vector<std::string> operator_names();

// Calls an operator with values as this library has them (lists as objects, dtypes as ints); its results come back so.
void call_operator(const Operator& op, const Value* args, Value* rets);

struct BuiltinEntry {
  const char* schema;
  Builtin function;
  bool pure = true;
};
using BuiltinTable = std::pair<const BuiltinEntry*, size_t>;
BuiltinTable number_builtins();
BuiltinTable container_builtins();
BuiltinTable tensor_builtins();
BuiltinTable string_builtins();
// Operators written in TorchScript.
// An operator that is TorchScript itself: "aten::lstm", or what archives hold instead of one that only this library
// has: kPortable and the operator's name. Null: none.
Function* library_function(std::string_view name);
inline constexpr char kPortable[] = "__torch__.tessera_ops.";

}  // namespace tessera::jit
