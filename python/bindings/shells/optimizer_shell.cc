// What an optimizer's step does for each parameter before the arithmetic: collecting lists of tensors.
#include <algorithm>
#include <optional>

#include "python/bindings/args.h"
#include "python/bindings/calls.h"
#include "python/bindings/shells/python_shells.h"
#include "python/bindings/tensor_type.h"
#include "python/bindings/types.h"

namespace tessera::python {
namespace {

bool is_plain(PyObject* o) { return o && is_exact_tensor(o) && unwrap(o).layout() == Layout::kStrided; }

// Whether the multi-tensor step can take a parameter with this gradient, on the device of the first one.
bool fits(const Tensor& p, const Tensor& grad, const Tensor& first) {
  return p.is_floating_point() && p.layout() == Layout::kStrided && grad.layout() == Layout::kStrided &&
         grad.dtype() == p.dtype() && p.device() == first.device() && grad.device() == p.device();
}

// (parameters that have a gradient, their gradients, for each name the list of state[parameter][name]), or None if one
// of them is of a kind that needs a step of its own: missing state, dtypes that differ, sparse gradients, subclasses,
// several devices.
PyObject* py_step_lists(PyObject*, CallArgs call) {
  PyObject* a[3];
  read_args({"_step_lists", {"params", "state", "names"}, 3, 3}, call, a);
  if (!PyList_Check(a[0]) || !PyDict_Check(a[1]) || !PyTuple_Check(a[2]))
    throw TypeError("_step_lists: expected a list of parameters, a dict and a tuple of names");
  const Py_ssize_t names = PyTuple_GET_SIZE(a[2]);
  Ref result = Ref::steal(check(PyTuple_New(2 + names)));
  for (Py_ssize_t i = 0; i < 2 + names; ++i) PyTuple_SET_ITEM(result.get(), i, check(PyList_New(0)));
  auto append = [&](Py_ssize_t list, PyObject* item) {
    check(PyList_Append(PyTuple_GET_ITEM(result.get(), list), item));
  };
  const Tensor* first = nullptr;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(a[0]); ++i) {
    PyObject* object = PyList_GET_ITEM(a[0], i);
    if (!is_tensor(object)) return none();
    const Tensor& p = unwrap(object);
    const Tensor grad = p.grad();
    if (!grad.defined()) continue;
    if (!first) first = &p;
    if (!fits(p, grad, *first)) return none();
    Ref grad_object = Ref::steal(wrap(grad));
    if (!is_exact_tensor(grad_object.get())) return none();
    append(0, object);
    append(1, grad_object.get());
    if (names == 0) continue;
    PyObject* own = PyDict_GetItemWithError(a[1], object);
    if (!own || !PyDict_Check(own)) {
      if (PyErr_Occurred()) throw ErrorAlreadySet();
      return none();
    }
    for (Py_ssize_t k = 0; k < names; ++k) {
      PyObject* item = PyDict_GetItemWithError(own, PyTuple_GET_ITEM(a[2], k));
      if (!is_plain(item)) {
        if (PyErr_Occurred()) throw ErrorAlreadySet();
        return none();
      }
      append(2 + k, item);
    }
  }
  return result.release();
}

// Whether one multi-tensor step can take these parameters and gradients: `fits`, and no subclasses among the gradients.
PyObject* py_lists_fit(PyObject*, CallArgs call) {
  PyObject* a[2];
  read_args({"_lists_fit", {"params", "grads"}, 2, 2}, call, a);
  if (!PyList_Check(a[0]) || !PyList_Check(a[1]))
    throw TypeError("_lists_fit: expected a list of parameters and a list of gradients");
  const Py_ssize_t n = std::min(PyList_GET_SIZE(a[0]), PyList_GET_SIZE(a[1]));
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* p = PyList_GET_ITEM(a[0], i);
    PyObject* grad = PyList_GET_ITEM(a[1], i);
    if (!is_tensor(p) || !is_exact_tensor(grad) || !fits(unwrap(p), unwrap(grad), unwrap(PyList_GET_ITEM(a[0], 0))))
      Py_RETURN_FALSE;
  }
  Py_RETURN_TRUE;
}

// Appends the gradients of a list of parameters to the lists of a dict {device: gradients}; whether one is in float16.
PyObject* py_gradients_by_device(PyObject*, CallArgs call) {
  PyObject* a[2];
  read_args({"_gradients_by_device", {"params", "grads"}, 2, 2}, call, a);
  if (!PyList_Check(a[0]) || !PyDict_Check(a[1]))
    throw TypeError("_gradients_by_device: expected a list of parameters and a dict");
  bool has_half = false;
  std::optional<Device> device;
  Ref list;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(a[0]); ++i) {
    PyObject* p = PyList_GET_ITEM(a[0], i);
    if (!is_tensor(p)) throw TypeError("_gradients_by_device: expected a list of parameters");
    const Tensor grad = unwrap(p).grad();
    if (!grad.defined()) continue;
    if (device != grad.device()) {
      device = grad.device();
      Ref key = Ref::steal(check(wrap(grad.device())));
      Ref empty = Ref::steal(check(PyList_New(0)));
      list = Ref::borrow(check(PyDict_SetDefault(a[1], key.get(), empty.get())));
    }
    has_half |= grad.dtype() == DType::kFloat16;
    if (PyList_Append(list.get(), Ref::steal(check(wrap(grad))).get()) < 0) throw ErrorAlreadySet();
  }
  return to_python(has_half);
}

// Adds a number to each tensor of a list: step counters, which are single numbers of float32 on the CPU nearly always.
PyObject* py_add_to_steps(PyObject*, CallArgs call) {
  PyObject* a[2];
  read_args({"_add_to_steps", {"steps", "number"}, 2, 2}, call, a);
  if (!PyList_Check(a[0])) throw TypeError("_add_to_steps: expected a list of tensors");
  const double number = PyFloat_AsDouble(a[1]);
  if (PyErr_Occurred()) throw ErrorAlreadySet();
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(a[0]); ++i) {
    PyObject* object = PyList_GET_ITEM(a[0], i);
    if (is_plain(object)) {
      const Tensor& t = unwrap(object);
      if (t.is_cpu() && t.dtype() == DType::kFloat32 && t.numel() == 1 && !t.requires_grad() && !t.is_inference()) {
        *t.data<float>() += static_cast<float>(number);
        t.bump_version();
        continue;
      }
    }
    Ref::steal(check(PyNumber_InPlaceAdd(object, a[1])));
  }
  return none();
}

}  // namespace

std::vector<PyMethodDef> optimizer_shell_functions() {
  return {function<"_step_lists", py_step_lists>(), function<"_lists_fit", py_lists_fit>(),
          function<"_gradients_by_device", py_gradients_by_device>(), function<"_add_to_steps", py_add_to_steps>()};
}

}  // namespace tessera::python
