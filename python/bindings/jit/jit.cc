// The module tessera._C._jit.
#include "python/bindings/jit/jit.h"

#include "jit/classes/custom_class.h"
#include "jit/operator.h"
#include "jit/passes.h"
#include "jit/print.h"
#include "jit/tracer.h"
#include "python/bindings/args.h"
#include "python/bindings/calls.h"
#include "python/bindings/errors.h"
#include "python/bindings/jit/methods.h"
#include "python/bindings/jit/traced.h"
#include "python/bindings/operators.h"
#include "python/bindings/tensor_type.h"

namespace tessera::python {

using jit::Function;
using jit::K;
using jit::Sugar;
using jit::TypePtr;

namespace {

jit::Unit& script_unit() { return jit_script_unit(); }
// One number stands for a list of known length (BroadcastingList2).
bool argument(PyObject* o, const jit::Param& p, Value* out) {
  if (jit_from_python(o, p.type, out)) return true;
  TypePtr list = p.type->is(K::kOptional) ? p.type->elem() : p.type;
  Value one;
  if (p.size < 1 || !list->is(K::kList) || !jit_from_python(o, list->elem(), &one)) return false;
  *out = jit::make_value<jit::List>(list->elem(), std::vector<Value>(static_cast<size_t>(p.size), one));
  return true;
}
PyObject* call_function(PyObject* self, PyObject* const* args, size_t nargsf, PyObject* kwnames);

std::string text_of(PyObject* o) { return from_python_string(o); }

// --- what the host knows ---

Ref call_python(PyObject* f, PyObject* a, PyObject* b = nullptr) {
  Ref r = Ref::steal(PyObject_CallFunctionObjArgs(f, a, b, nullptr));
  if (!r) throw PythonError();
  return r;
}

struct PyHost final : jit::HostObject {
  PyObject* object;
  explicit PyHost(PyObject* o) : object(Py_NewRef(o)) {}
  ~PyHost() override {
    with_python([this] { Py_DECREF(object); });
  }
  std::string describe() const override {
    GilAcquire gil;
    Ref f = Ref::steal(jit_host("describe"));
    return text_of(call_python(f.get(), object).get());
  }
  bool attribute(const std::string& name, const jit::Range&, Sugar* out) override {
    GilAcquire gil;
    Ref f = Ref::steal(jit_host("attribute"));
    Ref n = to_python_string(name);
    return sugar_from_python(call_python(f.get(), object, n.get()).get(), out);
  }
  Value call(const Value* args, size_t n, TypePtr result) override {
    GilAcquire gil;
    try {
      Ref list = Ref::steal(check(PyTuple_New(static_cast<Py_ssize_t>(n))));
      for (size_t i = 0; i < n; ++i)
        PyTuple_SET_ITEM(list.get(), static_cast<Py_ssize_t>(i), check(jit_to_python(args[i])));
      Ref r = Ref::steal(check(PyObject_CallObject(object, list.get())));
      Value v;
      TESSERA_CHECK(jit_from_python(r.get(), result, &v), "a Python function returned ", Py_TYPE(r.get())->tp_name,
                    " where its annotation says ", result->annotation());
      return v;
    } catch (const ErrorAlreadySet&) { throw PythonError(); }
  }
};

// Names by a Python function: name -> (kind, ...) or None.
struct PyResolver final : jit::Resolver {
  PyObject* function;
  PyObject* member;
  PyResolver(PyObject* f, PyObject* m) : function(Py_NewRef(f)), member(Py_NewRef(m)) {}
  ~PyResolver() override {
    with_python([this] {
      Py_DECREF(function);
      Py_DECREF(member);
    });
  }
  bool resolve(const std::string& name, const jit::Range&, Sugar* out) override {
    GilAcquire gil;
    Ref n = to_python_string(name);
    return sugar_from_python(call_python(function, n.get()).get(), out);
  }
  bool add_member(jit::ClassDef& def, const std::string& name, const jit::Range&, Sugar* out) override {
    if (!def.host || member == Py_None) return false;
    GilAcquire gil;
    Ref n = to_python_string(name);
    Ref told = call_python(member, static_cast<PyHost&>(*def.host).object, n.get());
    return told.get() == Py_True || sugar_from_python(told.get(), out);
  }
};

}  // namespace

PyObject* python_of_host(const jit::HostObject& host) { return static_cast<const PyHost&>(host).object; }

jit::Unit& jit_script_unit() {
  static auto* u = new jit::Unit;
  return *u;
}

bool sugar_from_python(PyObject* told, Sugar* out) {
  if (told == Py_None) return false;
  if (!PyTuple_Check(told) || PyTuple_GET_SIZE(told) < 2) throw TypeError("the host described a name in a wrong way");
  const std::string kind = text_of(PyTuple_GET_ITEM(told, 0));
  PyObject* what = PyTuple_GET_ITEM(told, 1);
  if (kind == "op")
    *out = Sugar(Sugar::kOp, text_of(what));
  else if (kind == "special")
    *out = Sugar(Sugar::kSpecial, text_of(what));
  else if (kind == "exception")
    *out = Sugar(Sugar::kException, text_of(what));
  else if (kind == "function")
    *out = Sugar::of_function(boxed<PyJitFunction>(what).function);
  else if (kind == "type")
    *out = Sugar::of_type(boxed<TypePtr>(what));
  else if (kind == "builtin")
    return jit::builtin_name(text_of(what), out);
  else if (kind == "error")
    *out = Sugar(Sugar::kError, text_of(what));
  else if (kind == "overloads") {
    *out = Sugar(Sugar::kOverloads, "");
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(what); ++i)
      out->functions.push_back(boxed<PyJitFunction>(PyTuple_GET_ITEM(what, i)).function);
  } else if (kind == "constant") {
    TypePtr t = boxed<TypePtr>(PyTuple_GET_ITEM(told, 2));
    Value v;
    TESSERA_CHECK(jit_from_python(what, t, &v), "a constant of type ", t->annotation(), " could not be converted");
    *out = Sugar::of_constant(std::move(v), t);
  } else {
    *out = Sugar(Sugar::kHost, "");
    out->host = make_intrusive<PyHost>(what);
  }
  return true;
}

void translate_jit_exception() {
  const auto set = [](const char* name, const char* what) {
    Ref cls = Ref::steal(PyObject_GetAttrString(Ref::steal(PyImport_ImportModule("tessera.jit._host")).get(), name));
    if (cls) PyErr_SetString(cls.get(), what);
  };
  try {
    throw;
  } catch (const jit::RunError& e) {
    if (e.raised()) return set("Error", e.what());
    PyErr_SetString(PyExc_RuntimeError, e.what());
  } catch (const jit::UnsupportedError& e) { set("UnsupportedNodeError", e.what()); } catch (...) {
    translate_current_exception();
  }
}

// --- objects ---

namespace {

template <class T>
void dealloc(PyObject* self) {
  boxed<T>(self).~T();
  Py_TYPE(self)->tp_free(self);
}
template <class T, class... A>
PyObject* box_new(PyTypeObject& type, A&&... a) {
  PyObject* o = check(type.tp_alloc(&type, 0));
  new (&boxed<T>(o)) T(std::forward<A>(a)...);
  return o;
}
PyObject* string(const std::string& s) { return to_python_string(s).release(); }

// Functions.
using F = PyJitFunction;
Function& fn(PyObject* o) { return *boxed<F>(o).function; }
PyObject* function_name(PyObject* self, void*) {
  return jit_guarded([&] { return string(fn(self).name); });
}
PyObject* function_qualified(PyObject* self, void*) {
  return jit_guarded([&] { return string(fn(self).qualified); });
}
PyObject* function_schema(PyObject* self, void*) {
  return jit_guarded([&] {
    CompileLock lock;
    fn(self).ensure_schema();
    return string(fn(self).schema());
  });
}
PyObject* function_arguments(PyObject* self, void*) {
  return jit_guarded([&] {
    CompileLock lock;
    fn(self).ensure_schema();
    Ref list = Ref::steal(check(PyList_New(0)));
    for (const jit::Param& p : fn(self).args) {
      Ref type = Ref::steal(wrap_type(p.type));
      Ref entry =
          Ref::steal(check(Py_BuildValue("(sOO)", p.name.c_str(), type.get(), p.has_default ? Py_True : Py_False)));
      check(PyList_Append(list.get(), entry.get()));
    }
    return list.release();
  });
}
PyObject* function_result(PyObject* self, void*) {
  return jit_guarded([&] {
    CompileLock lock;
    fn(self).ensure_schema();
    return wrap_type(fn(self).ret);
  });
}
PyObject* function_graph(PyObject* self, void*) {
  return jit_guarded([&] {
    CompileLock lock;
    return wrap_graph(std::shared_ptr<jit::Graph>(copy_graph(fn(self).ensure_graph())));
  });
}
PyObject* function_inlined(PyObject* self, void*) {
  return jit_guarded([&] {
    CompileLock lock;
    std::shared_ptr<jit::Graph> g = copy_graph(fn(self).ensure_graph());
    inline_calls(*g);
    remove_dead_code(*g);
    return wrap_graph(std::move(g));
  });
}
PyObject* function_optimized(PyObject* self, void*) {
  return jit_guarded([&] {
    CompileLock lock;
    std::shared_ptr<jit::Graph> g = copy_graph(fn(self).ensure_graph());
    optimize(*g);
    return wrap_graph(std::move(g));
  });
}
PyObject* function_compile(PyObject* self, PyObject*) {
  return jit_guarded([&] {
    CompileLock lock;
    fn(self).ensure_graph();
    return none();
  });
}
PyObject* function_bind(PyObject* self, PyObject* object) {
  return jit_guarded([&] { return wrap_function(boxed<F>(self).function, boxed<Value>(object)); });
}
PyObject* function_refuse(PyObject* self, PyObject* why) {
  return jit_guarded([&] {
    fn(self).refused = text_of(why);
    return none();
  });
}
PyObject* function_leave(PyObject* self, PyObject* callable) {
  return jit_guarded([&] {
    fn(self).host = make_intrusive<PyHost>(callable);
    return none();
  });
}
PyObject* function_static(PyObject* self, PyObject*) {
  fn(self).is_static = true;
  return none();
}
PyObject* function_declare(PyObject* self, PyObject*) {
  fn(self).is_declaration = true;
  return none();
}
PyGetSetDef g_function_getters[] = {{"name", function_name, nullptr, nullptr, nullptr},
                                    {"qualified_name", function_qualified, nullptr, nullptr, nullptr},
                                    {"schema", function_schema, nullptr, nullptr, nullptr},
                                    {"arguments", function_arguments, nullptr, nullptr, nullptr},
                                    {"result", function_result, nullptr, nullptr, nullptr},
                                    {"graph", function_graph, nullptr, nullptr, nullptr},
                                    {"inlined_graph", function_inlined, nullptr, nullptr, nullptr},
                                    {"optimized_graph", function_optimized, nullptr, nullptr, nullptr},
                                    {nullptr, nullptr, nullptr, nullptr, nullptr}};
PyMethodDef g_function_methods[] = {{"compile", function_compile, METH_NOARGS, nullptr},
                                    {"bind", function_bind, METH_O, nullptr},
                                    {"refuse", function_refuse, METH_O, nullptr},
                                    {"leave", function_leave, METH_O, nullptr},
                                    {"make_static", function_static, METH_NOARGS, nullptr},
                                    {"declare", function_declare, METH_NOARGS, nullptr},
                                    {nullptr, nullptr, 0, nullptr}};

[[noreturn]] void misfit(const Function& f, const jit::Param& p, size_t at, PyObject* o) {
  Ref repr = Ref::steal(check(PyObject_Repr(o)));
  throw Error(str_cat(f.name, "() Expected a value of type '", p.type->described(), "' for argument '", p.name,
                      "' but instead found type '", Py_TYPE(o)->tp_name, "'.\nPosition: ", at,
                      "\nValue: ", text_of(repr.get()), "\nDeclaration: ", f.schema()));
}
// An argument of a call that is recorded: tensors stand for numbers there, and `sources` gets them.
bool traced_argument(PyObject* o, TypePtr t, int at, std::vector<jit::NumberSource>* sources, Value* out) {
  const size_t before = sources->size();
  TypePtr inner = t->is(K::kOptional) ? t->elem() : t;
  const auto is_number = [](TypePtr x) { return x->is(K::kInt) || x->is(K::kFloat) || x->is(K::kNumber); };
  if (is_number(inner) || (inner->is(K::kList) && is_number(inner->elem()))) add_sources(at, o, sources);
  if (sources->size() == before) return jit_from_python(o, t, out);
  const auto plain = [](PyObject* e) {
    return is_tensor(e) ? to_python(Value::of(unwrap(e).item_scalar())) : Py_NewRef(e);
  };
  if (is_tensor(o)) return jit_from_python(Ref::steal(plain(o)).get(), inner, out);
  const Py_ssize_t n = PySequence_Fast_GET_SIZE(o);
  Ref list = Ref::steal(check(PyList_New(n)));
  for (Py_ssize_t i = 0; i < n; ++i) PyList_SET_ITEM(list.get(), i, check(plain(PySequence_Fast_GET_ITEM(o, i))));
  return jit_from_python(list.get(), inner, out);
}
PyObject* call_function(PyObject* self, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
  return jit_guarded([&] {
    jit::Tracer* tracer = jit::current_trace();
    std::vector<jit::NumberSource> sources;
    F& me = boxed<F>(self);
    Function& f = *me.function;
    const bool bound = !me.self.is_none();
    std::vector<Value> in;
    const jit::Code* code = nullptr;
    {
      CompileLock lock;
      f.ensure_schema();
      if (!f.host && f.refused.empty()) code = &f.code();
    }
    (void)code;
    if (bound) in.push_back(me.self);
    const size_t n = static_cast<size_t>(PyVectorcall_NARGS(nargsf));
    const size_t given_names = kwnames ? static_cast<size_t>(PyTuple_GET_SIZE(kwnames)) : 0;
    TESSERA_CHECK(n + bound <= f.args.size(), f.name, "() expected at most ", f.args.size(),
                  " argument(s) but received ", n + bound, " argument(s). Declaration: ", f.schema());
    size_t used = 0;
    for (size_t i = bound; i < f.args.size(); ++i) {
      const jit::Param& p = f.args[i];
      PyObject* o = nullptr;
      if (i - bound < n) o = args[i - bound];
      for (size_t k = 0; k < given_names; ++k) {
        if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(kwnames, static_cast<Py_ssize_t>(k)), p.name.c_str()) !=
            0)
          continue;
        TESSERA_CHECK(!o, f.name, "() got multiple values for argument '", p.name, "'");
        o = args[n + k];
        ++used;
      }
      if (!o) {
        TESSERA_CHECK(p.has_default, f.name, "() is missing value for argument '", p.name,
                      "'. Declaration: ", f.schema());
        in.push_back(p.default_value);
        continue;
      }
      Value v;
      if (tracer ? !traced_argument(o, p.type, static_cast<int>(i), &sources, &v) : !argument(o, p, &v))
        misfit(f, p, i - bound, o);
      in.push_back(std::move(v));
    }
    TESSERA_CHECK(used == given_names, "Unknown keyword argument for operator '", f.name, "'. Schema: ", f.schema());
    if (!f.refused.empty()) throw jit::RunError(f.refused, f.refused, true);
    Value result;
    if (f.host && !f.is_native) {
      result = f.host->call(in.data(), in.size(), f.ret);
    } else if (tracer) {
      jit::Val* v = tracer->call(f, in, bound, sources);
      {
        const jit::Tracer::Pause pause;
        GilRelease free;  // tasks may need Python
        result = jit::call(f, std::move(in));
      }
      if (f.ret->is(K::kInt)) return wrap(tracer->number_tensor(result.integer(), v));
      tracer->bind(result, v);
    } else {
      GilRelease free;
      result = jit::call(f, std::move(in));
    }
    return jit_to_python(result);
  });
}

// Classes.
using D = jit::ClassDef*;
jit::ClassDef& def(PyObject* o) { return *boxed<D>(o); }
PyObject* class_add_attribute(PyObject* self, PyObject* args) {
  return jit_guarded([&] {
    const char* name;
    PyObject* type;
    int parameter, buffer;
    if (!PyArg_ParseTuple(args, "sO!pp", &name, &JitTypeType, &type, &parameter, &buffer)) throw ErrorAlreadySet();
    if (def(self).slot(name) < 0)
      def(self).attributes.push_back({name, boxed<TypePtr>(type), parameter != 0, buffer != 0});
    return none();
  });
}
PyObject* class_add_constant(PyObject* self, PyObject* args) {
  return jit_guarded([&] {
    const char* name;
    PyObject *value, *type;
    if (!PyArg_ParseTuple(args, "sOO!", &name, &value, &JitTypeType, &type)) throw ErrorAlreadySet();
    Value v;
    TESSERA_CHECK(jit_from_python(value, boxed<TypePtr>(type), &v), "the constant ", name, " is no ",
                  boxed<TypePtr>(type)->annotation());
    auto& list = def(self).type->is(K::kEnum) ? def(self).items : def(self).constants;
    list.push_back({name, std::move(v), boxed<TypePtr>(type)});
    return none();
  });
}
PyObject* class_add_method(PyObject* self, PyObject* args) {
  return jit_guarded([&] {
    PyObject* function;
    const char* how;
    if (!PyArg_ParseTuple(args, "O!s", &JitFunctionType, &function, &how)) throw ErrorAlreadySet();
    const std::string_view kind = how;
    Function* f = boxed<F>(function).function;
    jit::ClassDef& d = def(self);
    if (kind == "static")
      d.statics.push_back(f);
    else if (kind == "hook")
      d.hooks.push_back(f);
    else if (kind == "pre_hook")
      d.pre_hooks.push_back(f);
    else if (kind == "getter")
      d.add_property(std::string(f->name), f);
    else if (kind == "setter")
      d.add_setter(std::string(f->name), f);
    else
      d.methods.push_back(f);
    return none();
  });
}
PyObject* class_callee(PyObject* self, PyObject*) {
  return jit_guarded([&] {
    const CompileLock lock;
    return string(jit::called_method(def(self)));
  });
}
PyObject* class_type(PyObject* self, void*) {
  return jit_guarded([&] { return wrap_type(def(self).type); });
}
PyObject* class_name(PyObject* self, void*) {
  return jit_guarded([&] { return string(def(self).name); });
}
PyObject* class_attributes(PyObject* self, void*) {
  return jit_guarded([&] {
    Ref list = Ref::steal(check(PyList_New(0)));
    for (const jit::Attribute& a : def(self).attributes) {
      Ref type = Ref::steal(wrap_type(a.type));
      Ref entry =
          Ref::steal(check(Py_BuildValue("(sOOO)", a.name.c_str(), type.get(), a.is_parameter ? Py_True : Py_False,
                                         a.is_buffer ? Py_True : Py_False)));
      check(PyList_Append(list.get(), entry.get()));
    }
    return list.release();
  });
}
PyObject* class_constants(PyObject* self, void*) {
  return jit_guarded([&] {
    Ref d = Ref::steal(check(PyDict_New()));
    const auto& list = def(self).type->is(K::kEnum) ? def(self).items : def(self).constants;
    for (const auto& c : list)
      check(PyDict_SetItemString(d.get(), c.name.c_str(), Ref::steal(jit_to_python(c.value)).get()));
    return d.release();
  });
}
PyObject* class_methods(PyObject* self, void*) {
  return jit_guarded([&] {
    Ref list = Ref::steal(check(PyList_New(0)));
    for (Function* f : def(self).methods) check(PyList_Append(list.get(), Ref::steal(wrap_function(f)).get()));
    return list.release();
  });
}
PyObject* class_statics(PyObject* self, void*) {
  return jit_guarded([&] {
    Ref list = Ref::steal(check(PyList_New(0)));
    for (Function* f : def(self).statics) check(PyList_Append(list.get(), Ref::steal(wrap_function(f)).get()));
    return list.release();
  });
}
PyObject* class_doc(PyObject* self, void*) {
  return jit_guarded([&] { return string(def(self).doc); });
}
PyObject* class_set_kind(PyObject* self, PyObject* kind) {
  return jit_guarded([&] {
    def(self).module_kind = static_cast<jit::ModuleKind>(PyLong_AsLong(kind));
    return none();
  });
}
PyObject* class_set_host(PyObject* self, PyObject* host) {
  return jit_guarded([&] {
    def(self).host = make_intrusive<PyHost>(host);
    return none();
  });
}
PyObject* class_new(PyObject* self, PyObject*) {
  return jit_guarded([&] { return wrap_object(jit::make_value<jit::Instance>(&def(self))); });
}
PyObject* class_host(PyObject* self, void*) {
  return jit_guarded(
      [&]() -> PyObject* { return def(self).host ? Py_NewRef(static_cast<PyHost&>(*def(self).host).object) : none(); });
}
PyObject* class_is_module(PyObject* self, void*) { return to_python(def(self).is_module); }
PyGetSetDef g_class_getters[] = {{"type", class_type, nullptr, nullptr, nullptr},
                                 {"name", class_name, nullptr, nullptr, nullptr},
                                 {"attributes", class_attributes, nullptr, nullptr, nullptr},
                                 {"constants", class_constants, nullptr, nullptr, nullptr},
                                 {"methods", class_methods, nullptr, nullptr, nullptr},
                                 {"statics", class_statics, nullptr, nullptr, nullptr},
                                 {"doc", class_doc, nullptr, nullptr, nullptr},
                                 {"host", class_host, nullptr, nullptr, nullptr},
                                 {"is_module", class_is_module, nullptr, nullptr, nullptr},
                                 {nullptr, nullptr, nullptr, nullptr, nullptr}};
PyMethodDef g_class_methods[] = {{"add_attribute", class_add_attribute, METH_VARARGS, nullptr},
                                 {"add_constant", class_add_constant, METH_VARARGS, nullptr},
                                 {"add_method", class_add_method, METH_VARARGS, nullptr},
                                 {"callee", class_callee, METH_NOARGS, nullptr},
                                 {"set_kind", class_set_kind, METH_O, nullptr},
                                 {"set_host", class_set_host, METH_O, nullptr},
                                 {"new", class_new, METH_NOARGS, nullptr},
                                 {nullptr, nullptr, 0, nullptr}};

// Instances.
jit::Instance& instance(PyObject* o) { return jit::as<jit::Instance>(boxed<Value>(o)); }
PyObject* object_get(PyObject* self, PyObject* name) {
  return jit_guarded([&]() -> PyObject* {
    jit::Instance& i = instance(self);
    const std::string n = text_of(name);
    if (i.def->slot(n) >= 0) return jit_to_python(i.at(n));
    if (const jit::ConstantAttribute* c = i.def->constant(n)) return jit_to_python(c->value);
    if (Function* f = i.def->method(n)) return wrap_function(f, f->is_static ? Value() : boxed<Value>(self));
    if (const jit::Property* p = i.def->property(n)) {
      Ref get = Ref::steal(wrap_function(p->getter, boxed<Value>(self)));
      return check(PyObject_CallNoArgs(get.get()));
    }
    PyErr_Format(PyExc_AttributeError, "'%s' object has no attribute '%U'", i.def->name.c_str(), name);
    throw ErrorAlreadySet();
  });
}
PyObject* object_set(PyObject* self, PyObject* args) {
  return jit_guarded([&] {
    PyObject *name, *value;
    if (!PyArg_ParseTuple(args, "UO", &name, &value)) throw ErrorAlreadySet();
    jit::Instance& i = instance(self);
    const std::string n = text_of(name);
    const jit::Attribute* a = i.def->attribute(n);
    if (const jit::Property* p = a ? nullptr : i.def->property(n)) {
      TESSERA_CHECK(p->setter, "can't set attribute: '", n, "' of ", i.def->name, " has no setter");
      Ref set = Ref::steal(wrap_function(p->setter, boxed<Value>(self)));
      Ref::steal(check(PyObject_CallOneArg(set.get(), value)));
      return none();
    }
    TESSERA_CHECK(a, "'", i.def->name, "' object has no attribute '", n, "'");
    Value v;
    if (value == Py_None && a->type->is(K::kTensor))
      v = Value();
    else
      TESSERA_CHECK(jit_from_python(value, a->type, &v), "the attribute '", n, "' of ", i.def->name, " is of type ",
                    a->type->annotation(), ", got ", Py_TYPE(value)->tp_name);
    i.at(n) = std::move(v);
    return none();
  });
}
PyObject* object_class(PyObject* self, void*) {
  return jit_guarded([&] { return wrap_class(instance(self).def); });
}
PyObject* object_id(PyObject* self, void*) { return PyLong_FromVoidPtr(&instance(self)); }
PyObject* object_copy(PyObject* self, PyObject*) {
  return jit_guarded([&] { return wrap_object(jit::deep_copy(boxed<Value>(self))); });
}
// The Python object of an instance of register_class().
PyObject* object_hold(PyObject* self, PyObject* held) {
  return jit_guarded([&] {
    jit::custom::hold(boxed<Value>(self), make_intrusive<PyHost>(held));
    return none();
  });
}
PyObject* object_held(PyObject* self, void*) {
  return jit_guarded([&]() -> PyObject* {
    const auto* host = dynamic_cast<const PyHost*>(jit::custom::held(boxed<Value>(self).object()));
    return host ? Py_NewRef(host->object) : none();
  });
}
PyGetSetDef g_object_getters[] = {{"class_", object_class, nullptr, nullptr, nullptr},
                                  {"id", object_id, nullptr, nullptr, nullptr},
                                  {"held", object_held, nullptr, nullptr, nullptr},
                                  {nullptr, nullptr, nullptr, nullptr, nullptr}};
PyMethodDef g_object_methods[] = {{"get", object_get, METH_O, nullptr},
                                  {"set", object_set, METH_VARARGS, nullptr},
                                  {"hold", object_hold, METH_O, nullptr},
                                  {"copy", object_copy, METH_NOARGS, nullptr},
                                  {nullptr, nullptr, 0, nullptr}};

// --- functions of the module ---

PyObject* py_define(PyObject*, PyObject* args) {
  return jit_guarded([&] {
    const char *text, *file, *qualified;
    int line;
    PyObject *resolve, *member, *owner;
    if (!PyArg_ParseTuple(args, "ssisOOO", &text, &file, &line, &qualified, &resolve, &member, &owner))
      throw ErrorAlreadySet();
    CompileLock lock;
    jit::Unit& unit = script_unit();
    jit::Source& source = unit.add_source(text, file, line);
    const jit::Ast* module = jit::parse_source(source);
    const jit::Ast* found = nullptr;
    for (const jit::Ast* s : module->kids)
      if (s->is(jit::A::kDef)) found = s;
    TESSERA_CHECK(found, "Expected a single top-level function in the source of ", qualified);
    jit::ClassDef* d = owner == Py_None ? nullptr : boxed<D>(owner);
    const std::string name = d ? std::string(qualified) : unit.unique_name(qualified);
    return wrap_function(jit::define(unit, *found, name, make_intrusive<PyResolver>(resolve, member), d));
  });
}
PyObject* py_new_class(PyObject*, PyObject* args) {
  return jit_guarded([&] {
    const char *kind, *name;
    if (!PyArg_ParseTuple(args, "ss", &kind, &name)) throw ErrorAlreadySet();
    const std::string_view k = kind;
    jit::Unit& unit = script_unit();
    jit::ClassDef* d = unit.new_class(k == "enum"        ? K::kEnum
                                      : k == "interface" ? K::kInterface
                                                         : K::kClass,
                                      unit.unique_name(name));
    d->is_module = k == "module";
    d->is_exception = k == "exception";
    d->building = k == "class";
    return wrap_class(d);
  });
}
PyObject* py_named_tuple(PyObject*, PyObject* args) {
  return jit_guarded([&] {
    const char* name;
    PyObject *fields, *types, *defaults;
    if (!PyArg_ParseTuple(args, "sO!O!O!", &name, &PyTuple_Type, &fields, &PyTuple_Type, &types, &PyDict_Type,
                          &defaults))
      throw ErrorAlreadySet();
    std::vector<std::string> f;
    std::vector<TypePtr> t;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(fields); ++i) {
      f.push_back(text_of(PyTuple_GET_ITEM(fields, i)));
      t.push_back(boxed<TypePtr>(PyTuple_GET_ITEM(types, i)));
    }
    jit::Unit& unit = script_unit();
    const std::string unique = unit.unique_name(name);
    auto* made = const_cast<jit::Type*>(jit::named_tuple(unit, unique, f, t));
    if (PyDict_Size(defaults)) {
      made->def = new jit::ClassDef;
      for (size_t i = 0; i < f.size(); ++i)
        if (PyObject* v = PyDict_GetItemString(defaults, f[i].c_str())) {
          Value value;
          TESSERA_CHECK(jit_from_python(v, t[i], &value), "the default of ", f[i], " is no ", t[i]->annotation());
          made->def->constants.push_back({f[i], std::move(value), t[i]});
        }
    }
    return wrap_type(made);
  });
}
PyObject* py_parse_type(PyObject*, PyObject* args) {
  return jit_guarded([&] {
    const char* text;
    PyObject* resolve;
    if (!PyArg_ParseTuple(args, "sO", &text, &resolve)) throw ErrorAlreadySet();
    CompileLock lock;
    jit::Source& source = script_unit().add_source(text, "<annotation>", 1);
    PyResolver r(resolve, Py_None);
    return wrap_type(jit::type_of_annotation(*jit::parse_expression(source), &r, script_unit()));
  });
}
PyObject* py_parse_ir(PyObject*, PyObject* text) {
  return jit_guarded([&] { return wrap_graph(jit::parse_ir(text_of(text))); });
}
PyObject* py_function_of_graph(PyObject*, PyObject* args) {
  return jit_guarded([&] {
    const char* name;
    PyObject* g;
    if (!PyArg_ParseTuple(args, "sO!", &name, &JitGraphType, &g)) throw ErrorAlreadySet();
    CompileLock lock;
    const GraphPtr& graph = graph_arg(g);
    TESSERA_CHECK(graph->top->returns.size() == 1, "a function returns one value, the graph has ",
                  graph->top->returns.size(), "; makeMultiOutputIntoTuple() makes it one");
    auto f = std::make_unique<Function>();
    f->qualified = script_unit().unique_name(std::strchr(name, '.') ? name : str_cat("__torch__.", name));
    f->name = f->qualified.substr(f->qualified.rfind('.') + 1);
    f->unit = &script_unit();
    f->set_graph(copy_graph(*graph));
    return wrap_function(script_unit().add_function(std::move(f)));
  });
}
PyObject* py_unify(PyObject*, PyObject* args) {
  return jit_guarded([&]() -> PyObject* {
    PyObject *a, *b;
    if (!PyArg_ParseTuple(args, "O!O!", &JitTypeType, &a, &JitTypeType, &b)) throw ErrorAlreadySet();
    TypePtr t = jit::unify(boxed<TypePtr>(a), boxed<TypePtr>(b));
    return t ? wrap_type(t) : none();
  });
}
PyObject* py_op_name(PyObject*, PyObject* o) {
  return jit_guarded([&]() -> PyObject* {
    if (Py_TYPE(o) != &OpFunctionType && Py_TYPE(o) != &OpMethodType) return none();
    const auto* f = reinterpret_cast<const OpFunction*>(o);
    if (f->overloads->empty()) return none();
    return string((*f->overloads)[0]->info().op->name);
  });
}
PyObject* py_has_op(PyObject*, PyObject* name) {
  return jit_guarded([&] {
    const std::string n = text_of(name);
    const CompileLock lock;
    return to_python(!jit::operators_named(n).empty() || jit::library_function(n) != nullptr);
  });
}
PyObject* py_schemas(PyObject*, PyObject* name) {
  return jit_guarded([&] {
    Ref list = Ref::steal(check(PyList_New(0)));
    for (const jit::Operator* o : jit::operators_named(text_of(name)))
      check(PyList_Append(list.get(), to_python_string(o->schema).get()));
    return list.release();
  });
}
PyObject* py_op_names(PyObject*, PyObject*) {
  return jit_guarded([&] {
    Ref list = Ref::steal(check(PyList_New(0)));
    for (const std::string& n : jit::operator_names()) check(PyList_Append(list.get(), to_python_string(n).get()));
    return list.release();
  });
}

PyObject* py_registered_class(PyObject*, PyObject* name) {
  return jit_guarded([&]() -> PyObject* {
    jit::ClassDef* d = jit::custom::find(text_of(name));
    return d ? wrap_class(d) : none();
  });
}
// (namespace, name): a class whose objects are Python's.
PyObject* py_register_class(PyObject*, PyObject* args) {
  return jit_guarded([&] {
    const char *ns, *name;
    if (!PyArg_ParseTuple(args, "ss", &ns, &name)) throw ErrorAlreadySet();
    return wrap_class(&jit::custom::define(ns, name));
  });
}
// (class, name, types of the arguments, type of the result, function). What __setstate__ gives is the instance's
// object.
PyObject* py_register_method(PyObject*, PyObject* args) {
  return jit_guarded([&] {
    PyObject *cls, *types, *function;
    const char *name, *result;
    if (!PyArg_ParseTuple(args, "O!sO!sO", &JitClassType, &cls, &name, &PyTuple_Type, &types, &result, &function))
      throw ErrorAlreadySet();
    jit::ClassDef& def = *boxed<D>(cls);
    jit::custom::Method m;
    m.name = name;
    m.params.push_back({"self", def.name, false, {}});
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(types); ++i)
      m.params.push_back({str_cat("arg", i), text_of(PyTuple_GET_ITEM(types, i)), false, {}});
    const bool makes = m.name == "__setstate__";
    m.result = makes ? "NoneType" : result;
    const TypePtr given = makes ? def.type : jit::from_schema(parse_schema_type(result));
    m.call = [makes, given, host = make_intrusive<PyHost>(function)](const Value* a, size_t n) {
      if (!makes) return host->call(a, n, given);
      const Value made = host->call(a + 1, n - 1, given);
      jit::custom::hold(a[0], IntrusivePtr<RefCounted>::share(jit::custom::held(made.object())));
      return Value();
    };
    jit::custom::add(def, std::move(m));
    return none();
  });
}
PyObject* py_registered_classes(PyObject*, PyObject*) {
  return jit_guarded([&] {
    Ref list = Ref::steal(check(PyList_New(0)));
    for (const std::string& n : jit::custom::names()) check(PyList_Append(list.get(), to_python_string(n).get()));
    return list.release();
  });
}

void print_in_python(const std::string& line) {
  GilAcquire gil;
  Ref out = Ref::borrow(PySys_GetObject("stdout"));
  if (!out || out.get() == Py_None) return;
  PyFile_WriteString(line.c_str(), out.get());
  PyErr_Clear();
}
// At the first use of the namespace.
PyObject* py_start(PyObject*, PyObject*) {
  return jit_guarded([&] {
    static bool done = false;
    if (done) return none();
    done = true;
    jit::set_operators(all_ops());
    jit::set_print_handler(print_in_python);
    return none();
  });
}

// Settings of executors that other packages set when they start: kept, and told back.
bool g_settings[4] = {true, true, false, false};
template <int N>
PyObject* set_setting(PyObject*, PyObject* on) {
  const int value = PyObject_IsTrue(on);
  if (value < 0) return nullptr;
  return to_python(std::exchange(g_settings[N], value != 0));
}
template <int N>
PyObject* get_setting(PyObject*, PyObject*) {
  return to_python(g_settings[N]);
}

PyTypeObject make_type(const char* name, size_t size, destructor d, PyGetSetDef* getters, PyMethodDef* methods) {
  PyTypeObject t = {PyVarObject_HEAD_INIT(nullptr, 0)};
  t.tp_name = name;
  t.tp_basicsize = static_cast<Py_ssize_t>(size);
  t.tp_dealloc = d;
  t.tp_flags = Py_TPFLAGS_DEFAULT;
  t.tp_getset = getters;
  t.tp_methods = methods;
  return t;
}

}  // namespace

PyTypeObject JitFunctionType =
    make_type("tessera._C._jit.Function", sizeof(Boxed<F>), dealloc<F>, g_function_getters, g_function_methods);
PyTypeObject JitClassType = make_type(
    "tessera._C._jit.Class", sizeof(Boxed<D>), [](PyObject* o) { Py_TYPE(o)->tp_free(o); }, g_class_getters,
    g_class_methods);
PyTypeObject JitObjectType =
    make_type("tessera._C._jit.Object", sizeof(Boxed<Value>), dealloc<Value>, g_object_getters, g_object_methods);

PyObject* wrap_function(Function* f, Value self) {
  PyObject* o = box_new<F>(JitFunctionType);
  F& me = boxed<F>(o);
  me.function = f;
  me.unit = IntrusivePtr<jit::Unit>::share(f->unit);
  me.self = std::move(self);
  me.call = call_function;
  return o;
}
PyObject* wrap_class(jit::ClassDef* d) { return box_new<D>(JitClassType, d); }
PyObject* wrap_object(const Value& v) { return box_new<Value>(JitObjectType, v); }

std::vector<PyMethodDef> jit_functions() {
  return {{"define", py_define, METH_VARARGS, "Declares a function of a source; it is compiled when it is needed."},
          {"new_class", py_new_class, METH_VARARGS, "A class, module, interface or enum without members."},
          {"new_data", jit_new_data, METH_VARARGS, "A list or dict of a program, of a type, from a Python object."},
          {"data_of", jit_data_of, METH_O, "What such a list or dict holds, as a Python object."},
          {"make_type", jit_make_type, METH_VARARGS, "A type by its name and the types in it."},
          {"registered_class", py_registered_class, METH_O,
           "The class that C++ registered under a qualified name, or None."},
          {"register_class", py_register_class, METH_VARARGS, "A class of programs whose objects are Python's."},
          {"register_method", py_register_method, METH_VARARGS, "Gives such a class a method."},
          {"registered_classes", py_registered_classes, METH_NOARGS, "The names of all classes that C++ registered."},
          {"type_of_tensor", jit_type_of_tensor, METH_O, "The type of a tensor, with its dtype, sizes and device."},
          {"parse_ir", py_parse_ir, METH_O, "The graph that a text describes."},
          {"function_of_graph", py_function_of_graph, METH_VARARGS, "A function that runs a copy of a graph."},
          {"unify", py_unify, METH_VARARGS, "One type for two, or None."},
          {"named_tuple", py_named_tuple, METH_VARARGS, "The type of a named tuple."},
          {"parse_type", py_parse_type, METH_VARARGS, "The type that a text says."},
          {"op_name", py_op_name, METH_O, "The name of the operator that a callable is, or None."},
          {"has_op", py_has_op, METH_O, "Whether there is an operator of that name."},
          {"schemas", py_schemas, METH_O, "The schemas of an operator's overloads."},
          {"op_names", py_op_names, METH_NOARGS, "The names of all operators."},
          {"start", py_start, METH_NOARGS, "Gives the compiler its operators."}};
}

std::vector<PyMethodDef> jit_setting_functions() {
  return {{"_jit_set_profiling_executor", set_setting<0>, METH_O, "Kept; returns what was set before."},
          {"_jit_set_profiling_mode", set_setting<1>, METH_O, "Kept; returns what was set before."},
          {"_jit_override_can_fuse_on_cpu", set_setting<2>, METH_O, "Kept; returns what was set before."},
          {"_jit_override_can_fuse_on_gpu", set_setting<3>, METH_O, "Kept; returns what was set before."},
          {"_jit_set_texpr_fuser_enabled", set_setting<2>, METH_O, "Kept; returns what was set before."},
          {"_jit_set_nvfuser_enabled", set_setting<3>, METH_O, "Kept; returns what was set before."},
          {"_jit_set_nvfuser_guard_mode", set_setting<3>, METH_O, "Kept; returns what was set before."},
          {"_jit_can_fuse_on_cpu", get_setting<2>, METH_NOARGS, "What was set."},
          {"_jit_can_fuse_on_gpu", get_setting<3>, METH_NOARGS, "What was set."}};
}

void init_jit(PyObject* module) {
  JitFunctionType.tp_call = PyVectorcall_Call;
  JitFunctionType.tp_vectorcall_offset = offsetof(Boxed<F>, value) + offsetof(F, call);
  JitFunctionType.tp_flags |= Py_TPFLAGS_HAVE_VECTORCALL;
  init_jit_types();
  init_jit_graph_types();
  for (PyTypeObject* t : {&JitFunctionType, &JitTypeType, &JitClassType, &JitObjectType, &JitGraphType, &JitNodeType,
                          &JitValueType, &JitBlockType}) {
    check(PyType_Ready(t));
    const char* name = std::strrchr(t->tp_name, '.') + 1;
    check(PyModule_AddObjectRef(module, name, reinterpret_cast<PyObject*>(t)));
  }
}

}  // namespace tessera::python
