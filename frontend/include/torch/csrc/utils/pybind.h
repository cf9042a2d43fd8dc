// Conversions between Python objects and the types of the front end, for functions bound with pybind11, and the
// translation of exceptions.
#pragma once

#if !__has_include(<pybind11/pybind11.h>)
#error "extensions are written with pybind11, whose headers were not found: pip install pybind11"
#endif
#include <pybind11/complex.h>
#include <pybind11/functional.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <vector>

#include <torch/csrc/autograd/python_variable.h>

#include "python/bindings/types.h"

namespace py = pybind11;

namespace torch::detail {

// Exceptions of the library, in functions of this module, as operators raise them. Every source registers it: what
// pybind11 keeps for a module is hidden in it, and one registration too many changes nothing.
inline void translate(std::exception_ptr e) {
  try {
    std::rethrow_exception(e);
  } catch (const tessera::Error&) {
    tessera::python::translate_current_exception();
  } catch (const tessera::python::ErrorAlreadySet&) {}
}

}  // namespace torch::detail

namespace {
[[maybe_unused]] const bool torch_exceptions_are_translated = [] {
  if (!Py_IsInitialized()) return false;
  const PyGILState_STATE lock = PyGILState_Ensure();
  pybind11::register_local_exception_translator(&torch::detail::translate);
  PyGILState_Release(lock);
  return true;
}();
}  // namespace

namespace pybind11::detail {

template <>
struct type_caster<at::Tensor> {
  PYBIND11_TYPE_CASTER(at::Tensor, const_name("torch.Tensor"));
  bool load(handle object, bool) {
    if (!THPVariable_Check(object.ptr())) return false;
    value = THPVariable_Unpack(object.ptr());
    return true;
  }
  static handle cast(const at::Tensor& t, return_value_policy, handle) { return THPVariable_Wrap(t); }
};

// is: whether an object is one; get: what it holds; make: a new reference to the object for a value.
#define TESSERA_VALUE_CASTER(T, shown, is, get, make)                            \
  template <>                                                                    \
  struct type_caster<T> {                                                        \
    PYBIND11_TYPE_CASTER(T, const_name(shown));                                  \
    bool load(handle object, bool) {                                             \
      if (!object || !tessera::python::is(object.ptr())) return false;           \
      PyObject* const o = object.ptr();                                          \
      value = get;                                                               \
      return true;                                                               \
    }                                                                            \
    static handle cast(const T& v, return_value_policy, handle) { return make; } \
    type_caster() : value(initial(static_cast<T*>(nullptr))) {}                  \
                                                                                 \
   private:                                                                      \
    template <class V>                                                           \
    static V initial(V*) {                                                       \
      if constexpr (std::is_default_constructible_v<V>)                          \
        return V();                                                              \
      else                                                                       \
        return V(c10::kCPU);                                                     \
    }                                                                            \
  };
TESSERA_VALUE_CASTER(at::ScalarType, "torch.dtype", is_dtype, c10::to_scalar_type(tessera::python::unwrap_dtype(o)),
                     tessera::python::wrap(c10::to_dtype(v)))
TESSERA_VALUE_CASTER(at::Device, "torch.device", is_device, at::Device(tessera::python::to_device(o)),
                     tessera::python::wrap(static_cast<const tessera::Device&>(v)))
TESSERA_VALUE_CASTER(at::Layout, "torch.layout", is_layout, c10::from_layout(tessera::python::unwrap_layout(o)),
                     tessera::python::wrap(c10::to_layout(v)))
TESSERA_VALUE_CASTER(at::MemoryFormat, "torch.memory_format", is_memory_format,
                     static_cast<at::MemoryFormat>(tessera::python::unwrap_memory_format(o)),
                     tessera::python::wrap(static_cast<tessera::MemoryFormat>(v)))
TESSERA_VALUE_CASTER(at::Generator, "torch.Generator", is_generator,
                     at::Generator(tessera::python::unwrap_generator(o)),
                     tessera::python::wrap(static_cast<const tessera::Generator&>(v)))
#undef TESSERA_VALUE_CASTER

template <>
struct type_caster<at::Scalar> {
  PYBIND11_TYPE_CASTER(at::Scalar, const_name("Union[int, float, bool, complex]"));
  bool load(handle object, bool) {
    PyObject* const o = object.ptr();
    if (!o) return false;
    if (THPVariable_Check(o)) {
      const at::Tensor& t = THPVariable_Unpack(o);
      if (t.numel() != 1) return false;
      value = t.item();
    } else if (PyBool_Check(o)) {
      value = at::Scalar(o == Py_True);
    } else if (PyFloat_Check(o)) {
      value = at::Scalar(PyFloat_AS_DOUBLE(o));
    } else if (PyComplex_Check(o)) {
      value = at::Scalar(std::complex<double>(PyComplex_RealAsDouble(o), PyComplex_ImagAsDouble(o)));
    } else if (PyIndex_Check(o)) {
      const long long v = PyLong_AsLongLong(o);
      if (v == -1 && PyErr_Occurred()) {
        PyErr_Clear();
        return false;
      }
      value = at::Scalar(static_cast<int64_t>(v));
    } else {
      return false;
    }
    return true;
  }
  static handle cast(const at::Scalar& v, return_value_policy, handle) {
    if (v.isComplex()) return PyComplex_FromDoubles(v.to_complex().real(), v.to_complex().imag());
    if (v.isFloatingPoint()) return PyFloat_FromDouble(v.toDouble());
    if (v.isBoolean()) return PyBool_FromLong(v.toBool());
    return v.isUnsigned() ? PyLong_FromUnsignedLongLong(v.toUInt64()) : PyLong_FromLongLong(v.toLong());
  }
};

// Lists and tuples for the length of a call: the caster owns what the view shows.
template <class T>
struct type_caster<c10::ArrayRef<T>> {
  PYBIND11_TYPE_CASTER(c10::ArrayRef<T>, const_name("List[") + make_caster<T>::name + const_name("]"));
  bool load(handle object, bool convert) {
    if (!object || !(PyTuple_Check(object.ptr()) || PyList_Check(object.ptr()))) return false;
    make_caster<std::vector<T>> elements;
    if (!elements.load(object, convert)) return false;
    owned_ = cast_op<std::vector<T>&&>(std::move(elements));
    value = owned_;
    return true;
  }
  static handle cast(c10::ArrayRef<T> v, return_value_policy policy, handle parent) {
    return make_caster<std::vector<T>>::cast(v.vec(), policy, parent);
  }

 private:
  std::vector<T> owned_;
};

}  // namespace pybind11::detail

namespace torch {

// Functions bound in an extension raise the documented exceptions without being wrapped.
template <class F>
std::decay_t<F> wrap_pybind_function(F&& f) {
  return std::forward<F>(f);
}

namespace detail {
template <class F, class R, class... A>
auto without_lock(F f, R (*)(A...)) {
  return [f](A... args) -> R {
    pybind11::gil_scoped_release release;
    return f(std::forward<A>(args)...);
  };
}
template <class F, class C, class R, class... A>
auto without_lock(F f, R (C::*)(A...) const) {
  return without_lock(f, static_cast<R (*)(A...)>(nullptr));
}
template <class F, class C, class R, class... A>
auto without_lock(F f, R (C::*)(A...)) {
  return without_lock(f, static_cast<R (*)(A...)>(nullptr));
}
}  // namespace detail

// The same for functions that compute without the interpreter's lock.
template <class F>
auto wrap_pybind_function_no_gil(F&& f) {
  using Function = std::decay_t<F>;
  if constexpr (std::is_pointer_v<Function>)
    return detail::without_lock(Function(f), Function(nullptr));
  else
    return detail::without_lock(Function(std::forward<F>(f)), &Function::operator());
}

}  // namespace torch
