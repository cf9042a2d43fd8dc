#include "jit/classes/custom_class.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <mutex>
#include <typeindex>

#include "jit/function.h"

namespace tessera::jit::custom {
namespace {

// A unit of its own, with a lock of its own: libraries that register classes are loaded while others compile.
struct Classes {
  std::mutex lock;
  Unit unit;
  std::map<std::string, ClassDef*, std::less<>> by_name;
  std::map<std::type_index, ClassDef*> by_type;
};
Classes& classes() {
  static auto* all = new Classes;
  return *all;
}
ClassDef* find(const std::type_info& type) {
  const std::lock_guard lock(classes().lock);
  const auto it = classes().by_type.find(type);
  return it == classes().by_type.end() ? nullptr : it->second;
}

void check_identifier(const std::string& name, const char* what) {
  const auto letter = [](char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; };
  const auto sign = [&](char c) { return letter(c) || std::isdigit(static_cast<unsigned char>(c)); };
  TESSERA_CHECK(!name.empty() && letter(name[0]) && std::all_of(name.begin(), name.end(), sign), what, " '", name,
                "' of a registered class is no identifier: letters, digits and underscores, no digit first");
}

// The lock is held.
ClassDef& defined(const std::string& ns, const std::string& name) {
  check_identifier(ns, "the namespace");
  check_identifier(name, "the name");
  const std::string qualified = "__torch__.torch.classes." + ns + "." + name;
  TESSERA_CHECK(!classes().by_name.contains(qualified), "the class ", ns, "::", name,
                " is registered already: load the library that registers it once");
  ClassDef* def = classes().unit.new_class(K::kClass, qualified);
  def->is_native = true;
  classes().by_name[qualified] = def;
  return *def;
}

struct Native final : HostObject {
  Call function;
  std::string name;
  Native(Call f, std::string n) : function(std::move(f)), name(std::move(n)) {}
  std::string describe() const override { return name; }
  bool attribute(const std::string&, const Range&, Sugar*) override { return false; }
  Value call(const Value* args, size_t n, TypePtr) override { return function(args, n); }
};

Instance* instance_of(RefCounted* object) {
  auto* i = dynamic_cast<Instance*>(object);
  return i && i->def->is_native ? i : nullptr;
}

}  // namespace

ClassDef& define(const std::string& ns, const std::string& name, const std::type_info& type, std::string doc) {
  const std::lock_guard lock(classes().lock);
  TESSERA_CHECK(!classes().by_type.contains(type), "the C++ type of ", ns, "::", name, " is registered already as ",
                classes().by_type.at(type)->name);
  ClassDef& def = defined(ns, name);
  def.doc = std::move(doc);
  classes().by_type[type] = &def;
  return def;
}
ClassDef& define(const std::string& ns, const std::string& name) {
  const std::lock_guard lock(classes().lock);
  return defined(ns, name);
}

void add(ClassDef& def, Method method) {
  const bool accessor = method.kind == MethodKind::kGetter || method.kind == MethodKind::kSetter;
  TESSERA_CHECK(accessor || !def.method(method.name), def.name, " has a method '", method.name, "' already");
  auto f = std::make_unique<Function>();
  f->name = method.name;
  f->qualified = def.name + "." + method.name;
  f->owner = &def;
  f->is_static = method.kind == MethodKind::kStatic;
  f->doc = std::move(method.doc);
  for (Parameter& p : method.params) {
    Param x;
    x.name = std::move(p.name);
    x.type = from_schema(parse_schema_type(p.type));
    x.has_default = p.has_default;
    x.default_value = std::move(p.default_value);
    f->args.push_back(std::move(x));
  }
  f->ret = method.result == "NoneType" ? none_type() : from_schema(parse_schema_type(method.result));
  f->ret_annotated = true;
  f->host = make_intrusive<Native>(std::move(method.call), f->qualified);
  f->is_native = true;
  const std::lock_guard lock(classes().lock);
  Function* made = classes().unit.add_function(std::move(f));
  switch (method.kind) {
    case MethodKind::kMethod:
      def.methods.push_back(made);
      break;
    case MethodKind::kStatic:
      def.statics.push_back(made);
      break;
    case MethodKind::kGetter:
      TESSERA_CHECK(!def.property(method.name), def.name, " has a property '", method.name, "' already");
      def.properties.push_back({method.name, made, nullptr});
      break;
    case MethodKind::kSetter:
      TESSERA_CHECK(!def.properties.empty() && def.properties.back().name == method.name, "the setter of '",
                    method.name, "' has no getter");
      def.properties.back().setter = made;
  }
}

const std::string& name_of(const std::type_info& type) {
  const ClassDef* def = find(type);
  TESSERA_CHECK(def, "the C++ type ", type.name(),
                " is no registered class: register it by torch::class_ before an operator or a method that uses it");
  return def->name;
}
ClassDef* find(std::string_view qualified) {
  const std::lock_guard lock(classes().lock);
  const auto it = classes().by_name.find(qualified);
  return it == classes().by_name.end() ? nullptr : it->second;
}
std::vector<std::string> names() {
  const std::lock_guard lock(classes().lock);
  std::vector<std::string> all;
  for (const auto& [name, def] : classes().by_name) all.push_back(name);
  return all;
}

Value wrap(IntrusivePtr<RefCounted> object, const std::type_info* known) {
  if (!object) return Value();
  const RefCounted& o = *object;
  ClassDef* def = find(typeid(o));
  if (!def && known) def = find(*known);
  if (!def) return Value::object(std::move(object));
  Value v = make_value<Instance>(def);
  hold(v, std::move(object));
  return v;
}
RefCounted* held(RefCounted* object) {
  const Instance* i = instance_of(object);
  if (!i) return object;
  return i->slots.empty() ? nullptr : i->slots[0].object();
}
void hold(const Value& instance, IntrusivePtr<RefCounted> object) {
  Instance* i = instance_of(instance.object());
  TESSERA_CHECK(i, "expected an instance of a registered class");
  i->slots.resize(1);
  i->slots[0] = Value::object(std::move(object));
}

}  // namespace tessera::jit::custom
