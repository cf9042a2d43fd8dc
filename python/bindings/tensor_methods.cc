// Methods of Tensor that are no operators: what the tensor is, its values as Python objects, its memory.
#include <algorithm>
#include <cstring>

#include "autograd/variable.h"
#include "python/bindings/convert/names.h"
#include "python/bindings/args.h"
#include "python/bindings/calls.h"
#include "python/bindings/core_functions.h"
#include "python/bindings/convert/create.h"
#include "python/bindings/convert/dlpack.h"
#include "python/bindings/jit/traced.h"
#include "python/bindings/convert/numpy.h"
#include "python/bindings/convert/storage.h"
#include "tensor/core/layouts/sparse.h"
#include "python/bindings/convert/tensor_convert.h"
#include "python/bindings/library/fake.h"
#include "python/bindings/operators.h"
#include "python/bindings/types.h"
#include "tensor/core/device_hooks.h"
#include "tensor/core/transforms.h"
#include "tensor/core/visit.h"
#include "tensor/ops/options.h"

namespace tessera::python {
namespace {

NamedOp g_item("aten::item"), g_alias("aten::alias"), g_resolve_conj("aten::resolve_conj"),
    g_resolve_neg("aten::resolve_neg"), g_set_storage("aten::set_.source_Storage_storage_offset"),
    g_set_tensor("aten::set_.source_Tensor"), g_set("aten::set_");

void no_args(const char* function, CallArgs call) {
  if (call.n || call.kwnames) throw TypeError(str_cat(function, "() takes no arguments, got ", describe_args(call)));
}

PyObject* tuple_of(IntList l) {
  Ref r = Ref::steal(check(PyTuple_New(static_cast<Py_ssize_t>(l.size()))));
  for (size_t i = 0; i < l.size(); ++i)
    PyTuple_SET_ITEM(r.get(), static_cast<Py_ssize_t>(i), check(PyLong_FromLongLong(l[i])));
  return r.release();
}

PyObject* py_size(PyObject* self, CallArgs call) {
  const Tensor& t = unwrap(self);
  if (PyObject* symbolic = symbolic_shape_of(*t.impl())) {
    PyObject* dim[1];
    read_args({"size", {"dim"}, 1, 0}, call, dim);
    return ask_symbolic_shape(symbolic, "size", dim[0]);
  }
  jit::Tracer* trace = jit::current_trace();
  if (call.n == 0 && !call.kwnames) return trace ? traced_shape(*trace, t) : wrap_size(t.sizes());
  PyObject* a[1];
  read_args({"size", {"dim"}, 1, 0}, call, a);
  if (!a[0] || a[0] == Py_None) return trace ? traced_shape(*trace, t) : wrap_size(t.sizes());
  const int64_t d = dim_arg("size", t, a[0]);
  TESSERA_CHECK_INDEX(t.dim() > 0, "Dimension specified as ", d, " but tensor has no dimensions");
  if (trace) [[unlikely]]
    return traced_size(*trace, t, d);
  return PyLong_FromLongLong(t.size(d));
}
void check_has_strides(const Tensor& t, const char* what) {
  TESSERA_CHECK(!sparse::is_compressed(t), "Sparse compressed tensors (layout torch.", layout_name(t.layout()),
                ") do not have ", what);
}
PyObject* py_stride(PyObject* self, CallArgs call) {
  const Tensor& t = unwrap(self);
  check_has_strides(t, "strides");
  if (sparse::is_coo(t) && call.n == 0 && !call.kwnames) return tuple_of(IntVector(static_cast<size_t>(t.dim()), 0));
  if (PyObject* symbolic = symbolic_shape_of(*t.impl())) {
    PyObject* dim[1];
    read_args({"stride", {"dim"}, 1, 0}, call, dim);
    return ask_symbolic_shape(symbolic, "stride", dim[0]);
  }
  if (call.n == 0 && !call.kwnames) return tuple_of(t.strides());
  PyObject* a[1];
  read_args({"stride", {"dim"}, 1, 0}, call, a);
  if (!a[0] || a[0] == Py_None) return tuple_of(t.strides());
  const int64_t d = dim_arg("stride", t, a[0]);
  TESSERA_CHECK_INDEX(t.dim() > 0, "Dimension specified as ", d, " but tensor has no dimensions");
  return PyLong_FromLongLong(t.stride(d));
}
PyObject* py_dim(PyObject* self, CallArgs call) {
  no_args("dim", call);
  return PyLong_FromLongLong(unwrap(self).dim());
}
PyObject* py_numel(PyObject* self, CallArgs call) {
  no_args("numel", call);
  if (PyObject* symbolic = symbolic_shape_of(*unwrap(self).impl()))
    return ask_symbolic_shape(symbolic, "numel", nullptr);
  if (jit::Tracer* trace = jit::current_trace()) [[unlikely]]
    return traced_numel(*trace, unwrap(self));
  return PyLong_FromLongLong(unwrap(self).numel());
}
PyObject* py_element_size(PyObject* self, CallArgs call) {
  no_args("element_size", call);
  return PyLong_FromLongLong(unwrap(self).item_size());
}
PyObject* py_storage_offset(PyObject* self, CallArgs call) {
  no_args("storage_offset", call);
  if (PyObject* symbolic = symbolic_shape_of(*unwrap(self).impl()))
    return ask_symbolic_shape(symbolic, "storage_offset", nullptr);
  return PyLong_FromLongLong(unwrap(self).storage_offset());
}
PyObject* py_data_ptr(PyObject* self, CallArgs call) {
  no_args("data_ptr", call);
  const Tensor& t = unwrap(self);
  if (is_transformed(t) || sparse::is_sparse(t)) return PyLong_FromVoidPtr(t.data_ptr());  // an error
  return PyLong_FromVoidPtr(t.numel() && t.storage() && t.storage()->data() ? t.data_ptr() : nullptr);
}
PyObject* py_is_contiguous(PyObject* self, CallArgs call) {
  PyObject* a[1];
  read_args({"is_contiguous", {"memory_format"}, 1, 0}, call, a);
  check_has_strides(unwrap(self), "is_contiguous");
  if (sparse::is_coo(unwrap(self))) return to_python(false);
  return to_python(
      unwrap(self).is_contiguous(memory_format_arg("is_contiguous", a[0]).value_or(MemoryFormat::kContiguous)));
}
template <bool (*F)(const Tensor&)>
PyObject* py_flag(PyObject* self, CallArgs call) {
  no_args("this method", call);
  return to_python(F(unwrap(self)));
}
bool flag_floating(const Tensor& t) { return t.is_floating_point(); }
bool flag_complex(const Tensor& t) { return t.is_complex(); }
bool flag_signed(const Tensor& t) { return is_signed(t.dtype()); }
bool flag_conj(const Tensor& t) { return t.is_conj(); }
bool flag_neg(const Tensor& t) { return t.is_neg(); }
bool flag_inference(const Tensor& t) { return t.is_inference(); }
bool flag_view(const Tensor& t) { return t.is_view(); }
bool flag_false(const Tensor&) { return false; }
bool flag_shared(const Tensor& t) {
  if (sparse::is_sparse(t)) return flag_shared(sparse::members(t).values);
  return t.is_cuda() || (t.storage() && t.storage()->is_shared_memory());
}
bool flag_names(const Tensor& t) {
  const ExtraMeta* e = t.impl()->extra();
  if (!e) return false;
  for (const std::string& n : e->names)
    if (!n.empty()) return true;
  return false;
}
PyObject* py_get_device(PyObject* self, CallArgs call) {
  no_args("get_device", call);
  return PyLong_FromLong(unwrap(self).is_cpu() ? -1 : unwrap(self).device().index);
}
PyObject* py_use_count(PyObject* self, CallArgs call) {
  no_args("_use_count", call);
  return PyLong_FromLongLong(unwrap(self).impl()->use_count());
}
// Whether other orders of the dimensions would give the same strides.
bool has_several_orders(const Tensor& t) {
  for (size_t i = 0; i < t.sizes().size(); ++i) {
    if (t.sizes()[i] == 1) return true;
    for (size_t j = 0; j < i; ++j)
      if (t.strides()[i] == t.strides()[j]) return true;
  }
  return false;
}
// ambiguity_check: true, or formats of which exactly one has to fit, refuses tensors whose order is not unique.
void check_order(const Tensor& t, PyObject* ambiguity_check) {
  if (!ambiguity_check || ambiguity_check == Py_False) return;
  const bool formats = PyList_Check(ambiguity_check) || PyTuple_Check(ambiguity_check);
  TESSERA_CHECK_TYPE(formats || ambiguity_check == Py_True,
                     "The ambiguity_check argument must be a bool or a list of memory formats.");
  int fitting = 0;
  for (Py_ssize_t i = 0, n = formats ? PySequence_Fast_GET_SIZE(ambiguity_check) : 0; i < n; ++i) {
    PyObject* format = PySequence_Fast_GET_ITEM(ambiguity_check, i);
    TESSERA_CHECK_TYPE(is_memory_format(format),
                       "The ambiguity_check argument must be a bool or a list of memory formats.");
    fitting += t.is_contiguous(unwrap_memory_format(format));
  }
  TESSERA_CHECK(!has_several_orders(t) || fitting == 1,
                "The tensor does not have unique dim order, or cannot map to exact one of the given memory formats.");
}
PyObject* py_dim_order(PyObject* self, CallArgs call) {
  PyObject* a[1];
  read_args({"dim_order", {"ambiguity_check"}, 0, 0}, call, a);
  const Tensor& t = unwrap(self);
  check_order(t, a[0]);
  IntVector order(static_cast<size_t>(t.dim()));
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
  std::stable_sort(order.begin(), order.end(), [&](int64_t x, int64_t y) {
    return t.strides()[static_cast<size_t>(x)] > t.strides()[static_cast<size_t>(y)];
  });
  return tuple_of(order);
}
PyObject* py_is_set_to(PyObject* self, CallArgs call) {
  PyObject* a[1];
  read_args({"is_set_to", {"tensor"}, 1, 1}, call, a);
  const Tensor &t = unwrap(self), &o = tensor_arg("is_set_to", "tensor", a[0]);
  return to_python(t.storage() == o.storage() && t.storage_offset() == o.storage_offset() &&
                   std::ranges::equal(t.sizes(), o.sizes()) && std::ranges::equal(t.strides(), o.strides()));
}
PyObject* py_is_same_size(PyObject* self, CallArgs call) {
  PyObject* a[1];
  read_args({"is_same_size", {"other"}, 1, 1}, call, a);
  return to_python(std::ranges::equal(unwrap(self).sizes(), tensor_arg("is_same_size", "other", a[0]).sizes()));
}
PyObject* py_compatible(PyObject* self, CallArgs call) {
  PyObject* a[1];
  read_args({"_has_compatible_shallow_copy_type", {"from"}, 1, 1}, call, a);
  const Tensor &t = unwrap(self), &o = tensor_arg("_has_compatible_shallow_copy_type", "from", a[0]);
  return to_python(t.layout() == o.layout() && t.device().type == o.device().type);
}

// --- values ---

PyObject* scalar_object(const Scalar& s) { return to_python(Value::of(s)); }

// Wrappers made by _make_wrapper_subclass have none.
void check_has_data(const Tensor& t) {
  TESSERA_CHECK(t.numel() == 0 || t.data_ptr(), "Cannot access data pointer of Tensor that doesn't have storage");
}

Scalar item_of(const Tensor& t) {
  TESSERA_CHECK(t.numel() == 1, "a Tensor with ", t.numel(), " elements cannot be converted to Scalar");
  TESSERA_CHECK(!t.is_meta(), "Tensor.item() cannot be called on meta tensors");
  constexpr DispatchKeySet no_memory =
      DispatchKeySet(DispatchKey::kPython) | DispatchKey::kFunctionalize | kTransformedKeys;
  const bool is_profiled =
      thread_state.included & ~thread_state.excluded & DispatchKeySet(DispatchKey::kProfiler).bits();
  const bool is_observed = modes_see_values() || is_profiled;  // modes and the profiler see the operator
  if (!t.is_cpu() || t.layout() != Layout::kStrided || t.keys().has_any(no_memory) || is_observed) {
    Value args[] = {internal::lend(t)}, result;
    g_item.call(args, 1, &result, 1);
    return result.scalar();
  }
  check_has_data(t);
  Scalar s = load_scalar(t.dtype(), t.data_ptr());
  if (t.is_conj()) s = s.conj();
  return t.is_neg() ? -s : s;
}
PyObject* py_item(PyObject* self, CallArgs call) {
  no_args("item", call);
  const Tensor& t = unwrap(self);
  warn_if_traced("value", "a Python number");
  if (!t.keys().has_any(DispatchKeySet(DispatchKey::kPython) | DispatchKey::kFunctionalize))
    return scalar_object(item_of(t));
  WantSymbol number(find_op("aten::_local_scalar_dense")->op);
  Ref plain = Ref::steal(check(scalar_object(item_of(t))));
  Ref symbol = number.take();
  return symbol ? symbol.release() : plain.release();
}

PyObject* py_complex(PyObject* self, CallArgs call) {
  no_args("__complex__", call);
  warn_if_traced("value", "a Python complex number");
  const Tensor& t = unwrap(self);
  TESSERA_CHECK_VALUE(t.numel() == 1, "only one element tensors can be converted to Python scalars");
  const std::complex<double> c = item_of(t).to_complex();
  return PyComplex_FromDoubles(c.real(), c.imag());
}

// Positions of what is not zero: a row for each, or with as_tuple a tensor for each dimension.
PyObject* py_nonzero(PyObject* self, CallArgs call) {
  PyObject* a[1];
  read_args({"nonzero", {"as_tuple"}, 0, 0}, call, a);
  return nonzero_of(unwrap(self), bool_arg("nonzero", "as_tuple", a[0], false));
}

template <class T>
PyObject* element_object(T v) {
  if constexpr (std::is_same_v<T, bool>)
    return PyBool_FromLong(v);
  else if constexpr (std::is_same_v<T, uint64_t>)
    return PyLong_FromUnsignedLongLong(v);
  else if constexpr (std::is_integral_v<T>)
    return PyLong_FromLongLong(v);
  else if constexpr (std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>)
    return PyComplex_FromDoubles(v.real(), v.imag());
  else if constexpr (std::is_same_v<T, ComplexHalf>) {
    const Scalar s = load_scalar(DType::kComplex32, &v);
    return PyComplex_FromDoubles(s.to_complex().real(), s.to_complex().imag());
  } else if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>)
    return PyFloat_FromDouble(v);
  else
    return PyFloat_FromDouble(load_scalar(DTypeOf<T>::value, &v).to_double());
}
template <class T>
PyObject* list_of(const T* data, IntList sizes, IntList strides) {
  if (sizes.empty()) return check(element_object(*data));
  Ref list = Ref::steal(check(PyList_New(sizes[0])));
  for (int64_t i = 0; i < sizes[0]; ++i) {
    const T* at = data + i * strides[0];
    PyList_SET_ITEM(list.get(), i,
                    sizes.size() == 1 ? check(element_object(*at)) : list_of(at, sizes.subspan(1), strides.subspan(1)));
  }
  return list.release();
}
PyObject* py_tolist(PyObject* self, CallArgs call) {
  no_args("tolist", call);
  warn_if_traced("value", "a Python list");
  Tensor t = with_one_value(unwrap(self));
  TESSERA_CHECK_NOT_IMPLEMENTED(!t.is_meta(), "Cannot copy out of meta tensor; no data!");
  NoGradGuard no_grad;
  if (t.is_conj()) t = g_resolve_conj(t);
  if (t.is_neg()) t = g_resolve_neg(t);
  TESSERA_CHECK_TYPE(t.layout() == Layout::kStrided, "can't convert ", layout_name(t.layout()),
                     " layout tensor to a list; use Tensor.to_dense() first");
  if (!t.is_cpu()) t = converted(t, std::nullopt, Device());
  check_has_data(t);
  return visit_dtype(t.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    return list_of(static_cast<const T*>(t.data_ptr()), t.sizes(), t.strides());
  });
}

PyObject* py_numpy(PyObject* self, CallArgs call) {
  PyObject* a[1];
  read_args({"numpy", {"force"}, 0, 0}, call, a);
  const bool force = bool_arg("numpy", "force", a[0], false);
  warn_if_traced("value", "a NumPy array");
  if (force && !unwrap(self).is_cpu()) return tensor_to_ndarray(converted(unwrap(self), std::nullopt, Device()), true);
  return tensor_to_ndarray(unwrap(self), force);
}

// Calls f(address of each element), last dimension fastest.
template <class F>
void for_each_element(const Tensor& t, F f) {
  const int64_t n = t.numel(), dims = t.dim();
  for (int64_t i = 0; i < n; ++i) {
    int64_t rest = i, offset = 0;
    for (int64_t d = dims - 1; d >= 0; --d) {
      const auto k = static_cast<size_t>(d);
      offset += rest % t.sizes()[k] * t.strides()[k];
      rest /= t.sizes()[k];
    }
    f(i, static_cast<char*>(t.data_ptr()) + offset * t.item_size());
  }
}
void check_python_loop(const char* function, const Tensor& t) {
  check_has_data(t);
  TESSERA_CHECK_TYPE(t.is_cpu(), function, " is only implemented on CPU tensors");
  TESSERA_CHECK(!(t.requires_grad() && grad_mode_enabled()) && !t.requires_grad(), "Can't call ", function,
                "() on Variable that requires grad. Use var.detach().", function, "() instead.");
  TESSERA_CHECK(!t.is_conj() && !t.is_neg(), function, "() needs a tensor without lazy conjugate and negative bits");
}
void store_result(PyObject* o, DType t, char* to) {
  Scalar s;
  if (is_tensor(o) ? (s = item_of(unwrap(o)), false) : !to_scalar(o, &s))
    throw TypeError(str_cat("the function must return a number, got ", Py_TYPE(o)->tp_name));
  if (s.is_complex() && !is_complex(t)) throw TypeError("must be real number, not complex");
  store_scalar(s, t, to, is_integral(t, false));
}
PyObject* py_apply(PyObject* self, CallArgs call) {
  PyObject* a[1];
  read_args({"apply_", {"callable"}, 1, 1}, call, a);
  const Tensor& t = unwrap(self);
  check_python_loop("apply_", t);
  for_each_element(t, [&](int64_t, char* at) {
    Ref value = Ref::steal(scalar_object(load_scalar(t.dtype(), at)));
    Ref result = Ref::steal(check(PyObject_CallOneArg(a[0], value.get())));
    store_result(result.get(), t.dtype(), at);
  });
  t.bump_version();
  return Py_NewRef(self);
}
PyObject* py_map(PyObject* self, CallArgs call) {
  PyObject* a[2];
  read_args({"map_", {"tensor", "callable"}, 2, 2}, call, a);
  const Tensor& t = unwrap(self);
  const Tensor& other = tensor_arg("map_", "tensor", a[0]);
  check_python_loop("map_", t);
  check_python_loop("map_", other);
  TESSERA_CHECK_TYPE(other.dtype() == t.dtype(), "map_: expected the other tensor to have dtype ", name_of(t.dtype()),
                     ", got ", name_of(other.dtype()));
  const IntVector shape = infer_broadcast(t.sizes(), other.sizes());
  TESSERA_CHECK(std::ranges::equal(shape, t.sizes()), "map_: the shape ", shape_string(other.sizes()),
                " doesn't broadcast to ", shape_string(t.sizes()));
  IntVector strides(shape.size(), 0);
  const size_t lead = shape.size() - static_cast<size_t>(other.dim());
  for (size_t d = lead; d < shape.size(); ++d)
    strides[d] = other.sizes()[d - lead] == 1 ? 0 : other.strides()[d - lead];
  const Tensor expanded = make_view(other, shape, strides, other.storage_offset());
  for_each_element(t, [&](int64_t i, char* at) {
    int64_t rest = i, offset = 0;
    for (size_t d = shape.size(); d-- > 0;) {
      offset += rest % shape[d] * strides[d];
      rest /= shape[d];
    }
    Ref x = Ref::steal(scalar_object(load_scalar(t.dtype(), at)));
    Ref y = Ref::steal(
        scalar_object(load_scalar(t.dtype(), static_cast<char*>(expanded.data_ptr()) + offset * t.item_size())));
    Ref result = Ref::steal(check(PyObject_CallFunctionObjArgs(a[1], x.get(), y.get(), nullptr)));
    store_result(result.get(), t.dtype(), at);
  });
  t.bump_version();
  return Py_NewRef(self);
}

// --- memory ---

PyObject* py_untyped_storage(PyObject* self, CallArgs call) {
  no_args("untyped_storage", call);
  const Tensor& t = unwrap(self);
  TESSERA_CHECK_NOT_IMPLEMENTED(t.layout() == Layout::kStrided, "Cannot access storage of a tensor with layout ",
                                layout_name(t.layout()));
  if (!t.storage())
    t.impl()->mutable_storage() = t.is_cpu() ? StorageImpl::allocate(0) : StorageImpl::without_data(t.device(), 0);
  return wrap(t.storage());
}
PyObject* py_share_memory(PyObject* self, CallArgs call) {
  no_args("share_memory_", call);
  const Tensor& t = unwrap(self);
  if (sparse::is_sparse(t)) {
    const sparse::Members& m = sparse::members(t);
    for (const Tensor* member : {&m.compressed, &m.plain, &m.values})
      if (member->defined() && t.is_cpu()) share_storage(*member->storage());
  } else if (t.is_cpu() && t.storage()) {
    share_storage(*t.storage());
  }
  return Py_NewRef(self);
}
// The device whose copies pinned memory serves; by default the accelerator.
bool pins_for(const char* function, PyObject* device) {
  const std::optional<Device> d = device_arg(function, device);
  if (!d) return true;
  check(PyErr_WarnFormat(PyExc_DeprecationWarning, 1,
                         "the argument 'device' of Tensor.%s() is deprecated: leave it out", function));
  return d->type == DeviceType::kCUDA;
}
PyObject* py_is_pinned(PyObject* self, CallArgs call) {
  PyObject* a[1];
  read_args({"is_pinned", {"device"}, 1, 0}, call, a);
  const Tensor& t = unwrap(self);
  return to_python(pins_for("is_pinned", a[0]) && t.storage() && is_pinned(*t.storage()));
}
PyObject* py_pin_memory(PyObject* self, CallArgs call) {
  PyObject* a[1];
  read_args({"pin_memory", {"device"}, 1, 0}, call, a);
  const Tensor& t = unwrap(self);
  TESSERA_CHECK(pins_for("pin_memory", a[0]), "memory is pinned for cuda devices only, but got device ",
                device_arg("pin_memory", a[0])->str());
  return t.storage() && is_pinned(*t.storage()) ? Py_NewRef(self) : wrap(options::pinned(t));
}
// The stream is an object of tessera.cuda.Stream.
PyObject* py_record_stream(PyObject* self, CallArgs call) {
  PyObject* a[1];
  read_args({"record_stream", {"s"}, 1, 1}, call, a);
  const Tensor& t = unwrap(self);
  const DeviceHooks* hooks = loaded_device_hooks(t.device().type);
  TESSERA_CHECK_NOT_IMPLEMENTED(hooks && hooks->record_stream,
                                "record_stream() is for tensors on a device with streams, this one is on ",
                                t.device().str());
  Ref handle = Ref::steal(check(PyObject_GetAttrString(a[0], "cuda_stream")));
  void* stream = PyLong_AsVoidPtr(handle.get());
  if (!stream && PyErr_Occurred()) throw ErrorAlreadySet();
  Ref index = Ref::steal(check(PyObject_GetAttrString(a[0], "device_index")));
  const long device = PyLong_AsLong(index.get());
  if (device == -1 && PyErr_Occurred()) throw ErrorAlreadySet();
  if (t.storage() && t.storage()->data())
    hooks->record_stream(t.storage()->data(), Device(t.device().type, static_cast<int>(device)), stream);
  return none();
}

PyObject* py_set(PyObject* self, CallArgs call) {
  const Tensor& t = unwrap(self);
  PyObject* a[4];
  read_args({"set_", {"source", "storage_offset", "size", "stride"}, 4, 0}, call, a);
  auto fail = [&]() {
    throw TypeError(str_cat("set_() received an invalid combination of arguments - got ", describe_args(call),
                            ", but expected one of:\n * ()\n * (torch.Storage source)\n"
                            " * (torch.Storage source, int storage_offset, tuple of ints size, tuple of ints stride = "
                            "())\n * (Tensor source)\n"
                            " * (Tensor source, int storage_offset, tuple of ints size, tuple of ints stride = ())\n"));
  };
  if (!a[0]) {
    if (call.n || call.kwnames) fail();
    Value args[] = {internal::lend(t)}, result;
    g_set.call(args, 1, &result, 1);
    return Py_NewRef(self);
  }
  const bool geometry = a[1] || a[2] || a[3];
  if (geometry && (!a[1] || !a[2])) fail();
  if (is_tensor(a[0]) && !geometry) {
    g_set_tensor(t, unwrap(a[0]));
    return Py_NewRef(self);
  }
  Storage s = is_tensor(a[0]) ? unwrap(a[0]).storage() : storage_of(a[0]);
  if (!s) fail();
  if (is_tensor(a[0]))
    TESSERA_CHECK(unwrap(a[0]).dtype() == t.dtype(), "set_: the source has dtype ", name_of(unwrap(a[0]).dtype()),
                  ", expected ", name_of(t.dtype()));
  int64_t offset = 0;
  IntVector size, stride;
  if (geometry) {
    offset = int_arg("set_", "storage_offset", 2, a[1]);
    size = int_list_arg("set_", "size", a[2]);
    if (a[3]) stride = int_list_arg("set_", "stride", a[3]);
    TESSERA_CHECK(stride.empty() || stride.size() == size.size(), "mismatch in length of strides and shape");
  } else {
    size = {static_cast<int64_t>(s->nbytes()) / t.item_size()};
  }
  if (stride.empty()) stride = contiguous_strides(size);
  g_set_storage(t, s, SymInt(offset), IntList(size), IntList(stride));
  return Py_NewRef(self);
}

// --- identity and subclasses ---

PyObject* py_requires_grad(PyObject* self, CallArgs call) {
  PyObject* a[1];
  read_args({"requires_grad_", {"requires_grad"}, 1, 0}, call, a);
  const bool on = bool_arg("requires_grad_", "requires_grad", a[0], true);
  const Tensor& t = unwrap(self);
  if (!t.is_leaf()) {
    TESSERA_CHECK(on,
                  "you can only change requires_grad flags of leaf variables. If you want to use a computed variable "
                  "in a subgraph that doesn't require differentiation use var_no_grad = var.detach().");
    return Py_NewRef(self);
  }
  TESSERA_CHECK(!on || t.is_floating_point() || t.is_complex(),
                "only Tensors of floating point dtype can require gradients");
  t.requires_grad_(on);
  return Py_NewRef(self);
}
PyTypeObject* tensor_type_arg(const char* function, PyObject* o) {
  if (!PyType_Check(o))
    throw TypeError(str_cat(function, "(): argument 'cls' must be a type, not ", Py_TYPE(o)->tp_name));
  if (!PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(o), TensorType))
    throw TypeError(
        str_cat(function, "(): cls must be a subclass of Tensor, got ", reinterpret_cast<PyTypeObject*>(o)->tp_name));
  return reinterpret_cast<PyTypeObject*>(o);
}
// A method that no __torch_function__ takes over.
template <FixedName N, Implementation F>
PyMethodDef direct(const char* doc) {
  constexpr auto entry = [](PyObject* self, PyObject* const* args, Py_ssize_t n, PyObject* kwnames) {
    return guarded([&] { return F(self, {args, n, kwnames}); });
  };
  return {kStoredName<N>.text, as_c_function(+entry), METH_FASTCALL | METH_KEYWORDS, doc};
}
PyObject* py_as_subclass(PyObject* self, CallArgs call) {
  PyObject* a[1];
  read_args({"as_subclass", {"cls"}, 1, 1}, call, a);
  return wrap_as(tensor_type_arg("as_subclass", a[0]), g_alias(unwrap(self)));
}
PyObject* py_make_subclass(PyObject*, PyObject* const* args, Py_ssize_t n, PyObject* kwnames) {
  return guarded([&]() -> PyObject* {
    PyObject* a[3];
    read_args({"_make_subclass", {"cls", "data", "require_grad"}, 3, 2}, {args, n, kwnames}, a);
    PyTypeObject* cls = tensor_type_arg("_make_subclass", a[0]);
    const Tensor& data = tensor_arg("_make_subclass", "data", a[1]);
    const bool requires_grad = bool_arg("_make_subclass", "require_grad", a[2], false);
    TESSERA_CHECK(!requires_grad || data.is_floating_point() || data.is_complex(),
                  "Only Tensors of floating point and complex dtype can require gradients");
    Tensor r(data.impl()->shallow_copy(true));
    if (requires_grad) r.requires_grad_(true);
    return wrap_as(cls, std::move(r));
  });
}
PyObject* py_make_wrapper(PyObject*, PyObject* const* args, Py_ssize_t n, PyObject* kwnames) {
  return guarded([&]() -> PyObject* {
    PyObject* a[12];
    read_args({"_make_wrapper_subclass",
               {"cls", "size", "strides", "storage_offset", "memory_format", "dtype", "layout", "device", "pin_memory",
                "requires_grad", "dispatch_sizes_strides_policy", "dispatch_device"},
               9,
               2},
              {args, n, kwnames}, a);
    PyTypeObject* cls = tensor_type_arg("_make_wrapper_subclass", a[0]);
    const IntVector sizes = int_list_arg("_make_wrapper_subclass", "size", a[1]);
    const IntVector strides =
        a[2] && a[2] != Py_None ? int_list_arg("_make_wrapper_subclass", "strides", a[2]) : contiguous_strides(sizes);
    TESSERA_CHECK(strides.size() == sizes.size(), "_make_wrapper_subclass: ", sizes.size(), " sizes but ",
                  strides.size(), " strides");
    checked_numel(sizes);
    const DType dtype = dtype_arg("_make_wrapper_subclass", a[5]).value_or(default_dtype());
    const Device device = device_arg("_make_wrapper_subclass", a[7]).value_or(Device());
    Storage nothing = StorageImpl::without_data(device, device.is_cpu());
    if (device.is_cpu()) nothing->resize(0);  // shrunk: who reaches for data is refused
    auto impl = make_tensor_impl(std::move(nothing), dtype, device, backend_key(device.type));
    impl->set_sizes_and_strides(sizes, strides);
    if (a[3] && a[3] != Py_None) impl->set_storage_offset(int_arg("_make_wrapper_subclass", "storage_offset", 0, a[3]));
    if (a[6] && a[6] != Py_None && is_layout(a[6])) impl->set_layout(unwrap_layout(a[6]));
    Tensor t(std::move(impl));
    if (bool_arg("_make_wrapper_subclass", "requires_grad", a[9], false)) t.requires_grad_(true);
    t.impl()->set_key(DispatchKey::kPython, true);  // where operators find that there are no data
    return wrap_as(cls, std::move(t));
  });
}

PyObject* py_dlpack_capsule(PyObject* self, CallArgs call) {
  PyObject* a[1];
  read_args({"_to_dlpack", {"versioned"}, 1, 0}, call, a);
  return to_dlpack(unwrap(self), bool_arg("_to_dlpack", "versioned", a[0], false));
}
PyObject* py_dlpack_numbers(PyObject* self, CallArgs call) {
  no_args("_dlpack_device", call);
  const auto [type, id] = dlpack_device(unwrap(self));
  return Py_BuildValue("(ii)", type, id);
}

}  // namespace

std::vector<PyMethodDef> tensor_methods() {
  std::vector<PyMethodDef> r = {
      method<"size", py_size>("size(dim=None) -> torch.Size or int"),
      method<"stride", py_stride>("stride(dim=None) -> tuple or int"),
      method<"dim", py_dim>("dim() -> int: the number of dimensions."),
      method<"ndimension", py_dim>("ndimension() -> int: dim() by another name."),
      method<"numel", py_numel>("numel() -> int: the number of elements."),
      method<"nelement", py_numel>("nelement() -> int: numel() by another name."),
      method<"element_size", py_element_size>("element_size() -> int\n\nBytes of one element."),
      method<"storage_offset", py_storage_offset>(
          "storage_offset() -> int\n\nWhere the first element lies in the storage, in elements."),
      method<"data_ptr", py_data_ptr>("data_ptr() -> int\n\nAddress of the first element; 0 where there is none."),
      method<"is_contiguous", py_is_contiguous>(
          "is_contiguous(memory_format=torch.contiguous_format) -> bool\n\nWhether the elements lie in memory in "
          "the order of that format, without gaps."),
      method<"is_floating_point", py_flag<flag_floating>>(
          "is_floating_point() -> bool\n\nWhether the dtype is a real floating-point one."),
      method<"is_complex", py_flag<flag_complex>>("is_complex() -> bool\n\nWhether the dtype is complex."),
      method<"is_signed", py_flag<flag_signed>>("is_signed() -> bool\n\nWhether the dtype has negative numbers."),
      method<"is_conj", py_flag<flag_conj>>(
          "is_conj() -> bool\n\nWhether the conjugation of the elements is still to be done (resolve_conj does it)."),
      method<"is_neg", py_flag<flag_neg>>(
          "is_neg() -> bool\n\nWhether the negation of the elements is still to be done (resolve_neg does it)."),
      method<"is_inference", py_flag<flag_inference>>(
          "is_inference() -> bool\n\nWhether the tensor was made in inference mode."),
      method<"_is_view", py_flag<flag_view>>(),
      method<"is_shared", py_flag<flag_shared>>(
          "is_shared() -> bool\n\nWhether other processes can have the memory, too; true on CUDA devices."),
      method<"has_names", py_flag<flag_names>>("has_names() -> bool\n\nWhether a dimension has a name."),
      method<"is_distributed", py_flag<flag_false>>(
          "is_distributed() -> bool\n\nFalse: a tensor's data are of one process."),
      method<"_is_zerotensor", py_flag<flag_false>>(),
      method<"get_device", py_get_device>(
          "get_device() -> int\n\nThe index of the tensor's CUDA device; -1 for the CPU."),
      method<"_use_count", py_use_count>(),
      method<"dim_order", py_dim_order>(
          "dim_order(*, ambiguity_check=False) -> tuple\n\nThe dimensions from the one with the largest stride to "
          "the one with the smallest.\nambiguity_check: RuntimeError where more than one order fits; a list of "
          "memory formats: only among these."),
      method<"is_set_to", py_is_set_to>(
          "is_set_to(tensor) -> bool\n\nWhether both are the same view of the same storage."),
      method<"is_same_size", py_is_same_size>("is_same_size(other) -> bool\n\nWhether both have the same shape."),
      method<"_has_compatible_shallow_copy_type", py_compatible>(),
      method<"nonzero", py_nonzero>("nonzero(*, as_tuple=False) -> Tensor or tuple of Tensors"),
      method<"__complex__", py_complex>(),
      method<"item", py_item>("item() -> number"),
      method<"tolist", py_tolist>("tolist() -> list or number"),
      method<"numpy", py_numpy>("numpy(*, force=False) -> numpy.ndarray on the same memory"),
      method<"apply_", py_apply>(
          "apply_(callable) -> Tensor\n\nEach element becomes callable(element), one after the other in Python; CPU "
          "tensors only, no derivative."),
      method<"map_", py_map>(
          "map_(tensor, callable) -> Tensor\n\nEach element a becomes callable(a, b), b the element of `tensor` "
          "(broadcast) there; CPU tensors only, no derivative."),
      method<"untyped_storage", py_untyped_storage>(
          "untyped_storage() -> torch.UntypedStorage\n\nThe memory under the tensor, as bytes."),
      method<"share_memory_", py_share_memory>(
          "share_memory_() -> Tensor\n\nMoves the storage into memory that other processes can have; nothing to do "
          "on CUDA devices."),
      method<"is_pinned", py_is_pinned>(
          "is_pinned(device=None) -> bool\n\nWhether the memory is page-locked, so that devices copy it by "
          "themselves."),
      method<"pin_memory", py_pin_memory>(
          "pin_memory() -> Tensor\n\nA copy in page-locked memory; itself where it lies there. CPU tensors only."),
      method<"record_stream", py_record_stream>(
          "record_stream(stream)\n\nThe memory is not given anew, once freed, before `stream` has done what it has "
          "to do now."),
      method<"set_", py_set>(
          "set_(source=None, storage_offset=0, size=None, stride=None) -> Tensor\n\nThe tensor becomes a view of "
          "`source`, a tensor or a storage; without one, an empty tensor. storage_offset and stride\nare in "
          "elements; without a size the whole storage in one dimension."),
      method<"requires_grad_", py_requires_grad>(
          "requires_grad_(requires_grad=True) -> Tensor\n\nWhether autograd shall record what is done with this "
          "tensor, in place. Floating and complex leaves only."),
      direct<"as_subclass", py_as_subclass>(
          "as_subclass(cls) -> Tensor\n\nThe same data as an object of `cls`, a subclass of Tensor; derivatives "
          "flow through."),
      method<"_to_dlpack", py_dlpack_capsule>(),
      method<"_dlpack_device", py_dlpack_numbers>(),
  };
  r.push_back(
      {"_make_subclass", as_c_function(py_make_subclass), METH_FASTCALL | METH_KEYWORDS | METH_STATIC, nullptr});
  r.push_back(
      {"_make_wrapper_subclass", as_c_function(py_make_wrapper), METH_FASTCALL | METH_KEYWORDS | METH_STATIC, nullptr});
  for (const PyMethodDef& m : conversion_methods()) r.push_back(m);
  r.push_back({nullptr, nullptr, 0, nullptr});
  return r;
}

}  // namespace tessera::python
