// Forward mode: what tessera.autograd.forward_ad is made of.
#include "autograd/forward_ad.h"

#include "python/bindings/autograd/autograd.h"
#include "python/bindings/calls.h"
#include "python/bindings/tensor_type.h"

namespace tessera::python {
namespace {

const Tensor& tensor_argument(PyObject* o, const char* function, const char* name) {
  if (!is_tensor(o))
    throw TypeError(str_cat(function, "(): argument '", name, "' must be Tensor, not ", Py_TYPE(o)->tp_name));
  return unwrap(o);
}

PyObject* py_enter(PyObject*, PyObject*) {
  return guarded([] { return PyLong_FromLongLong(autograd::forward_ad::enter_dual_level()); });
}
PyObject* py_current(PyObject*, PyObject*) { return PyLong_FromLongLong(autograd::forward_ad::current_dual_level()); }
PyObject* py_exit(PyObject*, PyObject* args) {
  long long level;
  if (!PyArg_ParseTuple(args, "L:_exit_dual_level", &level)) return nullptr;
  return guarded([&] {
    autograd::forward_ad::exit_dual_level(level);
    return none();
  });
}
PyObject* py_make_dual(PyObject*, PyObject* args) {
  PyObject *tensor, *tangent;
  long long level;
  if (!PyArg_ParseTuple(args, "OOL:_make_dual", &tensor, &tangent, &level)) return nullptr;
  return guarded([&] {
    return wrap(autograd::forward_ad::make_dual(tensor_argument(tensor, "make_dual", "tensor"),
                                                tensor_argument(tangent, "make_dual", "tangent"), level));
  });
}
PyObject* py_unpack_dual(PyObject*, PyObject* args) {
  PyObject* tensor;
  long long level;
  if (!PyArg_ParseTuple(args, "OL:_unpack_dual", &tensor, &level)) return nullptr;
  return guarded([&] {
    autograd::forward_ad::UnpackedDual d =
        autograd::forward_ad::unpack_dual(tensor_argument(tensor, "unpack_dual", "tensor"), level);
    Ref primal = d.tangent.defined() ? Ref::steal(check(wrap(std::move(d.primal)))) : Ref::borrow(tensor);
    Ref tangent = Ref::steal(check(wrap_or_none(std::move(d.tangent))));
    return check(PyTuple_Pack(2, primal.get(), tangent.get()));
  });
}
PyObject* py_is_enabled(PyObject*, PyObject*) { return to_python(thread_state.forward_grad_enabled); }
PyObject* py_set_enabled(PyObject*, PyObject* on) {
  return guarded([&] {
    if (!PyBool_Check(on))
      throw TypeError(
          str_cat("_set_fwd_grad_enabled(): argument 'enabled' (position 1) must be bool, not ", Py_TYPE(on)->tp_name));
    thread_state.forward_grad_enabled = on == Py_True;
    return none();
  });
}

PyMethodDef g_functions[] = {
    {"_enter_dual_level", py_enter, METH_NOARGS, "_enter_dual_level() -> int"},
    {"_current_dual_level", py_current, METH_NOARGS, "The open level, -1 if none."},
    {"_exit_dual_level", py_exit, METH_VARARGS, "_exit_dual_level(level)"},
    {"_make_dual", py_make_dual, METH_VARARGS, "_make_dual(tensor, tangent, level) -> Tensor"},
    {"_unpack_dual", py_unpack_dual, METH_VARARGS, "_unpack_dual(tensor, level) -> (primal, tangent or None)"},
    {"_is_fwd_grad_enabled", py_is_enabled, METH_NOARGS, nullptr},
    {"_set_fwd_grad_enabled", py_set_enabled, METH_O, nullptr},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

void init_autograd_forward(PyObject* module) { check(PyModule_AddFunctions(module, g_functions)); }

}  // namespace tessera::python
