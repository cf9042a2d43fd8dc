// Types of programs as Python sees them.
#include "python/bindings/args.h"
#include "python/bindings/jit/methods.h"
#include "python/bindings/tensor_type.h"
#include "python/bindings/types.h"

namespace tessera::python {

using jit::K;
using jit::TensorFacts;
using jit::TypePtr;

namespace {

PyObject* string(const std::string& s) { return to_python_string(s).release(); }
TypePtr type(PyObject* o) { return boxed<TypePtr>(o); }
PyObject* type_text_of(PyObject* self) {
  return jit_guarded([&] { return string(boxed<TypePtr>(self)->annotation()); });
}
PyObject* type_annotation(PyObject* self, void*) {
  return jit_guarded([&] { return string(boxed<TypePtr>(self)->annotation()); });
}
PyObject* type_kind(PyObject* self, Given) {
  static constexpr const char* names[] = {
      "TensorType",   "IntType",       "FloatType",     "ComplexType", "NumberType",    "BoolType",  "StringType",
      "NoneType",     "DeviceObjType", "GeneratorType", "StorageType", "StreamObjType", "AnyType",   "VarType",
      "PyObjectType", "ListType",      "DictType",      "TupleType",   "OptionalType",  "UnionType", "FutureType",
      "RRefType",     "AwaitType",     "FunctionType",  "ClassType",   "InterfaceType", "EnumType"};
  return string(names[static_cast<size_t>(boxed<TypePtr>(self)->kind)]);
}
PyObject* type_name(PyObject* self, void*) {
  return jit_guarded([&] { return string(boxed<TypePtr>(self)->name); });
}
PyObject* type_fields(PyObject* self, void*) {
  return jit_guarded([&] {
    Ref list = Ref::steal(check(PyList_New(0)));
    for (const std::string& f : boxed<TypePtr>(self)->fields)
      check(PyList_Append(list.get(), to_python_string(f).get()));
    return list.release();
  });
}
PyObject* type_class(PyObject* self, void*) {
  return jit_guarded([&]() -> PyObject* {
    TypePtr t = boxed<TypePtr>(self);
    return t->def ? wrap_class(t->def) : none();
  });
}
PyObject* type_compare(PyObject* a, PyObject* b, int op) {
  if (!is_jit_type(b) || (op != Py_EQ && op != Py_NE)) Py_RETURN_NOTIMPLEMENTED;
  return to_python(same(boxed<TypePtr>(a), boxed<TypePtr>(b)) == (op == Py_EQ));
}
Py_hash_t type_hash(PyObject* self) {
  return static_cast<Py_hash_t>(std::hash<std::string>()(boxed<TypePtr>(self)->annotation()) >> 1);
}
PyGetSetDef g_type_getters[] = {{"annotation_str", type_annotation, nullptr, "As programs write it.", nullptr},
                                {"label", type_name, nullptr, "The name of a class or named tuple.", nullptr},
                                {"fields", type_fields, nullptr, "The fields of a named tuple.", nullptr},
                                {"class_", type_class, nullptr, "What a class is made of.", nullptr},
                                {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyObject* type_elements(PyObject* self, Given) {
  Ref list = Ref::steal(check(PyList_New(0)));
  for (TypePtr t : type(self)->elems) check(PyList_Append(list.get(), Ref::steal(wrap_type(t)).get()));
  return list.release();
}
PyObject* type_element(PyObject* self, Given) {
  TESSERA_CHECK(type(self)->elems.size() == 1, type(self)->annotation(), " has no element type");
  return wrap_type(type(self)->elem());
}
template <size_t I>
PyObject* dict_part(PyObject* self, Given) {
  TESSERA_CHECK(type(self)->is(K::kDict), type(self)->annotation(), " is no Dict");
  return wrap_type(type(self)->elem(I));
}
PyObject* type_text(PyObject* self, Given) { return string(type(self)->str()); }
PyObject* type_is_subtype(PyObject* self, Given a) { return to_python(is_subtype(type(self), type_arg(a[0]))); }
PyObject* type_is_interface(PyObject* self, Given) { return to_python(type(self)->is(K::kInterface)); }
PyObject* type_short_name(PyObject* self, Given) {
  const std::string& n = type(self)->name;
  return string(n.substr(n.rfind('.') + 1));
}
PyObject* type_qualified_name(PyObject* self, Given) { return string(type(self)->name); }
jit::ClassDef& class_of(PyObject* self) {
  TESSERA_CHECK(type(self)->def, type(self)->annotation(), " is no class");
  return *type(self)->def;
}
PyObject* type_method_names(PyObject* self, Given) {
  Ref list = Ref::steal(check(PyList_New(0)));
  for (const jit::Function* f : class_of(self).methods)
    check(PyList_Append(list.get(), to_python_string(f->name).get()));
  return list.release();
}
PyObject* type_method(PyObject* self, Given a) {
  jit::Function* f = class_of(self).method(text_arg(a[0]));
  return f ? wrap_function(f) : none();
}

// --- what is known of a tensor ---

TensorFacts facts_of(PyObject* self) {
  TESSERA_CHECK(type(self)->is(K::kTensor), type(self)->annotation(), " is no Tensor");
  return type(self)->facts ? *type(self)->facts : TensorFacts();
}
PyObject* numbers(const std::optional<std::vector<int64_t>>& v) {
  if (!v) return none();
  Ref list = Ref::steal(check(PyList_New(0)));
  for (int64_t x : *v) check(PyList_Append(list.get(), Ref::steal(PyLong_FromLongLong(x)).get()));
  return list.release();
}
PyObject* type_sizes(PyObject* self, Given) { return numbers(facts_of(self).sizes); }
PyObject* type_strides(PyObject* self, Given) { return numbers(facts_of(self).strides); }
PyObject* type_dim(PyObject* self, Given) {
  const TensorFacts f = facts_of(self);
  return f.sizes ? PyLong_FromSize_t(f.sizes->size()) : none();
}
PyObject* type_dtype(PyObject* self, Given) {
  const TensorFacts f = facts_of(self);
  return f.dtype ? wrap(*f.dtype) : none();
}
PyObject* type_scalar_type(PyObject* self, Given) {
  const TensorFacts f = facts_of(self);
  return f.dtype ? string(type_name_of(*f.dtype)) : none();
}
PyObject* type_device(PyObject* self, Given) {
  const TensorFacts f = facts_of(self);
  return f.device ? wrap(*f.device) : none();
}
PyObject* type_requires_grad(PyObject* self, Given) {
  const TensorFacts f = facts_of(self);
  return to_python(!f.requires_grad || *f.requires_grad);
}
PyObject* type_undefined(PyObject* self, Given) { return type(self)->facts ? to_python(false) : none(); }
PyObject* type_contiguous(PyObject* self, Given) {
  TensorFacts f = facts_of(self);
  TESSERA_CHECK(f.sizes, "the sizes of ", type(self)->str(), " are not known");
  f.strides.emplace(f.sizes->size());
  int64_t n = 1;
  for (size_t i = f.sizes->size(); i-- > 0; n *= std::max<int64_t>((*f.sizes)[i], 1)) (*f.strides)[i] = n;
  return wrap_type(tensor_with(std::move(f)));
}
PyObject* type_with_sizes(PyObject* self, Given a) {
  TensorFacts f = facts_of(self);
  f.strides.reset(), f.sizes.reset();
  if (a[0] != Py_None) {
    Ref fast = Ref::steal(check(PySequence_Fast(a[0], "expected a list of sizes")));
    f.sizes.emplace();
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(fast.get()); ++i)
      f.sizes->push_back(int_arg(PySequence_Fast_GET_ITEM(fast.get(), i)));
  }
  return wrap_type(tensor_with(std::move(f)));
}
PyObject* type_with_dtype(PyObject* self, Given a) {
  TensorFacts f = facts_of(self);
  if (!is_dtype(a[0])) throw TypeError(str_cat("expected a dtype, got ", Py_TYPE(a[0])->tp_name));
  f.dtype = unwrap_dtype(a[0]);
  return wrap_type(tensor_with(std::move(f)));
}
PyObject* type_with_device(PyObject* self, Given a) {
  TensorFacts f = facts_of(self);
  f.device = to_device(a[0]);
  return wrap_type(tensor_with(std::move(f)));
}

constexpr Method kTypeMethods[] = {
    {"kind", type_kind, "", "Its class: \"TensorType\", \"ListType\"."},
    {"str", type_text, "", "As graphs print it."},
    {"containedTypes", type_elements, "", "List of the types in it."},
    {"elements", type_elements, "", "List of the types of a tuple."},
    {"getElementType", type_element, "", "The type of a list's, optional's or future's element."},
    {"getKeyType", dict_part<0>, "", "The type of a dict's keys."},
    {"getValueType", dict_part<1>, "", "The type of a dict's values."},
    {"isSubtypeOf", type_is_subtype, "arg0", "Whether its values may stand where another type is asked for."},
    {"is_interface_type", type_is_interface, "", "Whether it is an interface."},
    {"name", type_short_name, "", "The class's name."},
    {"qualified_name", type_qualified_name, "", "The class's name, with what it lies in."},
    {"method_names", type_method_names, "", "List of the class's methods."},
    {"getMethodNames", type_method_names, "", "List of the interface's methods."},
    {"getMethod", type_method, "arg0", "A method of the interface."},
    {"sizes", type_sizes, "", "A tensor's sizes, or None where they are not known."},
    {"varyingSizes", type_sizes, "", "A tensor's sizes, or None where they are not known."},
    {"symbolic_sizes", type_sizes, "", "A tensor's sizes, or None where they are not known."},
    {"strides", type_strides, "", "A tensor's strides, or None where they are not known."},
    {"dim", type_dim, "", "A tensor's number of dimensions, or None."},
    {"dtype", type_dtype, "", "A tensor's dtype, or None."},
    {"scalarType", type_scalar_type, "", "The name of a tensor's dtype (\"Float\"), or None."},
    {"device", type_device, "", "A tensor's device, or None."},
    {"requires_grad", type_requires_grad, "", "Whether a tensor may require grad."},
    {"undefined", type_undefined, "", "False for a tensor that is there; None where that is not known."},
    {"contiguous", type_contiguous, "", "The type of a contiguous tensor of these sizes."},
    {"with_sizes", type_with_sizes, "arg0", "The type with sizes, or with None without them."},
    {"with_dtype", type_with_dtype, "arg0", "The type with a dtype."},
    {"with_device", type_with_device, "arg0", "The type with a device."}};

}  // namespace

PyTypeObject JitTypeType = [] {
  PyTypeObject t = {PyVarObject_HEAD_INIT(nullptr, 0)};
  t.tp_name = "tessera.Type";
  t.tp_basicsize = sizeof(Boxed<TypePtr>);
  t.tp_dealloc = [](PyObject* o) { Py_TYPE(o)->tp_free(o); };
  t.tp_flags = Py_TPFLAGS_DEFAULT;
  t.tp_getset = g_type_getters;
  return t;
}();
PyObject* wrap_type(TypePtr t) {
  PyObject* o = check(JitTypeType.tp_alloc(&JitTypeType, 0));
  boxed<TypePtr>(o) = t;
  return o;
}
void init_jit_types() {
  JitTypeType.tp_methods = method_defs<kTypeMethods>();
  JitTypeType.tp_str = JitTypeType.tp_repr = type_text_of;
  JitTypeType.tp_richcompare = type_compare;
  JitTypeType.tp_hash = type_hash;
}

PyObject* jit_make_type(PyObject*, PyObject* args) {
  return jit_guarded([&]() -> PyObject* {
    const char* kind;
    PyObject* elements;
    if (!PyArg_ParseTuple(args, "sO!", &kind, &PyTuple_Type, &elements)) throw ErrorAlreadySet();
    std::vector<TypePtr> e;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(elements); ++i) {
      if (!is_jit_type(PyTuple_GET_ITEM(elements, i))) throw TypeError("expected a type");
      e.push_back(boxed<TypePtr>(PyTuple_GET_ITEM(elements, i)));
    }
    static constexpr std::pair<const char*, K> simple[] = {{"Tensor", K::kTensor},   {"int", K::kInt},
                                                           {"float", K::kFloat},     {"complex", K::kComplex},
                                                           {"number", K::kNumber},   {"bool", K::kBool},
                                                           {"str", K::kStr},         {"None", K::kNone},
                                                           {"Device", K::kDevice},   {"Generator", K::kGenerator},
                                                           {"Any", K::kAny},         {"Stream", K::kStream},
                                                           {"PyObject", K::kPython}, {"Storage", K::kStorage}};
    for (const auto& [name, k] : simple)
      if (std::string_view(kind) == name) return wrap_type(jit::simple_type(k));
    static constexpr std::pair<const char*, K> nested[] = {{"List", K::kList},   {"Dict", K::kDict},
                                                           {"Tuple", K::kTuple}, {"Future", K::kFuture},
                                                           {"RRef", K::kRRef},   {"Await", K::kAwait}};
    for (const auto& [name, k] : nested)
      if (std::string_view(kind) == name) return wrap_type(jit::make_type(k, std::move(e)));
    if (const jit::ClassDef* d = jit_script_unit().find_class(kind)) return wrap_type(d->type);
    if (std::string_view(kind) == "Optional") return wrap_type(jit::optional_of(e.at(0)));
    if (std::string_view(kind) == "Union") return wrap_type(jit::union_of(std::move(e)));
    throw ValueError(str_cat("there is no type ", kind));
  });
}

// The type of a tensor, with all that is known of it.
PyObject* jit_type_of_tensor(PyObject*, PyObject* o) {
  return jit_guarded([&] {
    if (!is_tensor(o)) throw TypeError(str_cat("expected a Tensor, got ", Py_TYPE(o)->tp_name));
    return wrap_type(jit::tensor_like(unwrap(o)));
  });
}

}  // namespace tessera::python
