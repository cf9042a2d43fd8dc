// The formulas of learning-rate schedules (optim/schedules) as functions of Python numbers, and how options of
// parameter groups are read and written.
#include "optim/schedules/schedules.h"

#include <cfenv>
#include <cmath>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "python/bindings/shells/python_shells.h"
#include "python/bindings/tensor_type.h"

namespace tessera::python {
namespace {

namespace sch = optim::schedules;

template <class T>
T number(PyObject* o) {
  if constexpr (std::is_same_v<T, bool>) {
    const int truth = PyObject_IsTrue(o);
    check(truth);
    return truth != 0;
  } else if constexpr (std::is_same_v<T, int64_t>) {
    const int64_t v = PyLong_AsLongLong(o);
    if (v == -1 && PyErr_Occurred()) throw ErrorAlreadySet();
    return v;
  } else {
    const double v = PyFloat_AsDouble(o);
    if (v == -1 && PyErr_Occurred()) throw ErrorAlreadySet();
    return v;
  }
}

PyObject* object(bool v) { return PyBool_FromLong(v); }
PyObject* object(int64_t v) { return PyLong_FromLongLong(v); }
PyObject* object(double v) { return PyFloat_FromDouble(v); }
template <class A, class... B>
PyObject* objects(A first, B... rest) {
  Ref tuple = Ref::steal(check(PyTuple_New(1 + sizeof...(rest))));
  Py_ssize_t i = 0;
  (PyTuple_SET_ITEM(tuple.get(), i++, check(object(first))), ...,
   PyTuple_SET_ITEM(tuple.get(), i++, check(object(rest))));
  return tuple.release();
}
PyObject* object(const sch::CosineChange& c) { return objects(c.rises, c.weight); }
PyObject* object(const sch::Cycle& c) { return objects(c.position, c.length); }
PyObject* object(const sch::Triangle& t) { return objects(t.cycle, t.height); }
PyObject* object(const sch::Phase& p) { return objects(p.number, p.passed); }
PyObject* object(const sch::Plateau& p) { return objects(p.bad, p.cooling, p.reduce); }

double finite_part(double v) { return v; }
double finite_part(const sch::CosineChange& c) { return c.weight; }
double finite_part(const sch::Cycle& c) { return c.position + c.length; }
double finite_part(const sch::Triangle& t) { return t.height; }
double finite_part(const sch::Plateau&) { return 0; }
double finite_part(bool) { return 0; }

// As Python's own arithmetic: OverflowError for a number that is too large, ZeroDivisionError otherwise.
[[noreturn]] void refuse(const char* name, bool overflow) {
  PyErr_Format(overflow ? PyExc_OverflowError : PyExc_ZeroDivisionError, "%s: %s; check the arguments of the schedule",
               name, overflow ? "the rate is too large for a number" : "division by zero");
  throw ErrorAlreadySet();
}

template <auto F, class R, class... A, size_t... I>
PyObject* compute(const char* name, PyObject* const* args, std::index_sequence<I...>) {
  const std::tuple<A...> values{number<A>(args[I])...};
  const R result = std::apply(F, values);
  if (!std::isfinite(finite_part(result)) && (std::isfinite(static_cast<double>(std::get<I>(values))) && ...)) {
    std::feclearexcept(FE_ALL_EXCEPT);
    const volatile double again = finite_part(std::apply(F, values));
    refuse(name, std::isinf(again) && std::fetestexcept(FE_OVERFLOW));
  }
  return object(result);
}

PyMethodDef fast(const char* name, PyObject* (*f)(PyObject*, PyObject* const*, Py_ssize_t)) {
  return {name, reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(f)), METH_FASTCALL, nullptr};
}

template <size_t N>
struct Name {
  char text[N];
  constexpr Name(const char (&s)[N]) {
    for (size_t i = 0; i < N; ++i) text[i] = s[i];
  }
};
template <Name N>
inline constexpr Name kName = N;

template <Name N, auto F, class R, class... A>
PyMethodDef entry(R (*)(A...)) {
  constexpr auto call = [](PyObject*, PyObject* const* args, Py_ssize_t n) -> PyObject* {
    return guarded([&] {
      if (n != sizeof...(A)) {
        PyErr_Format(PyExc_TypeError, "%s: expected %zu numbers, but got %zd", kName<N>.text, sizeof...(A), n);
        throw ErrorAlreadySet();
      }
      return compute<F, R, A...>(kName<N>.text, args, std::index_sequence_for<A...>());
    });
  };
  return fast(kName<N>.text, call);
}

// phase_of(step, end, end, ...)
PyObject* py_phase_of(PyObject*, PyObject* const* args, Py_ssize_t n) {
  constexpr Py_ssize_t kMost = 8;
  return guarded([&] {
    if (n < 2 || n > kMost) throw TypeError("phase_of: expected a step and the ends of 1 to 7 phases");
    double numbers[kMost];
    for (Py_ssize_t i = 0; i < n; ++i) numbers[i] = number<double>(args[i]);
    const sch::Phase phase = sch::phase_of(numbers[0], std::span(numbers + 1, static_cast<size_t>(n - 1)));
    if (!std::isfinite(phase.passed)) refuse("phase_of", false);
    return object(phase);
  });
}

// The values of an option in a list of parameter groups; tensors are copied, so that nobody else changes them.
PyObject* py_read(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return guarded([&] {
    if (n != 2) throw TypeError("read: expected parameter groups and the name of an option");
    Ref groups = Ref::steal(check(PySequence_Fast(args[0], "read: expected a list of parameter groups")));
    Ref values = Ref::steal(check(PyList_New(PySequence_Fast_GET_SIZE(groups.get()))));
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(values.get()) && i < PySequence_Fast_GET_SIZE(groups.get()); ++i) {
      PyObject* value = check(PyObject_GetItem(PySequence_Fast_GET_ITEM(groups.get(), i), args[1]));
      if (is_tensor(value)) value = check(PyObject_CallMethod(Ref::steal(value).get(), "clone", nullptr));
      PyList_SET_ITEM(values.get(), i, value);
    }
    return values.release();
  });
}

// Sets an option of each group to the value of the same number. A tensor stays the same object.
PyObject* py_write(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return guarded([&] {
    if (n != 3) throw TypeError("write: expected parameter groups, the name of an option and its values");
    Ref groups = Ref::steal(check(PySequence_Tuple(args[0]))), values = Ref::steal(check(PySequence_Tuple(args[2])));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(groups.get()) && i < PyTuple_GET_SIZE(values.get()); ++i) {
      PyObject* group = PyTuple_GET_ITEM(groups.get(), i);
      PyObject* value = PyTuple_GET_ITEM(values.get(), i);
      Ref present = Ref::steal(check(PyObject_GetItem(group, args[1])));
      if (!is_tensor(present.get())) {
        check(PyObject_SetItem(group, args[1], value));
        continue;
      }
      Ref scalar =
          is_tensor(value) ? Ref::steal(check(PyObject_CallMethod(value, "squeeze", nullptr))) : Ref::borrow(value);
      Ref::steal(check(PyObject_CallMethod(present.get(), "fill_", "O", scalar.get())));
    }
    return none();
  });
}

}  // namespace

#define FORMULA(name) entry<#name, &sch::name>(&sch::name)
std::vector<PyMethodDef> schedule_functions() {
  return {FORMULA(step_weight),        FORMULA(step_change),          FORMULA(exponential_weight),
          FORMULA(exponential_change), FORMULA(constant_weight),      FORMULA(constant_change),
          FORMULA(linear_weight),      FORMULA(linear_change),        FORMULA(polynomial_weight),
          FORMULA(polynomial_change),  FORMULA(cosine_weight),        FORMULA(cosine_change),
          FORMULA(restart_cycle),      FORMULA(next_in_cycle),        FORMULA(triangle),
          FORMULA(halved_amplitude),   FORMULA(averaging_weight),     FORMULA(improves),
          FORMULA(next_plateau),       fast("phase_of", py_phase_of), fast("read", py_read),
          fast("write", py_write)};
}
#undef FORMULA

}  // namespace tessera::python
