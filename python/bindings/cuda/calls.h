// Functions of the CUDA library as functions of Python: arguments and results are converted by their C++ types, the GIL
// is released meanwhile.
#pragma once

#include <concepts>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "python/bindings/common.h"

namespace tessera::python {

// Objects that Python holds without looking into them: capsules of the name T::kCapsule.
template <class T>
concept Held = requires {
  T::kCapsule;
};
// Raw bytes: bytes objects.
struct Bytes {
  std::string data;
};

// --- from Python ---

template <class T>
struct FromPython;
template <class T>
requires std::integral<T> &&(!std::same_as<T, bool>)struct FromPython<T> {
  static T get(PyObject* o) {
    Ref i = Ref::steal(check(PyNumber_Index(o)));
    if constexpr (std::unsigned_integral<T>) {
      const unsigned long long v = PyLong_AsUnsignedLongLong(i.get());
      if (PyErr_Occurred()) throw ErrorAlreadySet();
      return static_cast<T>(v);
    } else {
      const long long v = PyLong_AsLongLong(i.get());
      if (PyErr_Occurred()) throw ErrorAlreadySet();
      if (!std::in_range<T>(v)) throw ValueError("an integer is out of range");
      return static_cast<T>(v);
    }
  }
};
template <>
struct FromPython<bool> {
  static bool get(PyObject* o) {
    const int v = PyObject_IsTrue(o);
    check(v);
    return v != 0;
  }
};
template <>
struct FromPython<double> {
  static double get(PyObject* o) {
    const double v = PyFloat_AsDouble(o);
    if (PyErr_Occurred()) throw ErrorAlreadySet();
    return v;
  }
};
template <>
struct FromPython<std::string> {
  static std::string get(PyObject* o) { return from_python_string(o); }
};
template <>
struct FromPython<Bytes> {
  static Bytes get(PyObject* o) {
    char* p;
    Py_ssize_t n;
    check(PyBytes_AsStringAndSize(o, &p, &n));
    return {std::string(p, static_cast<size_t>(n))};
  }
};
template <class A, class B>
struct FromPython<std::pair<A, B>> {
  static std::pair<A, B> get(PyObject* o) {
    if (!PyTuple_Check(o) || PyTuple_GET_SIZE(o) != 2) throw TypeError("expected a tuple of two");
    return {FromPython<A>::get(PyTuple_GET_ITEM(o, 0)), FromPython<B>::get(PyTuple_GET_ITEM(o, 1))};
  }
};
template <Held T>
struct FromPython<T*> {
  static T* get(PyObject* o) {
    TESSERA_CHECK_TYPE(PyCapsule_IsValid(o, T::kCapsule), "expected an object of ", T::kCapsule);
    return static_cast<T*>(PyCapsule_GetPointer(o, T::kCapsule));
  }
};

// --- to Python: new references ---

inline PyObject* result(bool v) { return PyBool_FromLong(v); }
template <class T>
requires std::integral<T> &&(!std::same_as<T, bool>)PyObject* result(T v) {
  if constexpr (std::unsigned_integral<T>)
    return PyLong_FromUnsignedLongLong(v);
  else
    return PyLong_FromLongLong(v);
}
inline PyObject* result(double v) { return PyFloat_FromDouble(v); }
inline PyObject* result(const std::string& s) { return to_python_string(s).release(); }
inline PyObject* result(const Bytes& b) {
  return PyBytes_FromStringAndSize(b.data.data(), static_cast<Py_ssize_t>(b.data.size()));
}
template <Held T>
PyObject* result(std::unique_ptr<T> p) {
  PyObject* c = check(PyCapsule_New(p.get(), T::kCapsule, [](PyObject* capsule) {
    delete static_cast<T*>(PyCapsule_GetPointer(capsule, T::kCapsule));
  }));
  p.release();
  return c;
}
template <class A, class B>
PyObject* result(const std::pair<A, B>& p);
template <class T>
PyObject* result(const std::vector<T>& v);
template <class T>
PyObject* result(const std::map<std::string, T>& m);
template <class A, class B>
PyObject* result(const std::pair<A, B>& p) {
  Ref first = Ref::steal(check(result(p.first))), second = Ref::steal(check(result(p.second)));
  return PyTuple_Pack(2, first.get(), second.get());
}
template <class T>
PyObject* result(const std::vector<T>& v) {
  Ref list = Ref::steal(check(PyList_New(static_cast<Py_ssize_t>(v.size()))));
  for (size_t i = 0; i < v.size(); ++i) PyList_SET_ITEM(list.get(), static_cast<Py_ssize_t>(i), check(result(v[i])));
  return list.release();
}
template <class T>
PyObject* result(const std::map<std::string, T>& m) {
  Ref dict = Ref::steal(check(PyDict_New()));
  for (const auto& [key, value] : m) {
    Ref v = Ref::steal(check(result(value)));
    check(PyDict_SetItemString(dict.get(), key.c_str(), v.get()));
  }
  return dict.release();
}

// --- calls ---

template <class R, class... A, size_t... I>
PyObject* call_with(R (*f)(A...), PyObject* const* args, std::index_sequence<I...>) {
  std::tuple<std::decay_t<A>...> values{FromPython<std::decay_t<A>>::get(args[I])...};
  if constexpr (std::is_void_v<R>) {
    {
      GilRelease unlocked;
      f(std::get<I>(std::move(values))...);
    }
    return none();
  } else {
    auto r = [&] {
      GilRelease unlocked;
      return f(std::get<I>(std::move(values))...);
    }();
    return result(std::move(r));
  }
}
template <class R, class... A>
PyObject* call_checked(R (*f)(A...), PyObject* const* args, Py_ssize_t n) {
  if (n != sizeof...(A)) throw TypeError(str_cat("expected ", sizeof...(A), " arguments, got ", n));
  return call_with(f, args, std::index_sequence_for<A...>());
}
// The C function for F: all arguments by position.
template <auto F>
PyObject* entry(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return guarded([&] { return call_checked(+F, args, n); });
}
template <auto F>
PyMethodDef function(const char* name, const char* doc = nullptr) {
  return {name, reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&entry<F>)), METH_FASTCALL, doc};
}
// CPython keeps pointers to the entries.
inline void add_functions(PyObject* module, std::vector<PyMethodDef> functions) {
  auto* kept = new std::vector<PyMethodDef>(std::move(functions));
  kept->push_back({nullptr, nullptr, 0, nullptr});
  check(PyModule_AddFunctions(module, kept->data()));
}

}  // namespace tessera::python
