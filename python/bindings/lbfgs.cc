// The functions of optim/lbfgs for the optimizer of Python, which keeps the history and evaluates the closure.
#include "optim/lbfgs/lbfgs.h"

#include <span>
#include <utility>
#include <vector>

#include "python/bindings/calls.h"
#include "python/bindings/shells/python_shells.h"

namespace tessera::python {
namespace {

namespace lb = optim::lbfgs;

// A Python number, or a tensor with one element.
double number(PyObject* o) {
  if (is_tensor(o)) {
    const Tensor t = unwrap(o);
    GilRelease unlocked;
    return t.item_scalar().to_double();
  }
  const double v = PyFloat_AsDouble(o);
  if (v == -1 && PyErr_Occurred()) throw ErrorAlreadySet();
  return v;
}

template <class T, class F>
std::vector<T> list_of(PyObject* o, F convert) {
  Ref list = Ref::steal(check(PySequence_Tuple(o)));
  std::vector<T> out;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(list.get()); ++i) out.push_back(convert(PyTuple_GET_ITEM(list.get(), i)));
  return out;
}

// (direction, list of shares)
PyObject* py_direction(PyObject*, CallArgs call) {
  PyObject* a[5];
  read_args({"direction", {"gradient", "changes", "steps", "weights", "scale"}, 5, 5}, call, a);
  const Tensor gradient = tensor_arg("direction", "gradient", a[0]);
  auto tensors = [](PyObject* o) {
    return list_of<Tensor>(o, [](PyObject* t) { return tensor_arg("direction", "changes and steps", t); });
  };
  const std::vector<Tensor> changes = tensors(a[1]), steps = tensors(a[2]);
  const std::vector<double> weights = list_of<double>(a[3], number);
  const double scale = number(a[4]);
  lb::Direction found;
  {
    GilRelease unlocked;
    found = lb::direction(gradient, {changes, steps, weights}, scale);
  }
  Ref shares = Ref::steal(check(PyList_New(0)));
  for (const double s : found.shares)
    check(PyList_Append(shares.get(), Ref::steal(check(PyFloat_FromDouble(s))).get()));
  Ref vector = Ref::steal(wrap(std::move(found.vector)));
  return check(PyTuple_Pack(2, vector.get(), shares.get()));
}

// evaluate: distance -> (value, gradient), called at most 1 + most_trials times. Gives (value, gradient, distance,
// number of evaluations).
PyObject* py_strong_wolfe(PyObject*, CallArgs call) {
  PyObject* a[7];
  read_args({"strong_wolfe", {"evaluate", "along", "first", "value", "gradient", "slope", "most_trials"}, 7, 7}, call,
            a);
  const Tensor along = tensor_arg("strong_wolfe", "along", a[1]);
  const lb::Trial start{0, number(a[3]), number(a[5]), tensor_arg("strong_wolfe", "gradient", a[4])};
  auto evaluate = [&](double at) {
    Ref distance = Ref::steal(check(PyFloat_FromDouble(at)));
    Ref pair = Ref::steal(check(PyObject_CallOneArg(a[0], distance.get())));
    if (!PyTuple_Check(pair.get()) || PyTuple_GET_SIZE(pair.get()) != 2)
      throw TypeError("strong_wolfe: expected evaluate(distance) to return (value, gradient)");
    return std::pair<double, Tensor>(number(PyTuple_GET_ITEM(pair.get(), 0)),
                                     tensor_arg("strong_wolfe", "gradient", PyTuple_GET_ITEM(pair.get(), 1)));
  };
  const lb::Wolfe conditions{.most_trials = static_cast<int>(number(a[6]))};
  lb::Found found = lb::strong_wolfe(evaluate, along, start, number(a[2]), conditions);
  Ref gradient = Ref::steal(wrap(std::move(found.trial.gradient)));
  return check(Py_BuildValue("dOdi", found.trial.value, gradient.get(), found.trial.at, found.evaluations));
}

}  // namespace

std::vector<PyMethodDef> lbfgs_functions() {
  return {function<"direction", py_direction>(), function<"strong_wolfe", py_strong_wolfe>()};
}

}  // namespace tessera::python
