// Classes that C++ programs register for scripts: a script sees the class and its methods, C++ the object itself. A
// value of a script is an instance that holds the object. Names are qualified: "__torch__.torch.classes.ns.Name".
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <typeinfo>
#include <vector>

#include "tensor/dispatch/value.h"

namespace tessera::jit {

struct ClassDef;

namespace custom {

struct Parameter {
  std::string name, type;  // of a schema: "int[]", "Dict(str, Tensor)"
  bool has_default = false;
  Value default_value;
};
enum class MethodKind : uint8_t { kMethod, kStatic, kGetter, kSetter };
// Gets as many arguments as it has parameters; the first one is the instance, but for static methods.
using Call = std::function<Value(const Value* args, size_t n)>;
struct Method {
  std::string name;
  MethodKind kind = MethodKind::kMethod;
  std::vector<Parameter> params;
  std::string result;  // a type of a schema, "NoneType" for none
  Call call;
  std::string doc;
};

// A class whose objects are of a C++ type. Error: the names are no identifiers, or one of the two is registered.
ClassDef& define(const std::string& ns, const std::string& name, const std::type_info& type, std::string doc = {});
// One whose objects are the host's: HostObjects, which `hold` gives to instances.
ClassDef& define(const std::string& ns, const std::string& name);
// Error: a member of that name is there, or a type is none of schemas. A setter follows the getter of its name.
void add(ClassDef& def, Method method);
// The name of the class of a C++ type. Error: it is not registered.
const std::string& name_of(const std::type_info& type);
ClassDef* find(std::string_view qualified);  // null: no such class
// All of them, in the order of their names.
std::vector<std::string> names();

// An instance that holds an object of a registered class: by what the object is, or by `known`. Other objects stay as
// they are.
Value wrap(IntrusivePtr<RefCounted> object, const std::type_info* known = nullptr);
// What an instance of a registered class holds (null before its __init__); other objects themselves.
RefCounted* held(RefCounted* object);
// Gives an instance its object: what __init__ and __setstate__ do.
void hold(const Value& instance, IntrusivePtr<RefCounted> object);

}  // namespace custom
}  // namespace tessera::jit
