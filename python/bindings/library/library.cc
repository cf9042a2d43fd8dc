#include "python/bindings/library/library.h"

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "autograd/tangent.h"
#include "python/bindings/args.h"
#include "python/bindings/autograd/autograd.h"
#include "python/bindings/library/fake.h"
#include "python/bindings/operators.h"
#include "python/bindings/tensor_type.h"
#include "python/bindings/torch_function.h"
#include "tensor/dispatch/dynamic.h"
#include "tensor/dispatch/runtime.h"

namespace tessera::python {
namespace {

// --- operators defined at run time ---

// The kernel at `key` gives values alone: what it makes of a tensor with a tangent would be taken for a constant. Those
// of autograd and composite ones see to tangents by what they call.
void refuse_tangents(const DynamicOp& op, DispatchKey key, const Value* args, size_t n) {
  if (kAutogradKeys.has(key) || !thread_state.forward_grad_enabled || thread_state.inference_mode ||
      (thread_state.excluded & DispatchKeySet(DispatchKey::kForward).bits()))
    return;
  const bool composite = has_kernel(op, DispatchKey::kCompositeImplicitAutograd) && !has_kernel(op, key) &&
                         !has_kernel(op, DispatchKey::kCompositeExplicitAutograd);
  const auto refuse = [&](const Tensor& t) {
    TESSERA_CHECK_NOT_IMPLEMENTED(!autograd::tangent_of(t).defined(), "Trying to use forward AD with ",
                                  op.schema.qualified_name(),
                                  " that does not support it because it has not been implemented yet.");
  };
  for (size_t i = 0; i < n && !composite; ++i) {
    if (args[i].is_tensor()) refuse(args[i].tensor());
    if (args[i].is_tensor_list())
      for (const Tensor& t : args[i].tensor_list()) refuse(t);
  }
}

// Base name -> overloads in the order of their definition.
std::unordered_map<std::string, std::vector<const OpInfo*>>& packets() {
  static auto* m = [] {
    auto* p = new std::unordered_map<std::string, std::vector<const OpInfo*>>;
    for (const OpInfo* i : all_ops()) (*p)[i->op->name].push_back(i);
    for (const OpInfo* i : dynamic_ops()) (*p)[i->op->name].push_back(i);
    return p;
  }();
  return *m;
}
std::unordered_map<const OpHeader*, PyObject*>& overload_objects() {
  static auto* m = new std::unordered_map<const OpHeader*, PyObject*>;
  return *m;
}

const OpInfo& require_op(PyObject* name) {
  const std::string text = from_python_string(name);
  const OpInfo* info = find_any_op(text);
  TESSERA_CHECK(info, "there is no operator ", text);
  return *info;
}
const FunctionSchema& schema_of(const OpInfo& info) {
  static auto* known = new std::unordered_map<const OpInfo*, std::unique_ptr<FunctionSchema>>;
  auto& s = (*known)[&info];
  if (!s) s = std::make_unique<FunctionSchema>(parse_schema(info.schema()));
  return *s;
}

// _define_op(schema, tags) -> qualified name
PyObject* py_define(PyObject*, PyObject* args) {
  return guarded([&] {
    const char *text, *tags;
    if (!PyArg_ParseTuple(args, "ss:_define_op", &text, &tags)) throw ErrorAlreadySet();
    FunctionSchema schema = parse_schema(text);
    const std::string qualified = schema.qualified_name();
    TESSERA_CHECK(schema.arguments.size() <= kMaxArgs, qualified, ": an operator can have ", kMaxArgs,
                  " arguments, got ", schema.arguments.size());
    define_op(std::move(schema), tags, "torch.library");
    return to_python_string(qualified).release();
  });
}
PyObject* py_undefine(PyObject*, PyObject* name) {
  return guarded([&]() -> PyObject* {
    undefine_op(from_python_string(name));
    return none();
  });
}
// An operator has come, or goes: also those that an extension defines, who may not hold Python's lock.
void note_op(const OpInfo& info, bool defined) {
  GilAcquire gil;
  auto& list = packets()[info.op->name];
  if (defined) {
    if (std::ranges::find(list, &info) == list.end()) list.push_back(&info);
    return;
  }
  std::erase(list, &info);
  if (list.empty()) packets().erase(info.op->name);
  if (auto o = overload_objects().find(info.op); o != overload_objects().end()) {
    Ref dropped = Ref::steal(o->second);
    overload_objects().erase(o);
  }
}

// --- kernels written in Python ---

struct PythonKernel {
  PyObject* function;
  bool with_keyset;
  bool with_op;  // a fallback: the operator comes first
};
void destroy_kernel(void* context) {
  auto* k = static_cast<PythonKernel*>(context);
  drop_reference(k->function);
  delete k;
}
Ref keyset_object(DispatchKeySet keys) {
  static constinit MadeOnce make;
  Ref bits = checked_call(PyLong_FromUnsignedLongLong(keys.bits()));
  return checked_call(PyObject_CallOneArg(make.get([] { return ops_function("DispatchKeySet"); }), bits.get()));
}
Ref with_first(Ref first, const Ref& rest) {
  Ref head = checked_call(PyTuple_Pack(1, first.get()));
  return checked_call(PySequence_Concat(head.get(), rest.get()));
}
void call_python_kernel(void* context, const OpHeader& op, DispatchKeySet keys, const Value* args, size_t num_args,
                        Value* rets, size_t num_rets) {
  GilAcquire gil;
  try {
    auto* k = static_cast<PythonKernel*>(context);
    Ref function = Ref::borrow(k->function);  // the registration may go while it runs
    Ref positional, keywords;
    arguments_to_python(*op.info, args, num_args, &positional, &keywords);
    if (k->with_op) positional = with_first(Ref::steal(overload_object(op)), positional);
    if (k->with_keyset) positional = with_first(keyset_object(keys), positional);
    Ref result = checked_call(PyObject_Call(function.get(), positional.get(), keywords.get()));
    results_from_python(*op.info, result.get(), rets, num_rets);
  } catch (const ErrorAlreadySet&) { throw PythonError(); }
}
RuntimeKernel python_kernel(PyObject* function, bool with_keyset, bool with_op) {
  RuntimeKernel k;
  if (function == Py_None) {
    k.fallthrough = true;
    return k;
  }
  if (!PyCallable_Check(function))
    throw TypeError(str_cat("a kernel must be callable, got ", Py_TYPE(function)->tp_name));
  k.boxed = make_intrusive<BoxedEntry>();
  k.boxed->kernel = &call_python_kernel;
  k.boxed->context = new PythonKernel{Py_NewRef(function), with_keyset, with_op};
  k.boxed->destroy = &destroy_kernel;
  return k;
}

struct PyRegistration {
  PyObject_HEAD Registration* registration;
};
PyTypeObject RegistrationType = {PyVarObject_HEAD_INIT(nullptr, 0)};
void registration_dealloc(PyObject* self) {
  delete reinterpret_cast<PyRegistration*>(self)->registration;
  Py_TYPE(self)->tp_free(self);
}
PyObject* registration_release(PyObject* self, PyObject*) {
  delete std::exchange(reinterpret_cast<PyRegistration*>(self)->registration, nullptr);
  return none();
}
PyObject* wrap_registration(Registration r) {
  auto* p = reinterpret_cast<PyRegistration*>(check(RegistrationType.tp_alloc(&RegistrationType, 0)));
  p->registration = new Registration(std::move(r));
  return reinterpret_cast<PyObject*>(p);
}
PyMethodDef g_registration_methods[] = {
    {"release", registration_release, METH_NOARGS, "Takes the kernel away; also done when this object dies."},
    {nullptr, nullptr, 0, nullptr}};

// _register_op_kernel(name, key, function or None for a fallthrough, with_keyset) -> registration
PyObject* py_register_kernel(PyObject*, PyObject* args) {
  return guarded([&] {
    PyObject *name, *function;
    const char* key;
    int with_keyset;
    if (!PyArg_ParseTuple(args, "OsOp:_register_op_kernel", &name, &key, &function, &with_keyset))
      throw ErrorAlreadySet();
    const OpInfo& info = require_op(name);
    return wrap_registration(register_kernel(*info.op, parse_key(key), python_kernel(function, with_keyset, false),
                                             info.adapter->trampoline()));
  });
}
PyObject* py_register_fallback(PyObject*, PyObject* args) {
  return guarded([&] {
    PyObject* function;
    const char* key;
    int with_keyset;
    if (!PyArg_ParseTuple(args, "sOp:_register_fallback", &key, &function, &with_keyset)) throw ErrorAlreadySet();
    return wrap_registration(register_fallback(parse_key(key), python_kernel(function, with_keyset, true)));
  });
}
PyObject* py_has_kernel(PyObject*, PyObject* args) {
  return guarded([&] {
    PyObject* name;
    const char* key;
    if (!PyArg_ParseTuple(args, "Os:_has_op_kernel", &name, &key)) throw ErrorAlreadySet();
    return to_python(has_kernel(*require_op(name).op, parse_key(key)));
  });
}

// --- operators as objects: the base of OpOverload ---

struct PyOp {
  PyObject_HEAD Overload* overload;
};
PyTypeObject OpBaseType = {PyVarObject_HEAD_INIT(nullptr, 0)};
Overload& overload_of(PyObject* self) { return *reinterpret_cast<PyOp*>(self)->overload; }

PyObject* op_new(PyTypeObject* type, PyObject* args, PyObject*) {
  return guarded([&]() -> PyObject* {
    if (PyTuple_GET_SIZE(args) < 1) throw TypeError("_OpBase(qualified_name)");
    const OpInfo& info = require_op(PyTuple_GET_ITEM(args, 0));
    PyObject* o = check(type->tp_alloc(type, 0));
    reinterpret_cast<PyOp*>(o)->overload = new Overload(&info);
    return o;
  });
}
void op_dealloc(PyObject* self) {
  delete reinterpret_cast<PyOp*>(self)->overload;
  Py_TYPE(self)->tp_free(self);
}

// The arguments of a Python call in vectorcall's order.
struct FlatArgs {
  std::vector<PyObject*> values;
  Py_ssize_t positional;
  Ref names;
  FlatArgs(PyObject* args, PyObject* kwargs, Py_ssize_t skip = 0) : positional(PyTuple_GET_SIZE(args) - skip) {
    for (Py_ssize_t i = skip; i < PyTuple_GET_SIZE(args); ++i) values.push_back(PyTuple_GET_ITEM(args, i));
    if (!kwargs || PyDict_Size(kwargs) == 0) return;
    names = Ref::steal(check(PyTuple_New(PyDict_Size(kwargs))));
    PyObject *key, *value;
    Py_ssize_t pos = 0, i = 0;
    while (PyDict_Next(kwargs, &pos, &key, &value)) {
      PyTuple_SET_ITEM(names.get(), i++, Py_NewRef(key));
      values.push_back(value);
    }
  }
};

std::string type_list(const FlatArgs& a) {
  std::string s;
  for (size_t i = 0; i < a.values.size(); ++i) {
    if (i) s += ", ";
    if (static_cast<Py_ssize_t>(i) >= a.positional)
      s += std::string(PyUnicode_AsUTF8(PyTuple_GET_ITEM(a.names.get(), static_cast<Py_ssize_t>(i) - a.positional))) +
           "=";
    s += is_tensor(a.values[i]) ? "Tensor" : Py_TYPE(a.values[i])->tp_name;
  }
  return s;
}
bool parse(Overload& o, const FlatArgs& a, Value* values) {
  bool requires_grad = false;
  return o.plan().parse(a.values.data(), a.positional, a.names.get(), values, &requires_grad, nullptr, true);
}
// Where the schema of a built-in operator wants a tensor, a Python number stands for one of no dimensions, as in x + 1:
// the same arguments with such tensors, which `made` keeps. False: there are none.
bool wrap_numbers(Overload& o, FlatArgs* a, std::vector<Ref>* made) {
  if (o.plan().schema().name_space() != "aten") return false;
  const std::vector<Param>& params = o.plan().params();
  for (size_t i = 0; i < a->values.size(); ++i) {
    const Param* p = nullptr;
    if (static_cast<Py_ssize_t>(i) < a->positional) {
      if (i < params.size()) p = &params[i];
    } else {
      PyObject* name = PyTuple_GET_ITEM(a->names.get(), static_cast<Py_ssize_t>(i) - a->positional);
      for (const Param& other : params)
        if (PyUnicode_Compare(other.name, name) == 0) p = &other;
    }
    Scalar number;
    if (!p || p->kind != ParamKind::kTensor || is_tensor(a->values[i]) || !to_scalar(a->values[i], &number)) continue;
    made->push_back(Ref::steal(check(wrap(wrapped_number(number)))));
    a->values[i] = made->back().get();
  }
  return !made->empty();
}
[[noreturn]] void throw_mismatch(Overload& o, const FlatArgs& a) {
  throw Error(str_cat(o.plan().schema().name, "() was called with arguments that don't fit its schema: got (",
                      type_list(a), ").\nDeclaration: ", o.info().schema()));
}
// As schemas have it: lists stay lists, several results are a plain tuple.
PyObject* run(Overload& o, const DispatchKeySet* keys, const Value* values, const OpHeader* instead = nullptr) {
  const OpHeader& op = instead ? *instead : *o.info().op;
  Value rets[kMaxArgs];
  const size_t count = o.plan().schema().returns.size();
  TESSERA_CHECK(count <= kMaxArgs, o.info().schema(), ": too many results");
  if (!keys) called_operator = o.info().op;
  if (count == 1 && !o.plan().schema().returns[0].type.is(TypeKind::kTensor)) {
    WantSymbol number(o.info().op);
    o.info().adapter->call(op, keys, values, rets);
    Ref symbol = number.take();
    return symbol ? symbol.release() : to_python(rets[0]);
  }
  o.info().adapter->call(op, keys, values, rets);
  if (count == 0) return none();
  if (count == 1) return to_python(rets[0]);
  Ref tuple = Ref::steal(check(PyTuple_New(static_cast<Py_ssize_t>(count))));
  for (size_t i = 0; i < count; ++i) PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), to_python(rets[i]));
  return tuple.release();
}

PyObject* op_call(PyObject* self, PyObject* args, PyObject* kwargs) {
  return guarded([&] {
    Overload& o = overload_of(self);
    const FlatArgs a(args, kwargs);
    if (needs_torch_function(a.values.data(), static_cast<Py_ssize_t>(a.values.size())))
      return call_torch_function(self, a.values.data(), a.positional, a.names.get());
    Value values[kMaxArgs];
    if (parse(o, a, values)) return run(o, nullptr, values);
    std::vector<Ref> numbers;
    FlatArgs wrapped(args, kwargs);
    if (!wrap_numbers(o, &wrapped, &numbers) || !parse(o, wrapped, values)) throw_mismatch(o, a);
    return run(o, nullptr, values);
  });
}
// An operator as it is without what was added at run time. It is kept: what its kernels leave behind may name it.
const OpHeader& as_built(const OpHeader& op) {
  struct Twin {
    OpHeader header;
    AnyKernel slots[kNumSlots];
  };
  static std::map<const OpHeader*, Twin> twins;  // under Python's lock
  auto [it, made] = twins.try_emplace(&op, Twin{op, {}});
  if (made) {
    it->second.header.ext = nullptr;
    it->second.header.forced_keys = 0;
    std::copy(op.slots(), op.slots() + kNumSlots, it->second.slots);
  }
  return it->second.header;
}
PyObject* redispatch(PyObject* self, PyObject* args, PyObject* kwargs, bool built_in) {
  return guarded([&] {
    Overload& o = overload_of(self);
    if (PyTuple_GET_SIZE(args) < 1) throw TypeError("redispatch(keyset, *args, **kwargs)");
    const auto keys = DispatchKeySet::from_bits(PyLong_AsUnsignedLongLong(PyTuple_GET_ITEM(args, 0)));
    if (PyErr_Occurred()) throw ErrorAlreadySet();
    const FlatArgs a(args, kwargs, 1);
    Value values[kMaxArgs];
    if (!parse(o, a, values)) throw_mismatch(o, a);
    return run(o, &keys, values, built_in ? &as_built(*o.info().op) : nullptr);
  });
}
// _redispatch(bits, *args, **kwargs): the kernel of the highest of the given keys.
PyObject* op_redispatch(PyObject* self, PyObject* args, PyObject* kwargs) {
  return redispatch(self, args, kwargs, false);
}
// The same among the kernels that the operator was built with.
PyObject* op_run_built_in(PyObject* self, PyObject* args, PyObject* kwargs) {
  return redispatch(self, args, kwargs, true);
}
PyObject* op_fits(PyObject* self, PyObject* args, PyObject* kwargs) {
  return guarded([&] {
    Value values[kMaxArgs];
    return to_python(parse(overload_of(self), FlatArgs(args, kwargs), values));
  });
}
PyObject* get_schema_text(PyObject* self, void*) {
  return guarded([&] { return to_python_string(overload_of(self).info().schema()).release(); });
}
PyObject* get_tags_text(PyObject* self, void*) {
  return guarded([&] { return to_python_string(overload_of(self).info().tags()).release(); });
}
PyObject* get_is_view(PyObject* self, void*) { return to_python((overload_of(self).info().op->flags & kIsView) != 0); }

PyMethodDef g_op_methods[] = {
    {"_redispatch", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(op_redispatch)),
     METH_VARARGS | METH_KEYWORDS, nullptr},
    {"_run_built_in", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(op_run_built_in)),
     METH_VARARGS | METH_KEYWORDS, nullptr},
    {"_fits", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(op_fits)), METH_VARARGS | METH_KEYWORDS,
     "True if the arguments fit the schema."},
    {nullptr, nullptr, 0, nullptr}};
PyGetSetDef g_op_getset[] = {{"_schema_text", get_schema_text, nullptr, nullptr, nullptr},
                             {"_tags_text", get_tags_text, nullptr, nullptr, nullptr},
                             {"is_view", get_is_view, nullptr, nullptr, nullptr},
                             {nullptr, nullptr, nullptr, nullptr, nullptr}};

// --- lookups ---

PyObject* py_overloads(PyObject*, PyObject* name) {
  return guarded([&] {
    Ref list = Ref::steal(check(PyList_New(0)));
    auto it = packets().find(from_python_string(name));
    if (it != packets().end())
      for (const OpInfo* i : it->second) check(PyList_Append(list.get(), to_python_string(i->op->overload).get()));
    return list.release();
  });
}
PyObject* py_op_names(PyObject*, PyObject*) {
  return guarded([&] {
    Ref list = Ref::steal(check(PyList_New(0)));
    for (const auto& [name, overloads] : packets()) check(PyList_Append(list.get(), to_python_string(name).get()));
    return list.release();
  });
}

Ref alias_tuple(const SchemaType& type) {
  const AliasInfo* a = type.alias_anywhere();
  if (!a) return Ref::borrow(Py_None);
  auto set = [](const std::vector<std::string>& names) {
    Ref t = Ref::steal(check(PyTuple_New(static_cast<Py_ssize_t>(names.size()))));
    for (size_t i = 0; i < names.size(); ++i)
      PyTuple_SET_ITEM(t.get(), static_cast<Py_ssize_t>(i), to_python_string(names[i]).release());
    return t;
  };
  Ref before = set(a->before), after = set(a->after);
  return Ref::steal(check(Py_BuildValue("(OOO)", a->is_write ? Py_True : Py_False, before.get(), after.get())));
}
Ref default_object(const SchemaValue& v) {
  using K = SchemaValue::Kind;
  switch (v.kind) {
    case K::kNone:
      return Ref::borrow(Py_None);
    case K::kBool:
      return Ref::borrow(v.b ? Py_True : Py_False);
    case K::kInt:
    case K::kEnum:
      return Ref::steal(check(PyLong_FromLongLong(v.i)));
    case K::kFloat:
      return Ref::steal(check(PyFloat_FromDouble(v.f)));
    case K::kComplex:
      return Ref::steal(check(PyComplex_FromDoubles(v.f, v.imag)));
    case K::kString:
    case K::kDevice:
      return to_python_string(v.s);
    case K::kList: {
      Ref l = Ref::steal(check(PyList_New(0)));
      for (const SchemaValue& e : v.list) check(PyList_Append(l.get(), default_object(e).get()));
      return l;
    }
  }
  return Ref::borrow(Py_None);
}
Ref argument_list(const std::vector<SchemaArgument>& arguments) {
  Ref list = Ref::steal(check(PyList_New(0)));
  for (const SchemaArgument& a : arguments) {
    Ref name = to_python_string(a.name), type = to_python_string(a.type.str_without_alias()),
        text = to_python_string(a.str()), alias = alias_tuple(a.type);
    Ref fallback = a.default_value ? default_object(*a.default_value) : Ref::borrow(Py_None);
    Ref entry =
        Ref::steal(check(Py_BuildValue("(OOOOOOO)", name.get(), type.get(), a.default_value ? Py_True : Py_False,
                                       fallback.get(), a.kwarg_only ? Py_True : Py_False, alias.get(), text.get())));
    check(PyList_Append(list.get(), entry.get()));
  }
  return list;
}
// _parse_schema(text) -> (name, overload, arguments, returns, is_mutable, text); an argument is (name, type,
// has_default, default, kwarg_only, alias, text)
PyObject* py_parse_schema(PyObject*, PyObject* text) {
  return guarded([&] {
    const FunctionSchema s = parse_schema(from_python_string(text));
    Ref name = to_python_string(s.name), overload = to_python_string(s.overload),
        arguments = argument_list(s.arguments), returns = argument_list(s.returns), shown = to_python_string(s.str());
    return check(Py_BuildValue("(OOOOOO)", name.get(), overload.get(), arguments.get(), returns.get(),
                               s.is_mutable() ? Py_True : Py_False, shown.get()));
  });
}
PyObject* py_get_schema(PyObject*, PyObject* name) {
  return guarded([&] {
    static constinit MadeOnce make;
    Ref text = to_python_string(require_op(name).schema());
    return check(PyObject_CallOneArg(make.get([] { return ops_function("FunctionSchema"); }), text.get()));
  });
}

// --- keys ---

PyObject* py_key_bits(PyObject*, PyObject* name) {
  return guarded([&]() -> PyObject* {
    const DispatchKey k = parse_key(from_python_string(name));
    return PyLong_FromUnsignedLongLong(static_cast<int>(k) < 64 ? DispatchKeySet(k).bits() : 0);
  });
}
PyObject* py_key_names(PyObject*, PyObject* bits) {
  return guarded([&] {
    const unsigned long long v = PyLong_AsUnsignedLongLong(bits);
    if (PyErr_Occurred()) throw ErrorAlreadySet();
    Ref list = Ref::steal(check(PyList_New(0)));
    for (int k = 63; k > 0; --k)
      if (v >> k & 1) check(PyList_Append(list.get(), to_python_string(key_name(static_cast<DispatchKey>(k))).get()));
    return list.release();
  });
}
PyObject* py_tensor_keys(PyObject*, PyObject* t) {
  return guarded([&] {
    if (!is_tensor(t)) throw TypeError(str_cat("expected a Tensor, got ", Py_TYPE(t)->tp_name));
    return PyLong_FromUnsignedLongLong(unwrap(t).keys().bits());
  });
}
PyObject* py_tls_keys(PyObject*, PyObject*) {
  return Py_BuildValue("(KK)", static_cast<unsigned long long>(thread_state.included),
                       static_cast<unsigned long long>(thread_state.excluded));
}
PyObject* py_set_tls_keys(PyObject*, PyObject* args) {
  unsigned long long included, excluded;
  if (!PyArg_ParseTuple(args, "KK:_set_tls_keys", &included, &excluded)) return nullptr;
  thread_state.included = included;
  thread_state.excluded = excluded;
  return none();
}
PyObject* py_autograd_keys(PyObject*, PyObject*) {
  return PyLong_FromUnsignedLongLong(kAutogradKeys.bits() | DispatchKeySet(DispatchKey::kADInplaceOrView).bits());
}

PyMethodDef g_functions[] = {
    {"_define_op", py_define, METH_VARARGS, nullptr},
    {"_undefine_op", py_undefine, METH_O, nullptr},
    {"_register_op_kernel", py_register_kernel, METH_VARARGS, nullptr},
    {"_register_fallback", py_register_fallback, METH_VARARGS, nullptr},
    {"_has_op_kernel", py_has_kernel, METH_VARARGS, nullptr},
    {"_op_overloads", py_overloads, METH_O, nullptr},
    {"_op_names", py_op_names, METH_NOARGS, nullptr},
    {"_parse_schema", py_parse_schema, METH_O, nullptr},
    {"_get_schema", py_get_schema, METH_O, "The schema of an operator, by its qualified name."},
    {"_key_bits", py_key_bits, METH_O, nullptr},
    {"_key_names", py_key_names, METH_O, nullptr},
    {"_tensor_keys", py_tensor_keys, METH_O, nullptr},
    {"_tls_keys", py_tls_keys, METH_NOARGS, nullptr},
    {"_set_tls_keys", py_set_tls_keys, METH_VARARGS, nullptr},
    {"_autograd_key_bits", py_autograd_keys, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

const OpInfo* find_any_op(std::string_view qualified_name) { return find_registered_op(qualified_name); }

Ref ops_function(const char* name) {
  Ref m = checked_call(PyImport_ImportModule("tessera._ops"));
  return checked_call(PyObject_GetAttrString(m.get(), name));
}
PyObject* overload_object(const OpHeader& op) {
  if (auto known = overload_objects().find(&op); known != overload_objects().end()) return Py_NewRef(known->second);
  static constinit MadeOnce make;
  Ref made = checked_call(
      PyObject_CallFunction(make.get([] { return ops_function("_overload_of"); }), "ss", op.name, op.overload));
  auto [at, fresh] =
      overload_objects().try_emplace(&op, made.get());  // Python code ran: another thread may have been first
  if (fresh) made.release();
  return Py_NewRef(at->second);
}

void arguments_to_python(const OpInfo& info, const Value* args, size_t num_args, Ref* positional, Ref* keywords) {
  const FunctionSchema& schema = schema_of(info);
  Ref list = checked_call(PyList_New(0));
  *keywords = checked_call(PyDict_New());
  for (size_t i = 0; i < num_args; ++i) {
    Ref value = checked_call(to_python(args[i]));
    const SchemaArgument& a = schema.arguments[i];
    if (a.kwarg_only ? PyDict_SetItemString(keywords->get(), a.name.c_str(), value.get()) < 0
                     : PyList_Append(list.get(), value.get()) < 0)
      throw PythonError();
  }
  *positional = checked_call(PyList_AsTuple(list.get()));
}

namespace {
bool is_default(const SchemaArgument& a, PyObject* value) {
  if (!a.default_value) return false;
  Ref fallback = checked_call(default_object(*a.default_value).release());
  if (Py_TYPE(fallback.get()) != Py_TYPE(value)) return false;
  const int same = PyObject_RichCompareBool(fallback.get(), value, Py_EQ);
  if (same < 0) throw PythonError();
  return same;
}
}  // namespace

void call_as_written(const OpInfo& info, const Value* args, size_t num_args, Ref* positional, Ref* keywords,
                     PyObject* symbols) {
  const FunctionSchema& schema = schema_of(info);
  std::vector<Ref> given;
  size_t keep = 0;
  *keywords = checked_call(PyDict_New());
  for (size_t i = 0; i < num_args; ++i) {
    const SchemaArgument& a = schema.arguments[i];
    const bool number = args[i].is_tensor() && args[i].tensor().defined() && !args[i].tensor().is_meta() &&
                        args[i].tensor().impl()->is_wrapped_number();
    Ref position = symbols ? checked_call(PyLong_FromSize_t(i)) : Ref();
    PyObject* symbol = symbols ? PyDict_GetItemWithError(symbols, position.get()) : nullptr;
    Ref value = symbol ? Ref::borrow(symbol)
                       : checked_call(to_python(number ? Value::of(args[i].tensor().item_scalar()) : args[i]));
    const bool left_out = !symbol && is_default(a, value.get());
    if (!a.kwarg_only) {
      given.push_back(std::move(value));
      if (!left_out) keep = given.size();
    } else if (!left_out && PyDict_SetItemString(keywords->get(), a.name.c_str(), value.get()) < 0) {
      throw PythonError();
    }
  }
  *positional = checked_call(PyTuple_New(static_cast<Py_ssize_t>(keep)));
  for (size_t i = 0; i < keep; ++i) PyTuple_SET_ITEM(positional->get(), static_cast<Py_ssize_t>(i), given[i].release());
}

void results_from_python(const OpInfo& info, PyObject* result, Value* rets, size_t num_rets) {
  const FunctionSchema& schema = schema_of(info);
  auto convert = [&](PyObject* o, size_t i) {
    const SchemaType& type = schema.returns[i].type;
    if (is_symbolic_number(o)) {
      rets[i] = to_value(plain_result(*info.op, o).get(), type);
      return;
    }
    if (o == Py_None && type.is(TypeKind::kTensor)) {
      rets[i] = Value::none();
      return;
    }
    try {
      rets[i] = to_value(o, type);
    } catch (const TypeError&) {
      throw TypeError(str_cat("a kernel of ", schema.qualified_name(), " returned ", Py_TYPE(o)->tp_name,
                              " where its schema wants ", type.str_without_alias(), ": ", schema.str()));
    }
  };
  if (num_rets == 0) return;
  if (num_rets == 1) {
    convert(result, 0);
    return;
  }
  Ref fast = checked_call(PySequence_Fast(result, "a kernel of several results must return a tuple"));
  TESSERA_CHECK(static_cast<size_t>(PySequence_Fast_GET_SIZE(fast.get())) == num_rets, "a kernel of ",
                schema.qualified_name(), " returned ", PySequence_Fast_GET_SIZE(fast.get()), " values, its schema has ",
                num_rets);
  for (size_t i = 0; i < num_rets; ++i) convert(PySequence_Fast_GET_ITEM(fast.get(), static_cast<Py_ssize_t>(i)), i);
}

namespace {
// When the file is loaded: a program in C++ looks operators up by name without the module's start.
[[maybe_unused]] const bool g_ops_can_be_found = (set_linked_ops(&find_op), true);
}  // namespace

void init_library(PyObject* module) {
  g_dynamic_op_hooks = {&note_op, &refuse_tangents};
  check(PyModule_AddFunctions(module, g_functions));
  OpBaseType.tp_name = "torch._C._OpBase";
  OpBaseType.tp_basicsize = sizeof(PyOp);
  OpBaseType.tp_dealloc = op_dealloc;
  OpBaseType.tp_call = op_call;
  OpBaseType.tp_new = op_new;
  OpBaseType.tp_methods = g_op_methods;
  OpBaseType.tp_getset = g_op_getset;
  OpBaseType.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE;
  check(PyType_Ready(&OpBaseType));
  RegistrationType.tp_name = "torch._C._Registration";
  RegistrationType.tp_basicsize = sizeof(PyRegistration);
  RegistrationType.tp_dealloc = registration_dealloc;
  RegistrationType.tp_methods = g_registration_methods;
  RegistrationType.tp_flags = Py_TPFLAGS_DEFAULT;
  check(PyType_Ready(&RegistrationType));
  check(PyModule_AddObjectRef(module, "_OpBase", reinterpret_cast<PyObject*>(&OpBaseType)));
  init_dispatch_modes(module);
  init_fake(module);
}

}  // namespace tessera::python
