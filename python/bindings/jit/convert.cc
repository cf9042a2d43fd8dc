// Values of programs from Python objects and back.
#include "jit/interpreter.h"
#include "jit/object.h"
#include "python/bindings/args.h"
#include "python/bindings/errors.h"
#include "python/bindings/jit/jit.h"
#include "python/bindings/tensor_type.h"
#include "python/bindings/types.h"

namespace tessera::python {

using jit::K;
using jit::TypePtr;

PyObject* jit_host(const char* name) {
  static constinit MadeOnce module;
  PyObject* host = module.get([] { return Ref::steal(check(PyImport_ImportModule("tessera.jit._host"))); });
  return check(PyObject_GetAttrString(host, name));
}
namespace {
Ref call_host(const char* name, PyObject* a, PyObject* b = nullptr) {
  Ref f = Ref::steal(jit_host(name));
  return Ref::steal(check(PyObject_CallFunctionObjArgs(f.get(), a, b, nullptr)));
}

bool sequence_from(PyObject* o, TypePtr elem, std::vector<Value>* out) {
  Ref fast = Ref::steal(PySequence_Fast(o, "a list"));
  if (!fast) throw ErrorAlreadySet();
  const Py_ssize_t n = PySequence_Fast_GET_SIZE(fast.get());
  for (Py_ssize_t i = 0; i < n; ++i) {
    Value v;
    if (!jit_from_python(PySequence_Fast_GET_ITEM(fast.get(), i), elem, &v)) return false;
    out->push_back(std::move(v));
  }
  return true;
}
}  // namespace

// A number, or a tensor of one element.
static bool number_from(PyObject* o, Scalar* s) {
  if (!is_tensor(o)) return to_scalar(o, s) || (PyErr_Clear(), false);
  const Tensor& t = unwrap(o);
  if (t.numel() != 1) return false;
  *s = t.item_scalar();
  return true;
}

// The list or dict of a program that a Python object stands for (jit/_data.py).
static bool shared_data(PyObject* o, TypePtr t, Value* out) {
  Ref held = Ref::steal(PyObject_GetAttrString(o, "_data"));
  if (!held) return PyErr_Clear(), false;
  if (Py_TYPE(held.get()) != &JitObjectType || !same(jit::type_of(boxed<Value>(held.get())), t)) return false;
  *out = boxed<Value>(held.get());
  return true;
}

bool jit_from_python(PyObject* o, TypePtr t, Value* out) {
  switch (t->kind) {
    case K::kTensor:
      if (is_tensor(o)) {
        *out = Value::of(Tensor(unwrap(o)));
        return true;
      }
      return false;
    case K::kInt: {
      if (is_dtype(o)) return *out = Value::of(jit::dtype_number(unwrap_dtype(o))), true;
      if (is_layout(o)) return *out = Value::of(static_cast<int64_t>(unwrap_layout(o))), true;
      if (is_memory_format(o)) return *out = Value::of(static_cast<int64_t>(unwrap_memory_format(o))), true;
      int64_t i = 0;
      if (Scalar s; is_tensor(o)) return number_from(o, &s) && !s.is_complex() && (*out = Value::of(s.to_int()), true);
      if (PyFloat_Check(o) || !to_int64(o, &i)) return PyErr_Clear(), false;
      *out = Value::of(i);
      return true;
    }
    case K::kFloat: {
      Scalar s;
      if (!number_from(o, &s) || s.is_complex()) return false;
      *out = Value::of(s.to_double());
      return true;
    }
    case K::kComplex: {
      Scalar s;
      if (!number_from(o, &s)) return false;
      *out = Value::of(s.to_complex());
      return true;
    }
    case K::kNumber: {
      Scalar s;
      if (!number_from(o, &s)) return false;
      *out = Value::of(s);
      return true;
    }
    case K::kBool: {
      Scalar s;
      if (!number_from(o, &s)) return false;
      *out = Value::of(s.to_bool());
      return true;
    }
    case K::kStr:
      if (!PyUnicode_Check(o)) return false;
      *out = Value::of(from_python_string(o));
      return true;
    case K::kNone:
      *out = Value();
      return o == Py_None;
    case K::kDevice:
      if (!is_device(o) && !PyUnicode_Check(o)) return false;
      *out = Value::of(to_device(o));
      return true;
    case K::kGenerator:
      if (!is_generator(o)) return false;
      *out = Value::of(Generator(unwrap_generator(o)));
      return true;
    case K::kOptional:
      if (o == Py_None) return *out = Value(), true;
      return jit_from_python(o, t->elem(), out);
    case K::kUnion:
      for (TypePtr m : t->elems) {  // a tensor, a bool or an int is one first
        if (is_tensor(o) != m->is(K::kTensor) && (is_tensor(o) || m->is(K::kTensor))) continue;
        if (m->is(K::kBool) != static_cast<bool>(PyBool_Check(o)) && (m->is(K::kBool) || PyBool_Check(o))) continue;
        if (m->is(K::kFloat) && PyLong_Check(o)) continue;
        if (jit_from_python(o, m, out)) return true;
      }
      for (TypePtr m : t->elems)
        if (jit_from_python(o, m, out)) return true;
      return false;
    case K::kList: {
      Ref numbers;
      if (PyRange_Check(o)) numbers = Ref::steal(check(PySequence_List(o))), o = numbers.get();
      if (!PyList_Check(o) && !PyTuple_Check(o)) return shared_data(o, t, out);
      std::vector<Value> items;
      if (!sequence_from(o, t->elem(), &items)) return false;
      *out = jit::make_value<jit::List>(t->elem(), std::move(items));
      return true;
    }
    case K::kTuple: {
      if (!PyTuple_Check(o) && !PyList_Check(o)) return false;
      if (PySequence_Fast_GET_SIZE(o) != static_cast<Py_ssize_t>(t->elems.size())) return false;
      std::vector<Value> items(t->elems.size());
      for (size_t i = 0; i < items.size(); ++i)
        if (!jit_from_python(PySequence_Fast_GET_ITEM(o, static_cast<Py_ssize_t>(i)), t->elems[i], &items[i]))
          return false;
      *out = jit::make_value<jit::Tuple>(t, std::move(items));
      return true;
    }
    case K::kDict: {
      if (!PyDict_Check(o)) return shared_data(o, t, out);
      auto d = make_intrusive<jit::Dict>(t->elem(0), t->elem(1));
      PyObject *k, *v;
      Py_ssize_t at = 0;
      while (PyDict_Next(o, &at, &k, &v)) {
        Value key, value;
        if (!jit_from_python(k, t->elem(0), &key) || !jit_from_python(v, t->elem(1), &value)) return false;
        d->set(key, std::move(value));
      }
      *out = jit::wrap(std::move(d));
      return true;
    }
    case K::kEnum: {
      Ref name = Ref::steal(PyObject_GetAttrString(o, "name"));
      if (!name || !PyUnicode_Check(name.get())) return PyErr_Clear(), false;
      const std::string text = from_python_string(name.get());
      for (size_t i = 0; i < t->def->items.size(); ++i)
        if (t->def->items[i].name == text) return *out = jit::make_value<jit::EnumItem>(t->def, i), true;
      return false;
    }
    case K::kClass:
    case K::kInterface: {
      Ref made = Py_TYPE(o) == &JitObjectType ? Ref::borrow(o) : Ref();
      if (!made) {
        Ref type = Ref::steal(wrap_type(t));
        made = call_host("object_of", o, type.get());
        if (made.get() == Py_None) return false;
      }
      if (Py_TYPE(made.get()) != &JitObjectType) return false;
      const Value& v = boxed<Value>(made.get());
      if (!is_subtype(jit::type_of(v), t)) return false;
      *out = v;
      return true;
    }
    case K::kFuture: {
      Ref value = call_host("wait_for", o);
      auto f = make_intrusive<jit::FutureObject>(t->elem());
      if (!jit_from_python(value.get(), t->elem(), &f->value)) return false;
      *out = jit::wrap(std::move(f));
      return true;
    }
    case K::kAny: {
      Ref type = call_host("type_of_value", o);
      if (!is_jit_type(type.get())) return false;
      TypePtr own = boxed<TypePtr>(type.get());
      return !own->is(K::kAny) && jit_from_python(o, own, out);
    }
    default:
      return false;
  }
}

PyObject* jit_new_data(PyObject*, PyObject* args) {
  return jit_guarded([&]() -> PyObject* {
    PyObject *type, *o;
    if (!PyArg_ParseTuple(args, "O!O", &JitTypeType, &type, &o)) throw ErrorAlreadySet();
    Value v;
    if (!jit_from_python(o, boxed<TypePtr>(type), &v))
      throw TypeError(str_cat("expected ", boxed<TypePtr>(type)->annotation(), ", got ", Py_TYPE(o)->tp_name));
    return wrap_object(v);
  });
}
PyObject* jit_data_of(PyObject*, PyObject* o) {
  return jit_guarded([&] {
    if (Py_TYPE(o) != &JitObjectType) throw TypeError("expected an object of a program");
    return jit_to_python(boxed<Value>(o));
  });
}

PyObject* jit_to_python(const Value& v) {
  if (v.tag() != Value::Tag::kObject) return to_python(v);
  const jit::Object* o = jit::object_of(v);
  if (!o) throw TypeError("a value of this kind has no Python form");
  const auto sequence = [](const std::vector<Value>& items, bool tuple) {
    const Py_ssize_t n = static_cast<Py_ssize_t>(items.size());
    Ref r = Ref::steal(check(tuple ? PyTuple_New(n) : PyList_New(n)));
    for (Py_ssize_t i = 0; i < n; ++i) {
      PyObject* e = check(jit_to_python(items[static_cast<size_t>(i)]));
      tuple ? PyTuple_SET_ITEM(r.get(), i, e) : PyList_SET_ITEM(r.get(), i, e);
    }
    return r;
  };
  switch (o->kind) {
    case jit::ObjectKind::kList:
      return sequence(static_cast<const jit::List*>(o)->items, false).release();
    case jit::ObjectKind::kTuple: {
      const auto* t = static_cast<const jit::Tuple*>(o);
      Ref items = sequence(t->items, true);
      if (!t->type || t->type->name.empty()) return items.release();
      Ref type = Ref::steal(wrap_type(t->type));
      return call_host("named_tuple_of", type.get(), items.get()).release();
    }
    case jit::ObjectKind::kDict: {
      Ref d = Ref::steal(check(PyDict_New()));
      for (const auto& [k, e] : static_cast<const jit::Dict*>(o)->items) {
        Ref key = Ref::steal(jit_to_python(k)), value = Ref::steal(jit_to_python(e));
        check(PyDict_SetItem(d.get(), key.get(), value.get()));
      }
      return d.release();
    }
    case jit::ObjectKind::kEnumItem: {
      const auto* e = static_cast<const jit::EnumItem*>(o);
      Ref type = Ref::steal(wrap_type(e->def->type));
      Ref name = to_python_string(e->item().name);
      return call_host("enum_item_of", type.get(), name.get()).release();
    }
    case jit::ObjectKind::kInstance: {
      Ref object = Ref::steal(wrap_object(v));
      return call_host("wrapped", object.get()).release();
    }
    case jit::ObjectKind::kFuture: {
      Value result;
      try {
        GilRelease free;  // the task may need Python
        result = static_cast<const jit::FutureObject*>(o)->wait();
      } catch (const jit::RunError& e) {
        Ref message = to_python_string(e.what());
        return call_host("failed_future", message.get()).release();
      }
      Ref value = Ref::steal(jit_to_python(result));
      return call_host("done_future", value.get()).release();
    }
    default:
      throw TypeError("a value of this kind has no Python form");
  }
}

}  // namespace tessera::python
