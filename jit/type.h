// The types of TorchScript. Equal types of one unit are one object, which lives as long as the unit (those without a
// class: for ever).
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "jit/source/ast.h"
#include "tensor/dispatch/schema.h"
#include "tensor/dispatch/value.h"

namespace tessera::jit {

enum class K : uint8_t {
  kTensor,
  kInt,
  kFloat,
  kComplex,
  kNumber,  // int, float or complex: Scalar
  kBool,
  kStr,
  kNone,
  kDevice,
  kGenerator,
  kStorage,
  kStream,
  kAny,
  kVariable,  // of a schema: name
  kPython,    // what only the host knows
  kList,      // elements: one
  kDict,      // two
  kTuple,     // any number; of a named one: name, fields
  kOptional,  // one
  kUnion,     // two or more
  kFuture,    // one
  kRRef,      // one
  kAwait,     // one
  kFunction,  // no value at run time
  kClass,     // of a program, or a module's: definition
  kInterface,
  kEnum,
};

struct Type;
struct ClassDef;
struct Unit;
using TypePtr = const Type*;

// What a host knows of one tensor besides that it is one. Types with and without it are the same to programs.
struct TensorFacts {
  std::optional<DType> dtype;
  std::optional<Device> device;
  std::optional<std::vector<int64_t>> sizes, strides;
  std::optional<bool> requires_grad;
};

struct Type {
  K kind;
  bool inferred = false;  // a tensor because nobody said otherwise
  std::vector<TypePtr> elems;
  std::string name;  // of a class, interface, enum, named tuple: qualified
  std::vector<std::string> fields;
  ClassDef* def = nullptr;
  Unit* unit = nullptr;  // the one that a class in it belongs to
  std::shared_ptr<const TensorFacts> facts = nullptr;

  bool is(K k) const { return kind == k; }
  TypePtr elem(size_t i = 0) const { return elems[i]; }
  bool is_number() const { return kind >= K::kInt && kind <= K::kNumber; }
  bool is_named() const { return kind == K::kClass || kind == K::kInterface || kind == K::kEnum || !name.empty(); }
  bool is_module() const;
  std::string str() const;         // as graphs print it: "int[]", "Dict(str, Tensor)"
  std::string annotation() const;  // as programs write it: "List[int]"
  std::string described() const;   // as messages do: "Tensor (inferred)", "number"
};

TypePtr simple_type(K kind);
TypePtr inferred_tensor();
inline TypePtr tensor_type() { return simple_type(K::kTensor); }
inline TypePtr int_type() { return simple_type(K::kInt); }
inline TypePtr float_type() { return simple_type(K::kFloat); }
inline TypePtr bool_type() { return simple_type(K::kBool); }
inline TypePtr str_type() { return simple_type(K::kStr); }
inline TypePtr none_type() { return simple_type(K::kNone); }
inline TypePtr any_type() { return simple_type(K::kAny); }
TypePtr tensor_with(TensorFacts facts);
TypePtr tensor_like(const Tensor& t);                   // with all that is known
TypePtr make_type(K kind, std::vector<TypePtr> elems);  // kList, kDict, kTuple, kFuture ...
inline TypePtr list_of(TypePtr t) { return make_type(K::kList, {t}); }
inline TypePtr dict_of(TypePtr k, TypePtr v) { return make_type(K::kDict, {k, v}); }
inline TypePtr tuple_of(std::vector<TypePtr> e) { return make_type(K::kTuple, std::move(e)); }
TypePtr optional_of(TypePtr t);                // Optional[Optional[T]] is Optional[T], Optional[None] is None
TypePtr union_of(std::vector<TypePtr> types);  // normalised: flat, without members that others contain
TypePtr named_tuple(Unit& unit, const std::string& name, std::vector<std::string> fields, std::vector<TypePtr> types);
// Of a schema (SymInt is int, ScalarType is int ...).
TypePtr from_schema(const SchemaType& t);

bool same(TypePtr a, TypePtr b);
// Whether a value of type a may stand where b is asked for.
bool is_subtype(TypePtr a, TypePtr b, std::string* why = nullptr);
// The type that both branches of a program agree on, or null; `to_union`: a union rather than null.
TypePtr unify(TypePtr a, TypePtr b, bool to_union = false);
// What is left of a type that was found to be (not to be) one of `types`; null: nothing.
TypePtr narrowed(TypePtr t, const std::vector<TypePtr>& types, bool is_one);
bool accepts_none(TypePtr t);
// The members of an Optional or a Union, or the type itself.
std::vector<TypePtr> members(TypePtr t);

// Types that stand for the variables of a schema.
using TypeVars = std::vector<std::pair<std::string, TypePtr>>;
// Binds variables of `formal` so that `actual` fits; false where it can't.
bool match_variables(TypePtr formal, TypePtr actual, TypeVars& vars);
TypePtr substitute(TypePtr t, const TypeVars& vars);
bool has_variables(TypePtr t);

// --- classes ---

struct Function;

struct Attribute {
  std::string name;
  TypePtr type;
  bool is_parameter = false, is_buffer = false;
};
struct ConstantAttribute {
  std::string name;
  Value value;
  TypePtr type;
};
struct Property {
  std::string name;
  Function *getter, *setter;
};

enum class ModuleKind : uint8_t { kPlain, kList, kSequential, kDict, kParameterList, kParameterDict };

// A class, module, interface or enum.
struct ClassDef {
  std::string name;  // "__torch__.mod.Class"
  TypePtr type = nullptr;
  Unit* unit = nullptr;
  bool is_module = false;
  bool is_exception = false;
  bool is_native = false;  // C++ registered it (classes/custom_class.h): no attributes, no source
  ModuleKind module_kind = ModuleKind::kPlain;
  std::vector<Attribute> attributes;  // an instance's slots
  std::vector<ConstantAttribute> constants;
  std::vector<Function*> methods;  // of an interface: declarations
  std::vector<Function*> statics;
  std::vector<Property> properties;
  std::vector<ConstantAttribute> items;     // of an enum, in order
  std::vector<Function*> hooks, pre_hooks;  // of a module's forward
  IntrusivePtr<RefCounted> host;            // what the host knows it by
  std::string doc;
  bool building = false;  // __init__ is compiled: attributes may be added

  int slot(std::string_view attribute) const;  // or -1
  Function* method(std::string_view name) const;
  const Attribute* attribute(std::string_view name) const;
  const ConstantAttribute* constant(std::string_view name) const;
  const Property* property(std::string_view name) const;
  // Their functions are methods as well, by the names that archives call them by.
  void add_property(const std::string& name, Function* getter);
  void add_setter(const std::string& name, Function* setter);
};

// What holds types, classes and functions together: one for all that a program scripts, one for each archive. Modules
// and functions that are in use hold it.
struct Unit : RefCounted {
  Unit() = default;
  ~Unit() override;
  ClassDef* new_class(K kind, const std::string& name);
  ClassDef* find_class(std::string_view name) const;
  Function* find_function(std::string_view name) const;
  Function* add_function(std::unique_ptr<Function> f);
  Source& add_source(std::string text, std::string file, int line);
  std::string unique_name(const std::string& wanted);  // "__torch__.___torch_mangle_3.Net"
  const std::vector<std::unique_ptr<Function>>& functions() const { return functions_; }

  std::unordered_map<std::string, std::unique_ptr<Type>> types;

 private:
  std::vector<std::unique_ptr<ClassDef>> classes_;
  std::vector<std::unique_ptr<Function>> functions_;
  std::vector<std::unique_ptr<Source>> sources_;
  std::unordered_map<std::string, ClassDef*> by_name_;
  std::unordered_map<std::string, Function*> functions_by_name_;
  int mangled_ = 0;
};
// The one of types without classes and of operators written in TorchScript.
Unit& common_unit();

}  // namespace tessera::jit
