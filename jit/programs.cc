#include "jit/programs.h"

#include <algorithm>
#include <map>

#include "jit/freeze.h"
#include "jit/interpreter.h"
#include "jit/object.h"
#include "jit/source/sugar.h"

namespace tessera::jit::programs {
namespace {

// What "torch.NAME" and "torch.ops.NS.NAME" mean, and the functions that were compiled together.
struct SourceResolver final : Resolver {
  const std::map<std::string, Function*>* functions = nullptr;  // null once their owner is gone

  bool resolve(const std::string& name, const Range&, Sugar* out) override {
    if (functions)
      if (const auto it = functions->find(name); it != functions->end())
        return *out = Sugar::of_function(it->second), true;
    if (name == "torch" || name == "torch.ops") return *out = Sugar(Sugar::kNamespace, name), true;
    if (name == "annotate") return *out = Sugar(Sugar::kSpecial, name), true;
    return name.starts_with("torch.") && of_torch(name.substr(6), out);
  }

 private:
  static bool of_torch(const std::string& name, Sugar* out) {
    if (name.starts_with("ops.")) {
      const size_t dot = name.find('.', 4);
      *out = dot == std::string::npos ? Sugar(Sugar::kNamespace, "torch." + name)
                                      : Sugar(Sugar::kOp, str_cat(name.substr(4, dot - 4), "::", name.substr(dot + 1)));
      return true;
    }
    for (std::string_view special : {"device", "wait", "fork", "annotate", "Tensor"})
      if (name == special) return *out = Sugar(Sugar::kSpecial, name), true;
    if (name == "inf" || name == "nan" || name == "pi") {
      const double v = name == "inf" ? __builtin_inf() : name == "nan" ? __builtin_nan("") : 3.14159265358979323846;
      return *out = Sugar::of_constant(Value::of(v), float_type()), true;
    }
    for (const TypeKind kind : {TypeKind::kScalarType, TypeKind::kLayout, TypeKind::kMemoryFormat})
      if (const auto number = schema_enum_value(kind, name))
        return *out = Sugar::of_constant(Value::of(int64_t{*number}), int_type()), true;
    *out = Sugar(Sugar::kOp, "aten::" + name);
    return true;
  }
};

struct Functions final : RefCounted {
  IntrusivePtr<Unit> unit = make_intrusive<Unit>();
  std::map<std::string, Function*> by_name;
  IntrusivePtr<SourceResolver> resolver = make_intrusive<SourceResolver>();
  Functions() { resolver->functions = &by_name; }
  ~Functions() override { resolver->functions = nullptr; }
};
Functions& functions_of(RefCounted& held) {
  auto* f = dynamic_cast<Functions*>(&held);
  TESSERA_CHECK_TYPE(f, "expected functions that jit::programs::compile() gave");
  return *f;
}
Function& function_of(RefCounted& held, const std::string& name) {
  const auto& all = functions_of(held).by_name;
  const auto it = all.find(name);
  TESSERA_CHECK(it != all.end(), "there is no function '", name, "' in this compilation unit");
  return *it->second;
}

Instance& module_of(const Value& v) {
  Object* o = v.tag() == Value::Tag::kObject ? object_of(v) : nullptr;
  TESSERA_CHECK_TYPE(o && o->kind == ObjectKind::kInstance && static_cast<Instance*>(o)->def->is_module,
                     "expected a module");
  return *static_cast<Instance*>(o);
}
Function& method_of(const Value& module, const std::string& name) {
  Function* f = module_of(module).def->method(name);
  TESSERA_CHECK(f, "Method '", name, "' is not defined.");
  return *f;
}

std::vector<const Ast*> functions_in(Unit& unit, const std::string& source) {
  std::vector<const Ast*> found;
  for (const Ast* a : parse_source(unit.add_source(source, "<string>", 1))->kids) {
    TESSERA_CHECK(a->is(A::kDef), "expected functions (def name(...):) in the source, and nothing else");
    found.push_back(a);
  }
  TESSERA_CHECK(!found.empty(), "expected a function (def name(...):) in the source");
  return found;
}
std::string schema_text(Function& f) {
  const std::lock_guard lock(compile_lock());
  f.ensure_graph();
  return f.schema();
}
std::string graph_text(Function& f) {
  const std::lock_guard lock(compile_lock());
  return f.ensure_graph().str();
}

}  // namespace

IntrusivePtr<RefCounted> compile(const std::string& source) {
  auto made = make_intrusive<Functions>();
  add(*made, source);
  return made;
}
void add(RefCounted& held, const std::string& source) {
  Functions& to = functions_of(held);
  const std::lock_guard lock(compile_lock());
  const std::map<std::string, Function*> before = to.by_name;
  try {
    std::vector<Function*> made;
    for (const Ast* a : functions_in(*to.unit, source)) {
      TESSERA_CHECK(!to.by_name.contains(a->text), "the function '", a->text, "' is defined already");
      made.push_back(define(*to.unit, *a, to.unit->unique_name("__torch__." + a->text), to.resolver));
      to.by_name[a->text] = made.back();
    }
    for (Function* f : made) f->ensure_graph();
  } catch (...) {
    to.by_name = before;
    throw;
  }
}
std::vector<std::string> function_names(const RefCounted& held) {
  std::vector<std::string> names;
  for (const auto& [name, f] : functions_of(const_cast<RefCounted&>(held)).by_name) names.push_back(name);
  return names;
}
Value call_function(RefCounted& held, const std::string& name, std::vector<Value> args, const Named& named) {
  return call(function_of(held, name), std::move(args), named);
}
std::string function_schema(RefCounted& held, const std::string& name) { return schema_text(function_of(held, name)); }
std::string function_graph(RefCounted& held, const std::string& name) { return graph_text(function_of(held, name)); }

Value new_module(const std::string& class_name) {
  TESSERA_CHECK(!class_name.empty(), "the class of a module needs a name");
  auto unit = make_intrusive<Unit>();
  ClassDef* d =
      unit->new_class(K::kClass, class_name.starts_with("__torch__.") ? class_name : "__torch__." + class_name);
  d->is_module = true;
  d->attributes.push_back({"training", bool_type(), false, false});
  Value v = make_value<Instance>(d);
  as<Instance>(v).slots[0] = Value::of(true);
  return v;
}
void add_member(const Value& module, const std::string& name, DataArchive::Role role, Value value,
                const std::string& type) {
  Instance& m = module_of(module);
  ClassDef& d = *m.def;
  TESSERA_CHECK(!d.attribute(name) && !d.method(name), "attribute '", name, "' already exists in ", d.name);
  TESSERA_CHECK_TYPE(role == DataArchive::Role::kAttribute || value.is_tensor() || value.is_none(), "cannot register '",
                     name, "' as a parameter or buffer: it is a ", type_of(value)->annotation(), ", not a tensor");
  const std::lock_guard lock(compile_lock());
  TypePtr t = value.is_tensor() || role != DataArchive::Role::kAttribute ? tensor_type() : type_of(value);
  if (!type.empty()) {
    SourceResolver names;
    t = type_of_annotation(*parse_expression(d.unit->add_source(type, "<type>", 1)), &names, *d.unit);
  }
  TESSERA_CHECK_TYPE(t && is_instance(value, t), "the attribute '", name, "' is of type ", t ? t->annotation() : type,
                     ", but the value is of type ", type_of(value)->annotation());
  d.attributes.push_back({name, t, role == DataArchive::Role::kParameter, role == DataArchive::Role::kBuffer});
  m.slots.push_back(std::move(value));
}
void add_methods(const Value& module, const std::string& source) {
  Instance& m = module_of(module);
  ClassDef& d = *m.def;
  const std::lock_guard lock(compile_lock());
  const size_t before = d.methods.size();
  try {
    auto resolver = make_intrusive<SourceResolver>();
    for (const Ast* a : functions_in(*d.unit, source)) {
      TESSERA_CHECK(!d.method(a->text) && !d.attribute(a->text), "method '", a->text, "' already defined in ", d.name);
      d.methods.push_back(define(*d.unit, *a, str_cat(d.name, ".", a->text), resolver, &d));
    }
    for (size_t i = before; i < d.methods.size(); ++i) d.methods[i]->ensure_graph();
  } catch (...) {
    d.methods.resize(before);
    throw;
  }
}
std::string method_schema(const Value& module, const std::string& method) {
  return schema_text(method_of(module, method));
}
std::string method_graph(const Value& module, const std::string& method) {
  return graph_text(method_of(module, method));
}
Value frozen(const Value& module, const std::vector<std::string>& kept) {
  module_of(module);
  const std::lock_guard lock(compile_lock());
  return freeze(module, kept);
}

}  // namespace tessera::jit::programs
