#include "python/bindings/tensor_type.h"

#include <structmember.h>

#include <cstddef>

#include "python/bindings/convert/create.h"
#include "python/bindings/indexing.h"
#include "python/bindings/jit/traced.h"
#include "python/bindings/library/fake.h"
#include "python/bindings/library/library.h"
#include "python/bindings/operators.h"
#include "python/bindings/torch_function.h"
#include "python/bindings/types.h"

namespace tessera {
extern bool (*outlived_by_pyobject)(TensorImpl*);  // tensor/core/tensor_impl.cc
}

namespace tessera::python {

PyTypeObject* TensorType = nullptr;

namespace {

// Spare objects of the exact type: making and dropping a result costs no malloc. Guarded by the GIL.
constexpr int kSpare = 256;
PyTensor* g_spare[kSpare];
int g_num_spare = 0;

PyTensor* as(PyObject* o) { return reinterpret_cast<PyTensor*>(o); }

PyTensor* new_exact() {
  if (g_num_spare > 0) {
    PyTensor* p = g_spare[--g_num_spare];
    Py_INCREF(TensorType);
    new_reference(reinterpret_cast<PyObject*>(p));
    return p;
  }
  PyTensor* p = PyObject_GC_New(PyTensor, TensorType);
  if (!p) throw ErrorAlreadySet();
  return p;
}

void attach(PyTensor* p, Tensor t) {
  p->dict = nullptr;
  p->weakrefs = nullptr;
  p->owned_by_impl = false;
  p->impl = t.leak();
  p->impl->pyobject.store(p, std::memory_order_release);
}

// The tensor lives on in C++ and the object carries something that would be lost: the tensor takes over the reference.
bool try_resurrect(PyTensor* p) {
  TensorImpl* impl = p->impl;
  if (!impl || p->owned_by_impl || impl->use_count() <= 1) return false;
  if (Py_TYPE(p) == TensorType && !p->dict && !p->weakrefs) return false;
  Py_INCREF(p);
  p->owned_by_impl = true;
  impl->owns_pyobject = true;
  impl->release();  // not the last one
  return true;
}

void drop_impl(PyTensor* p) {
  TensorImpl* impl = std::exchange(p->impl, nullptr);
  if (!impl) return;
  if (p->owned_by_impl) return;  // the tensor itself is dying and let go of us
  impl->pyobject.store(nullptr, std::memory_order_release);
  impl->release();
}

void tensor_finalize(PyObject* self) { try_resurrect(as(self)); }

void tensor_dealloc(PyObject* self) {
  PyTensor* p = as(self);
  const bool exact = Py_TYPE(self) == TensorType;
  if (exact && (p->dict || p->weakrefs)) {
    if (try_resurrect(p)) return;
  }
  PyObject_GC_UnTrack(self);
  if (p->weakrefs) PyObject_ClearWeakRefs(self);
  Py_CLEAR(p->dict);
  drop_impl(p);
  PyTypeObject* type = Py_TYPE(self);
  if (exact && g_num_spare < kSpare) {
    g_spare[g_num_spare++] = p;
  } else {
    type->tp_free(self);
  }
  Py_DECREF(type);
}

int tensor_traverse(PyObject* self, visitproc visit, void* arg) {
  PyTensor* p = as(self);
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(p->dict);
  return 0;
}
int tensor_clear(PyObject* self) {
  Py_CLEAR(as(self)->dict);
  return 0;
}

// Tensors without attributes can't be in a cycle: the collector need not know them until they get one.
int tensor_setattro(PyObject* self, PyObject* name, PyObject* value) {
  const int r = PyObject_GenericSetAttr(self, name, value);
  if (as(self)->dict && !PyObject_GC_IsTracked(self)) PyObject_GC_Track(self);
  return r;
}

PyObject* get_dict(PyObject* self, void*) {
  PyObject* d = PyObject_GenericGetDict(self, nullptr);
  if (d && !PyObject_GC_IsTracked(self)) PyObject_GC_Track(self);
  return d;
}

PyObject* tensor_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  return guarded([&] { return legacy_constructor(type, args, kwargs); });
}

Py_ssize_t tensor_length(PyObject* self) {
  const Tensor& t = unwrap(self);
  if (t.dim() == 0) {
    PyErr_SetString(PyExc_TypeError, "len() of a 0-d tensor");
    return -1;
  }
  int failed = 0;
  if (needs_torch_function(&self, 1)) [[unlikely]] {
    static PyObject* slot = nullptr;
    Py_ssize_t n = -1;
    failed = guarded_int([&] {
      n = PyNumber_AsSsize_t(overridden_slot(slot, "__len__", self).get(), PyExc_OverflowError);
      if (n < 0 && PyErr_Occurred()) throw ErrorAlreadySet();
    });
    return failed ? -1 : n;
  }
  if (jit::current_trace()) [[unlikely]]
    failed = guarded_int([] { warn_of_trace("length", ""); });
  return failed ? -1 : t.sizes()[0];
}

PyGetSetDef g_dict_getset[] = {{"__dict__", get_dict, PyObject_GenericSetDict, nullptr, nullptr},
                               {nullptr, nullptr, nullptr, nullptr, nullptr}};
PyMemberDef g_members[] = {{"__dictoffset__", T_PYSSIZET, offsetof(PyTensor, dict), READONLY, nullptr},
                           {"__weaklistoffset__", T_PYSSIZET, offsetof(PyTensor, weakrefs), READONLY, nullptr},
                           {nullptr, 0, 0, 0, nullptr}};

bool hands_over(TensorImpl* impl) {
  bool outlived = false;
  with_python([&] {
    auto* o = static_cast<PyObject*>(impl->pyobject.load());
    if (!o || Py_REFCNT(o) < 2) return;
    outlived = true;
    if (impl->use_count() == 0) impl->retain();  // a sole owner leaves without counting
    impl->owns_pyobject = as(o)->owned_by_impl = false;
    Py_DECREF(o);
  });
  return outlived;
}

void release_pyobject(void* o) {
  // From a tensor's destructor, on any thread, perhaps after the interpreter has gone.
  if (!o) return;
  with_python([&] {
    as(static_cast<PyObject*>(o))->impl = nullptr;
    Py_DECREF(static_cast<PyObject*>(o));
  });
}

}  // namespace

void forget_finalized(PyObject* self) {
  if (PyType_IS_GC(Py_TYPE(self))) reinterpret_cast<uintptr_t*>(self)[-1] &= ~uintptr_t{1};
}

PyObject* wrap(Tensor t) {
  if (!t.defined()) return none();
  if (auto* known = static_cast<PyTensor*>(t.impl()->pyobject.load(std::memory_order_acquire))) {
    if (known->owned_by_impl) {
      known->owned_by_impl = false;
      forget_finalized(reinterpret_cast<PyObject*>(known));
      t.impl()->owns_pyobject = false;
      t.leak();  // our reference becomes the object's
      return reinterpret_cast<PyObject*>(known);
    }
    Py_INCREF(known);
    return reinterpret_cast<PyObject*>(known);
  }
  PyTypeObject* type = t.keys().has(DispatchKey::kPython) ? fake_type_of(*t.impl()) : nullptr;
  PyTensor* p = type ? as(check(type->tp_alloc(type, 0))) : new_exact();
  attach(p, std::move(t));
  return reinterpret_cast<PyObject*>(p);
}

PyObject* wrap_as(PyTypeObject* type, Tensor t) {
  if (type == TensorType) return wrap(std::move(t));
  TESSERA_CHECK(t.defined() && !t.impl()->pyobject.load(),
                "this tensor has a Python object already; make an alias first");
  PyTensor* p = as(check(type->tp_alloc(type, 0)));
  if (overrides_torch_dispatch(type)) t.impl()->set_key(DispatchKey::kPython, true);
  attach(p, std::move(t));
  return reinterpret_cast<PyObject*>(p);
}

void init_tensor_type(PyObject* module) {
  static std::string name = std::string(display_name()) + ".Tensor";
  static std::vector<PyGetSetDef> getset;
  for (PyGetSetDef* g = g_dict_getset; g->name; ++g) getset.push_back(*g);
  for (const PyGetSetDef& g : tensor_getters()) getset.push_back(g);
  static std::vector<PyMethodDef> methods = tensor_methods();
  std::vector<PyType_Slot> slots = {
      {Py_tp_new, reinterpret_cast<void*>(tensor_new)},
      {Py_tp_dealloc, reinterpret_cast<void*>(tensor_dealloc)},
      {Py_tp_finalize, reinterpret_cast<void*>(tensor_finalize)},
      {Py_tp_traverse, reinterpret_cast<void*>(tensor_traverse)},
      {Py_tp_clear, reinterpret_cast<void*>(tensor_clear)},
      {Py_tp_setattro, reinterpret_cast<void*>(tensor_setattro)},
      {Py_tp_getset, getset.data()},
      {Py_tp_methods, methods.data()},
      {Py_tp_members, g_members},
      {Py_mp_length, reinterpret_cast<void*>(tensor_length)},
      {Py_mp_subscript, reinterpret_cast<void*>(tensor_getitem)},
      {Py_mp_ass_subscript, reinterpret_cast<void*>(tensor_setitem)},
  };
  add_number_slots(slots);
  slots.push_back({0, nullptr});
  static PyType_Spec spec = {name.c_str(), sizeof(PyTensor), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, slots.data()};
  spec.slots = slots.data();
  TensorType = reinterpret_cast<PyTypeObject*>(check(PyType_FromSpec(&spec)));
  TensorImpl::release_pyobject = &release_pyobject;
  outlived_by_pyobject = &hands_over;
  PyModule_AddObjectRef(module, "TensorBase", reinterpret_cast<PyObject*>(TensorType));
}

}  // namespace tessera::python
