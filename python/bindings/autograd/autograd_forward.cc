// Forward mode: what tessera.autograd.forward_ad is made of.
#include "autograd/forward_ad.h"

#include "func/transforms.h"
#include "python/bindings/autograd/autograd.h"
#include "python/bindings/calls.h"
#include "python/bindings/tensor_type.h"
#include "tensor/core/transforms.h"

namespace tessera::python {
namespace {

const Tensor& tensor_argument(PyObject* o, const char* function, const char* name) {
  if (!is_tensor(o))
    throw TypeError(str_cat(function, "(): argument '", name, "' must be Tensor, not ", Py_TYPE(o)->tp_name));
  return unwrap(o);
}

namespace forward_ad = autograd::forward_ad;

// A dual level that begins inside of a function transform is a level of jvp among the others: its duals are wrappers
// there. Its number, 0 if there is none.
thread_local int64_t t_transform_level = 0;

int64_t transform_level() {
  if (t_transform_level && !func::find_level(t_transform_level)) t_transform_level = 0;  // ended with one outside of it
  return t_transform_level;
}
int64_t current_level() { return transform_level() ? 0 : forward_ad::current_dual_level(); }

PyObject* py_enter(PyObject*, PyObject*) {
  return guarded([] {
    if (!inside_transform() || current_level() >= 0) return PyLong_FromLongLong(forward_ad::enter_dual_level());
    t_transform_level = func::push_jvp();
    return PyLong_FromLong(0);
  });
}
PyObject* py_current(PyObject*, PyObject*) { return PyLong_FromLongLong(current_level()); }
PyObject* py_exit(PyObject*, PyObject* args) {
  long long level;
  if (!PyArg_ParseTuple(args, "L:_exit_dual_level", &level)) return nullptr;
  return guarded([&] {
    if (!transform_level()) {
      forward_ad::exit_dual_level(level);
      return none();
    }
    TESSERA_CHECK(level == 0, "Trying to exit a forward AD level that was not the last one that was created: level ",
                  level, " was given, but level 0 is open.");
    func::pop_level(t_transform_level);
    t_transform_level = 0;
    return none();
  });
}

Tensor make_dual(const Tensor& tensor, const Tensor& tangent, int64_t level) {
  if (!transform_level() || level != 0) return forward_ad::make_dual(tensor, tangent, level);
  TESSERA_CHECK(!func::split_dual(tensor, t_transform_level).second.defined(),
                "make_dual: this tensor has a tangent of the same level. Give it a new one from its primal, "
                "unpack_dual(tensor).primal.");
  return func::dual(func::outside_of(tensor, t_transform_level), func::outside_of(tangent, t_transform_level),
                    t_transform_level);
}
forward_ad::UnpackedDual unpack_dual(const Tensor& tensor, int64_t level) {
  if (!transform_level() || level != 0) return forward_ad::unpack_dual(tensor, level);
  auto [primal, tangent] = func::split_dual(tensor, t_transform_level);
  return {primal, tangent};
}
PyObject* py_make_dual(PyObject*, PyObject* args) {
  PyObject *tensor, *tangent;
  long long level;
  if (!PyArg_ParseTuple(args, "OOL:_make_dual", &tensor, &tangent, &level)) return nullptr;
  return guarded([&] {
    return wrap(make_dual(tensor_argument(tensor, "make_dual", "tensor"),
                          tensor_argument(tangent, "make_dual", "tangent"), level));
  });
}
PyObject* py_unpack_dual(PyObject*, PyObject* args) {
  PyObject* tensor;
  long long level;
  if (!PyArg_ParseTuple(args, "OL:_unpack_dual", &tensor, &level)) return nullptr;
  return guarded([&] {
    forward_ad::UnpackedDual d = unpack_dual(tensor_argument(tensor, "unpack_dual", "tensor"), level);
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
