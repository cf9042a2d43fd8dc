// Python functions as hooks of tensors, nodes and saved values. Hooks live in an OrderedDict, so that a RemovableHandle
// can take them out; the C++ side holds one hook object for each dictionary.
#include "autograd/variable.h"
#include "python/bindings/autograd/autograd.h"
#include "python/bindings/tensor_type.h"

namespace tessera::python {
namespace {

using autograd::Node;
using autograd::variable_list;

Ref attribute_of(const char* module, const char* name) {
  Ref m = Ref::steal(check(PyImport_ImportModule(module)));
  return Ref::steal(check(PyObject_GetAttrString(m.get(), name)));
}
Ref new_dict() {
  static constinit MadeOnce type;
  return Ref::steal(check(PyObject_CallNoArgs(type.get([] { return attribute_of("collections", "OrderedDict"); }))));
}
// Puts the hook into the dictionary; returns the handle that takes it out.
PyObject* add_to_dict(PyObject* dict, PyObject* hook) {
  static constinit MadeOnce type;
  Ref handle = Ref::steal(check(
      PyObject_CallOneArg(type.get([] { return attribute_of("tessera.utils.hooks", "RemovableHandle"); }), dict)));
  Ref id = Ref::steal(check(PyObject_GetAttrString(handle.get(), "id")));
  check(PyObject_SetItem(dict, id.get(), hook));
  return handle.release();
}
// The hooks as they are now: one may remove itself.
Ref hooks_of(PyObject* dict) { return checked_call(PyMapping_Values(dict)); }
std::string hook_name(PyObject* hook) {
  Ref name = Ref::steal(PyObject_GetAttrString(hook, "__name__"));
  if (!name || !PyUnicode_Check(name.get())) {
    PyErr_Clear();
    return "<unknown>";
  }
  return PyUnicode_AsUTF8(name.get());
}
void check_callable(PyObject* hook) {
  if (!PyCallable_Check(hook)) throw TypeError(str_cat("a hook must be callable, got ", Py_TYPE(hook)->tp_name));
}

Ref to_tuple(const variable_list& l) {
  Ref t = checked_call(PyTuple_New(static_cast<Py_ssize_t>(l.size())));
  for (size_t i = 0; i < l.size(); ++i)
    PyTuple_SET_ITEM(t.get(), static_cast<Py_ssize_t>(i), checked_call(wrap_or_none(l[i])).release());
  return t;
}
Tensor checked_result(PyObject* hook, PyObject* result, const Tensor& original) {
  if (result == Py_None) return Tensor();
  if (!is_tensor(result))
    throw TypeError(
        str_cat("expected Variable, but hook '", hook_name(hook), "' returned '", Py_TYPE(result)->tp_name, "'"));
  const Tensor& t = unwrap(result);
  if (!original.defined()) return t;
  TESSERA_CHECK(t.dtype() == original.dtype(), "hook '", hook_name(hook), "' has changed the type of value (was ",
                name_of(original.dtype()), " got ", name_of(t.dtype()), ")");
  TESSERA_CHECK(t.device().type == original.device().type, "hook '", hook_name(hook),
                "' has changed the type of value (its device was ", original.device().str(), ", got ", t.device().str(),
                ")");
  TESSERA_CHECK(std::ranges::equal(t.sizes(), original.sizes()), "hook '", hook_name(hook),
                "' has changed the size of value");
  return t;
}
// None leaves the values as they are; a tuple of the same length (one tensor for one value) replaces them.
void replace_values(PyObject* hook, PyObject* result, variable_list& values) {
  if (result == Py_None) return;
  Ref tuple = PyTuple_Check(result)  ? Ref::borrow(result)
              : PyList_Check(result) ? checked_call(PyList_AsTuple(result))
                                     : checked_call(PyTuple_Pack(1, result));
  TESSERA_CHECK(static_cast<size_t>(PyTuple_GET_SIZE(tuple.get())) == values.size(), "hook '", hook_name(hook),
                "' has returned an incorrect number of values (got ", PyTuple_GET_SIZE(tuple.get()), ", but expected ",
                values.size(), ")");
  variable_list fresh(values.size());
  for (size_t i = 0; i < values.size(); ++i)
    fresh[i] = checked_result(hook, PyTuple_GET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i)), values[i]);
  for (size_t i = 0; i < values.size(); ++i) values[i] = std::move(fresh[i]);
}

// What all of them hold.
template <class Base>
struct DictHook : public Base {
  explicit DictHook(Ref d) : dict(d.release()) {}
  ~DictHook() override { drop_reference(dict); }
  PyObject* dict;
};

struct PyTensorHook final : public DictHook<autograd::TensorHook> {
  using DictHook::DictHook;
  Tensor call(const Tensor& grad) override {
    GilAcquire gil;
    Ref hooks = hooks_of(dict);
    Tensor now = grad;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(hooks.get()); ++i) {
      PyObject* f = PyList_GET_ITEM(hooks.get(), i);
      Ref value = checked_call(wrap(now));
      Ref result = checked_call(PyObject_CallOneArg(f, value.get()));
      if (Tensor t = checked_result(f, result.get(), now); t.defined()) now = std::move(t);
    }
    return now.is_same(grad) ? Tensor() : now;
  }
};
struct PyAccumulateHook final : public DictHook<autograd::PostAccumulateHook> {
  using DictHook::DictHook;
  void call(const Tensor& leaf) override {
    GilAcquire gil;
    Ref hooks = hooks_of(dict), value = checked_call(wrap(leaf));
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(hooks.get()); ++i) {
      PyObject* f = PyList_GET_ITEM(hooks.get(), i);
      const Ref result = checked_call(PyObject_CallOneArg(f, value.get()));
      TESSERA_CHECK(result.get() == Py_None,
                    "Tensor post accumulate grad hooks should return None, but one returned a ",
                    Py_TYPE(result.get())->tp_name);
    }
  }
};
struct PyPreHook final : public DictHook<autograd::NodePreHook> {
  using DictHook::DictHook;
  variable_list call(variable_list&& grads) override {
    GilAcquire gil;
    Ref hooks = hooks_of(dict);
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(hooks.get()); ++i) {
      PyObject* f = PyList_GET_ITEM(hooks.get(), i);
      Ref value = to_tuple(grads);
      Ref result = checked_call(PyObject_CallOneArg(f, value.get()));
      replace_values(f, result.get(), grads);
    }
    return std::move(grads);
  }
};
struct PyPostHook final : public DictHook<autograd::NodePostHook> {
  using DictHook::DictHook;
  variable_list call(variable_list&& outputs, const variable_list& inputs) override {
    GilAcquire gil;
    Ref hooks = hooks_of(dict), given = to_tuple(inputs);
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(hooks.get()); ++i) {
      PyObject* f = PyList_GET_ITEM(hooks.get(), i);
      Ref value = to_tuple(outputs);
      Ref result = checked_call(PyObject_CallFunctionObjArgs(f, value.get(), given.get(), nullptr));
      replace_values(f, result.get(), outputs);
    }
    return std::move(outputs);
  }
};

struct PyPackHooks final : public autograd::PackHooks {
  PyPackHooks(PyObject* p, PyObject* u) : pack_(Py_NewRef(p)), unpack_(Py_NewRef(u)) {}
  ~PyPackHooks() override {
    drop_reference(pack_);
    drop_reference(unpack_);
  }
  PyObject* unpack_function() const { return unpack_; }
  IntrusivePtr<RefCounted> pack(const Tensor& t) override {
    GilAcquire gil;
    Ref value = checked_call(wrap(t));
    return make_intrusive<PyHolder>(checked_call(PyObject_CallOneArg(pack_, value.get())));
  }
  Tensor unpack(const IntrusivePtr<RefCounted>& packed) override {
    GilAcquire gil;
    Ref r = checked_call(PyObject_CallOneArg(unpack_, static_cast<PyHolder&>(*packed).object));
    if (!is_tensor(r.get()))
      throw TypeError(str_cat("Output of saved tensor unpack_hook expected to be a Tensor but got result of type ",
                              Py_TYPE(r.get())->tp_name));
    return unwrap(r.get());
  }

 private:
  PyObject *pack_, *unpack_;
};

}  // namespace

PyObject* unpack_function(autograd::PackHooks* hooks) {
  auto* mine = dynamic_cast<PyPackHooks*>(hooks);
  return mine ? Py_NewRef(mine->unpack_function()) : none();
}

namespace {
template <class Mine, class Hook>
Mine* find_hook(autograd::HookList<Hook>& list, uint32_t output_nr) {
  for (auto& e : list.entries)
    if (auto* mine = e.output_nr == output_nr ? dynamic_cast<Mine*>(e.hook.get()) : nullptr) return mine;
  return nullptr;
}
autograd::LeafHooks* leaf_hooks(const Tensor& t) {
  AutogradMeta* m = t.impl()->autograd_meta();
  return m ? dynamic_cast<autograd::LeafHooks*>(m->hooks.get()) : nullptr;
}
PyTensorHook* tensor_hooks(const Tensor& t) {
  if (IntrusivePtr<Node> fn = autograd::grad_fn(t))
    return fn->hooks_or_null() ? find_hook<PyTensorHook>(fn->hooks().tensor, t.output_nr()) : nullptr;
  autograd::LeafHooks* l = leaf_hooks(t);
  return l ? find_hook<PyTensorHook>(l->pre, 0) : nullptr;
}
PyAccumulateHook* accumulate_hooks(const Tensor& t) {
  autograd::LeafHooks* l = leaf_hooks(t);
  return l ? find_hook<PyAccumulateHook>(l->post_accumulate, 0) : nullptr;
}

const Tensor& tensor_of(PyObject* o) {
  if (!is_tensor(o)) throw TypeError(str_cat("expected a Tensor, got ", Py_TYPE(o)->tp_name));
  return unwrap(o);
}
PyObject* py_register_hook(PyObject*, PyObject* args) {
  return guarded([&] {
    PyObject *tensor, *hook;
    if (!PyArg_ParseTuple(args, "OO", &tensor, &hook)) throw ErrorAlreadySet();
    const Tensor& t = tensor_of(tensor);
    TESSERA_CHECK(t.requires_grad(), "cannot register a hook on a tensor that doesn't require gradient");
    check_callable(hook);
    PyTensorHook* known = tensor_hooks(t);
    if (known) return add_to_dict(known->dict, hook);
    Ref dict = new_dict();
    autograd::add_hook(t, make_intrusive<PyTensorHook>(dict));
    return add_to_dict(dict.get(), hook);
  });
}
PyObject* py_register_accumulate_hook(PyObject*, PyObject* args) {
  return guarded([&] {
    PyObject *tensor, *hook;
    if (!PyArg_ParseTuple(args, "OO", &tensor, &hook)) throw ErrorAlreadySet();
    const Tensor& t = tensor_of(tensor);
    TESSERA_CHECK(t.requires_grad(), "cannot register a hook on a tensor that doesn't require gradient");
    TESSERA_CHECK(!autograd::grad_fn(t), "post accumulate grad hooks cannot be registered on non-leaf tensors");
    check_callable(hook);
    PyAccumulateHook* known = accumulate_hooks(t);
    if (known) return add_to_dict(known->dict, hook);
    Ref dict = new_dict();
    autograd::add_post_accumulate_hook(t, make_intrusive<PyAccumulateHook>(dict));
    return add_to_dict(dict.get(), hook);
  });
}

// Tensor._backward_hooks and _post_accumulate_grad_hooks: the dictionaries, or None.
PyObject* get_backward_hooks(PyObject* self, void*) {
  return guarded([&] {
    PyTensorHook* h = tensor_hooks(unwrap(self));
    return h ? Py_NewRef(h->dict) : none();
  });
}
PyObject* get_accumulate_hooks(PyObject* self, void*) {
  return guarded([&] {
    PyAccumulateHook* h = accumulate_hooks(unwrap(self));
    return h ? Py_NewRef(h->dict) : none();
  });
}
void check_dict(PyObject* value) {
  if (!PyDict_Check(value)) throw TypeError(str_cat("expected a dictionary of hooks, got ", Py_TYPE(value)->tp_name));
}
template <class Mine, class Hook>
void erase_hook(autograd::HookList<Hook>& list, Mine* hook) {
  if (!hook) return;
  std::erase_if(list.entries, [&](const auto& e) { return static_cast<Hook*>(hook) == e.hook.get(); });
}
int set_backward_hooks(PyObject* self, PyObject* value, void*) {
  return guarded_int([&] {
    const Tensor& t = unwrap(self);
    const bool clear = !value || value == Py_None;
    if (!clear) check_dict(value);
    if (PyTensorHook* old = tensor_hooks(t)) {
      if (IntrusivePtr<Node> fn = autograd::grad_fn(t))
        erase_hook(fn->hooks().tensor, old);
      else
        erase_hook(leaf_hooks(t)->pre, old);
    }
    if (!clear && (PyDict_Size(value) > 0 || t.requires_grad()))
      autograd::add_hook(t, make_intrusive<PyTensorHook>(Ref::borrow(value)));
  });
}
int set_accumulate_hooks(PyObject* self, PyObject* value, void*) {
  return guarded_int([&] {
    const Tensor& t = unwrap(self);
    const bool clear = !value || value == Py_None;
    if (!clear) check_dict(value);
    if (PyAccumulateHook* old = accumulate_hooks(t)) erase_hook(leaf_hooks(t)->post_accumulate, old);
    if (!clear && (PyDict_Size(value) > 0 || t.requires_grad()))
      autograd::add_post_accumulate_hook(t, make_intrusive<PyAccumulateHook>(Ref::borrow(value)));
  });
}

PyObject* py_push_hooks(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject *pack, *unpack;
    if (!PyArg_ParseTuple(args, "OO", &pack, &unpack)) throw ErrorAlreadySet();
    autograd::push_pack_hooks(make_pack_hooks(pack, unpack));
    return none();
  });
}
PyObject* py_pop_hooks(PyObject*, PyObject*) {
  return guarded([&]() -> PyObject* {
    TESSERA_CHECK(autograd::current_pack_hooks(), "there are no hooks on saved tensors to remove");
    autograd::pop_pack_hooks();
    return none();
  });
}
PyObject* py_disable_hooks(PyObject*, PyObject* message) {
  return guarded([&]() -> PyObject* {
    if (!PyUnicode_Check(message))
      throw TypeError(str_cat("expected a message (str), got ", Py_TYPE(message)->tp_name));
    autograd::disable_pack_hooks(from_python_string(message));
    return none();
  });
}
PyObject* py_enable_hooks(PyObject*, PyObject*) {
  autograd::enable_pack_hooks();
  return none();
}
PyObject* py_hooks_message(PyObject*, PyObject*) {
  return guarded([&] {
    const std::string* m = autograd::pack_hooks_disabled_message();
    return m ? to_python_string(*m).release() : none();
  });
}
PyObject* py_hooks_enabled(PyObject*, PyObject*) {
  return to_python(autograd::pack_hooks_disabled_message() == nullptr);
}

PyObject* tensor_retain_grad(PyObject* self, PyObject*) {
  return guarded([&]() -> PyObject* {
    autograd::retain_grad(unwrap(self));
    return none();
  });
}

PyMethodDef g_methods[] = {{"_register_hook", py_register_hook, METH_VARARGS, nullptr},
                           {"_register_post_accumulate_grad_hook", py_register_accumulate_hook, METH_VARARGS, nullptr},
                           {"_push_saved_tensors_default_hooks", py_push_hooks, METH_VARARGS, nullptr},
                           {"_pop_saved_tensors_default_hooks", py_pop_hooks, METH_NOARGS, nullptr},
                           {"_saved_tensors_hooks_disable", py_disable_hooks, METH_O, nullptr},
                           {"_saved_tensors_hooks_enable", py_enable_hooks, METH_NOARGS, nullptr},
                           {"_saved_tensors_hooks_is_enabled", py_hooks_enabled, METH_NOARGS, nullptr},
                           {"_saved_tensors_hooks_get_disabled_error_message", py_hooks_message, METH_NOARGS, nullptr},
                           {nullptr, nullptr, 0, nullptr}};
PyMethodDef g_retain_grad = {"retain_grad", tensor_retain_grad, METH_NOARGS,
                             "Keeps the gradient of this tensor in .grad although it is no leaf. Raises: RuntimeError "
                             "if it requires no gradient."};
PyGetSetDef g_tensor_getset[] = {
    {"_backward_hooks", get_backward_hooks, set_backward_hooks, nullptr, nullptr},
    {"_post_accumulate_grad_hooks", get_accumulate_hooks, set_accumulate_hooks, nullptr, nullptr}};

}  // namespace

IntrusivePtr<autograd::PackHooks> make_pack_hooks(PyObject* pack, PyObject* unpack) {
  if (!PyCallable_Check(pack) || !PyCallable_Check(unpack))
    throw TypeError("pack_hook and unpack_hook must be callable");
  return make_intrusive<PyPackHooks>(pack, unpack);
}

PyObject* node_register_hook(PyObject* self, PyObject* hook) {
  return guarded([&] {
    check_callable(hook);
    auto& list = node_of(self)->hooks().post;
    PyPostHook* known = find_hook<PyPostHook>(list, 0);
    if (known) return add_to_dict(known->dict, hook);
    Ref dict = new_dict();
    list.entries.push_back({autograd::next_hook_id(), 0, make_intrusive<PyPostHook>(dict)});
    return add_to_dict(dict.get(), hook);
  });
}
// hooks: the dictionary of a tensor (Tensor._backward_hooks), which runs on the gradient of the node's first output.
PyObject* node_register_hook_dict(PyObject* self, PyObject* hooks) {
  return guarded([&]() -> PyObject* {
    if (!PyDict_Check(hooks)) throw TypeError(str_cat("expected a dictionary of hooks, got ", Py_TYPE(hooks)->tp_name));
    node_of(self)->hooks().tensor.entries.push_back(
        {autograd::next_hook_id(), 0, make_intrusive<PyTensorHook>(Ref::borrow(hooks))});
    return none();
  });
}
PyObject* node_register_prehook(PyObject* self, PyObject* hook) {
  return guarded([&] {
    check_callable(hook);
    auto& list = node_of(self)->hooks().pre;
    PyPreHook* known = find_hook<PyPreHook>(list, 0);
    if (known) return add_to_dict(known->dict, hook);
    Ref dict = new_dict();
    list.entries.push_back({autograd::next_hook_id(), 0, make_intrusive<PyPreHook>(dict)});
    return add_to_dict(dict.get(), hook);
  });
}

void init_autograd_hooks(PyObject* module) {
  check(PyModule_AddFunctions(module, g_methods));
  PyObject* type = reinterpret_cast<PyObject*>(TensorType);
  Ref retain = Ref::steal(check(PyDescr_NewMethod(TensorType, &g_retain_grad)));
  check(PyObject_SetAttrString(type, "retain_grad", retain.get()));
  for (PyGetSetDef& g : g_tensor_getset) {
    Ref d = Ref::steal(check(PyDescr_NewGetSet(TensorType, &g)));
    check(PyObject_SetAttrString(type, g.name, d.get()));
  }
}

}  // namespace tessera::python
