#include "python/bindings/convert/create.h"

#include <cstring>

#include "python/bindings/args.h"
#include "python/bindings/buffer.h"
#include "python/bindings/calls.h"
#include "python/bindings/convert/dlpack.h"
#include "python/bindings/convert/numpy.h"
#include "python/bindings/convert/storage.h"
#include "python/bindings/convert/tensor_convert.h"
#include "python/bindings/convert/names.h"
#include "python/bindings/jit/traced.h"
#include "python/bindings/library/fake.h"
#include "python/bindings/tensor_type.h"
#include "python/bindings/types.h"
#include "tensor/core/device_hooks.h"
#include "tensor/core/transforms.h"
#include "tensor/core/warning.h"
#include "tensor/ops/options.h"

namespace tessera::python {
namespace {

constexpr uint64_t kFunctionalBit = DispatchKeySet(DispatchKey::kFunctionalize).bits();
NamedOp g_to_copy("aten::_to_copy"), g_copy("aten::copy_"), g_alias("aten::alias"), g_detach("aten::detach");

// A copy without history.
Tensor copy_of(const Tensor& t, DType dtype, Device device) {
  ExcludeKeys no_autograd(kAutogradKeys);
  const IntVector strides = t.layout() == Layout::kStrided ? preserved_strides(t) : IntVector();
  Tensor r = empty_tensor(t.sizes(), strides, dtype, complete_device(device));
  if (t.numel() == 0 || device.is_meta()) return r;
  if (t.dtype() == dtype && t.is_cpu() && device.is_cpu() && t.is_non_overlapping_and_dense() && !t.is_conj() &&
      !t.is_neg()) {
    GilRelease unlocked(t.numel() > 16384);
    std::memcpy(r.data_ptr(), t.data_ptr(),
                static_cast<size_t>(t.nbytes()));  // same permutation of the same dense block
    return r;
  }
  g_copy(r, t, false);
  return r;
}

Tensor moved(Tensor t, std::optional<Device> device) {
  if (!device || device->is_cpu()) return t;
  return copy_of(t, t.dtype(), *device);
}

// Arrays of other libraries on CUDA devices.
bool has_cuda_array(PyObject* o) { return !is_tensor(o) && PyObject_HasAttrString(o, "__cuda_array_interface__"); }
Tensor tensor_over_cuda_array(PyObject* o) {
  Ref module = Ref::steal(check(PyImport_ImportModule("tessera.cuda._array_interface")));
  Ref t = Ref::steal(check(PyObject_CallMethod(module.get(), "take", "(O)", o)));
  return unwrap(t.get());
}

// --- functions ---

PyObject* py_tensor(PyObject*, CallArgs call) {
  PyObject* a[6];
  read_args({"tensor", {"data", "dtype", "device", "requires_grad", "pin_memory", "names"}, 1, 1}, call, a);
  const auto dtype = dtype_arg("tensor", a[1]);
  const auto device = device_arg("tensor", a[2]);
  const bool requires_grad = bool_arg("tensor", "requires_grad", a[3], false);
  const bool pin = bool_arg("tensor", "pin_memory", a[4], false);
  warn_if_traced("constant", "torch.tensor");
  if (is_tensor(a[0]))
    check(PyErr_WarnEx(PyExc_UserWarning,
                       "To copy construct from a tensor, it is recommended to use sourceTensor.detach().clone() or "
                       "sourceTensor.detach().clone().requires_grad_(True), rather than "
                       "torch.tensor(sourceTensor).",
                       1));
  Tensor t = lifted(device, [&](std::optional<Device> on) {
    Tensor made = tensor_from_data(a[0], dtype, on);
    return pin ? options::pinned(made) : made;
  });
  if (requires_grad) {
    TESSERA_CHECK(t.is_floating_point() || t.is_complex(),
                  "Only Tensors of floating point and complex dtype can require gradients");
    t.requires_grad_(true);
  } else if (inside_transform() || thread_state.included & kFunctionalBit) {
    // No operator made it: the innermost level, or functionalization, is to know that it is the function's own.
    Value arg = Value::of(std::move(t)), result;
    g_alias.call(&arg, 1, &result, 1);
    t = result.take_tensor();
  }
  if (is_tensor(a[0])) keep_names(unwrap(a[0]), t);
  if (a[5] && a[5] != Py_None) give_names(t, a[5], is_tensor(a[0]));
  return wrap(std::move(t));
}

PyObject* py_as_tensor(PyObject*, CallArgs call) {
  PyObject* a[3];
  read_args({"as_tensor", {"data", "dtype", "device"}, 3, 1}, call, a);
  const auto dtype = dtype_arg("as_tensor", a[1]);
  const auto device = device_arg("as_tensor", a[2]);
  if (is_tensor(a[0])) {
    const Tensor& t = unwrap(a[0]);
    if ((!dtype || *dtype == t.dtype()) &&
        (!device || *device == t.device() || (device->type == t.device().type && !device->has_index())))
      return Py_NewRef(a[0]);
    return wrap(converted(t, dtype, device));
  }
  warn_if_traced("constant", "torch.as_tensor");
  if (is_ndarray(a[0]))
    return wrap(lifted(
        device, [&](std::optional<Device> on) { return converted(tensor_from_ndarray(a[0], true), dtype, on); }));
  if (has_cuda_array(a[0])) return wrap(converted(tensor_over_cuda_array(a[0]), dtype, device));
  return wrap(lifted(device, [&](std::optional<Device> on) { return tensor_from_data(a[0], dtype, on); }));
}

PyObject* py_from_numpy(PyObject*, CallArgs call) {
  PyObject* a[1];
  read_args({"from_numpy", {"ndarray"}, 1, 1}, call, a);
  if (!is_ndarray(a[0])) throw TypeError(str_cat("expected np.ndarray (got ", Py_TYPE(a[0])->tp_name, ")"));
  warn_if_traced("constant", "torch.from_numpy");
  return wrap(tensor_from_ndarray(a[0], true));
}

// The buffer is exported as long as a tensor uses it.
void release_buffer(void*, void* context, size_t) {
  with_python([&] { delete static_cast<Buffer*>(context); });
}

Tensor tensor_over_buffer(PyObject* o, DType dtype, int64_t count, int64_t offset) {
  auto buffer = Buffer::find(o, PyBUF_WRITABLE);
  if (!buffer) {
    buffer = Buffer::find(o, PyBUF_SIMPLE);
    if (!buffer)
      throw ValueError(PyObject_CheckBuffer(o) ? "could not retrieve buffer from object"
                                               : "object does not implement Python buffer protocol.");
    warn_once(
        "The given buffer is not writable, and PyTorch does not support non-writable tensors. This means you can write "
        "to the underlying (supposedly non-writable) buffer using the tensor. You may want to copy the buffer to "
        "protect its data or make it writable before converting it to a tensor. This type of warning will be "
        "suppressed for the rest of this program.");
  }
  const int64_t len = buffer->size(), size = item_size(dtype);
  TESSERA_CHECK_VALUE(len > 0 && count != 0, "both buffer length (", len, ") and count (", count, ") must not be 0");
  TESSERA_CHECK_VALUE(offset >= 0 && offset < len, "offset (", offset,
                      " bytes) must be non-negative and no greater than buffer length (", len, " bytes) minus 1");
  if (count > 0) {
    TESSERA_CHECK_VALUE(count <= (len - offset) / size, "requested buffer length (", count, " * ", size,
                        " bytes) after offset (", offset, " bytes) must not be greater than actual buffer length (",
                        len, " bytes)");
  } else {
    TESSERA_CHECK_VALUE((len - offset) % size == 0, "buffer length (", len - offset, " bytes) after offset (", offset,
                        " bytes) must be a multiple of element size (", size, ")");
    count = (len - offset) / size;
  }
  // The storage begins at the offset, as documented: what lies before is not the tensor's.
  void* first = buffer->bytes().data() + offset;
  Storage s = StorageImpl::wrap(first, static_cast<size_t>(count * size), Device(), &release_buffer, buffer.release());
  const int64_t sizes[] = {count}, strides[] = {1};
  return tensor_from_storage(std::move(s), sizes, strides, 0, dtype);
}

PyObject* py_frombuffer(PyObject*, CallArgs call) {
  PyObject* a[5];
  read_args({"frombuffer", {"buffer", "dtype", "count", "offset", "requires_grad"}, 1, 2}, call, a);
  const auto dtype = dtype_arg("frombuffer", a[1]);
  if (!dtype) throw TypeError("frombuffer(): argument 'dtype' must be torch.dtype, not NoneType");
  const int64_t count = a[2] ? int_arg("frombuffer", "count", 0, a[2]) : -1,
                offset = a[3] ? int_arg("frombuffer", "offset", 0, a[3]) : 0;
  Tensor t = tensor_over_buffer(a[0], *dtype, count, offset);
  if (bool_arg("frombuffer", "requires_grad", a[4], false)) t.requires_grad_(true);
  return wrap(std::move(t));
}

PyObject* py_from_dlpack(PyObject*, CallArgs call) {
  PyObject* a[1];
  read_args({"_from_dlpack", {"capsule"}, 1, 1}, call, a);
  return wrap(from_dlpack(a[0]));
}
PyObject* py_to_dlpack(PyObject*, CallArgs call) {
  PyObject* a[2];
  read_args({"_to_dlpack", {"tensor", "versioned"}, 2, 1}, call, a);
  return to_dlpack(tensor_arg("_to_dlpack", "tensor", a[0]), bool_arg("_to_dlpack", "versioned", a[1], false));
}

// What asarray finds to share: undefined if the object has no memory of its own.
Tensor shared_memory_of(PyObject* o, std::optional<DType> dtype) {
  if (is_tensor(o)) return unwrap(o);
  if (is_ndarray(o)) return tensor_from_ndarray(o, true);
  if (!is_numpy_scalar(o) && PyObject_HasAttrString(o, "__dlpack__")) {
    Ref capsule = Ref::steal(check(PyObject_CallMethod(o, "__dlpack__", nullptr)));
    return from_dlpack(capsule.get());
  }
  if (PyCapsule_CheckExact(o)) return from_dlpack(o);
  if (has_cuda_array(o)) return tensor_over_cuda_array(o);
  if (!is_numpy_scalar(o) && PyObject_CheckBuffer(o) && !PyUnicode_Check(o)) {
    const int64_t len = Buffer(o, PyBUF_SIMPLE).size();
    const DType found = dtype.value_or(default_dtype());  // the buffer's own format does not count
    if (len == 0) return empty_kernel(IntVector{0}, found);
    return tensor_over_buffer(o, found, -1, 0);
  }
  return {};
}

PyObject* py_asarray(PyObject*, CallArgs call) {
  PyObject* a[5];
  read_args({"asarray", {"obj", "dtype", "device", "copy", "requires_grad"}, 1, 1}, call, a);
  const auto dtype = dtype_arg("asarray", a[1]);
  const auto device = device_arg("asarray", a[2]);
  const bool must_copy = bool_arg("asarray", "copy", a[3], false), may_copy = !a[3] || a[3] == Py_None || must_copy;
  const bool requires_grad = bool_arg("asarray", "requires_grad", a[4], false);
  Tensor t = shared_memory_of(a[0], dtype);
  if (!t.defined()) {
    if (!may_copy && is_numpy_scalar(a[0]))
      throw Error("can't alias NumPy scalars. Either remove copy=False or transform it in a ndarray. ");
    TESSERA_CHECK_VALUE(may_copy, "can't alias arbitrary sequence into a tensor.");
    t = tensor_from_data(a[0], dtype, device);
  } else {
    const Device where = device.value_or(t.device());
    const bool same = (!dtype || *dtype == t.dtype()) && where.type == t.device().type;
    TESSERA_CHECK_VALUE(may_copy || !device || where.type == t.device().type, "can't alias tensor from device '",
                        t.device().str(), "' to '", where.str(), "'.");
    TESSERA_CHECK_VALUE(may_copy || !dtype || *dtype == t.dtype(), "can't alias tensor with dtype '",
                        name_of(t.dtype()), "' into dtype '", dtype ? name_of(*dtype) : "", "'.");
    const bool given = is_tensor(a[0]);
    const bool keep_history = given && requires_grad && t.requires_grad();
    if (!same)
      t = keep_history ? converted(t, dtype, device) : copy_of(t, dtype.value_or(t.dtype()), where);
    else if (must_copy)
      t = keep_history ? g_to_copy(t, std::optional<DType>(), std::optional<Layout>(), std::optional<Device>(),
                                   std::optional<bool>(), false, std::optional<MemoryFormat>())
                       : copy_of(t, t.dtype(), where);
    else if (given && !requires_grad && t.requires_grad())
      t = g_detach(t);
    if (keep_history) return wrap(std::move(t));
  }
  if (requires_grad && !t.requires_grad()) {
    TESSERA_CHECK(t.is_floating_point() || t.is_complex(),
                  "only Tensors of floating point and complex dtype can require gradients");
    t.requires_grad_(true);
  }
  return wrap(std::move(t));
}

// --- the old constructor ---

// Sizes, if all the arguments are integers.
bool sizes_of(PyObject* args, IntVector* out) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); ++i) {
    int64_t v;
    PyObject* e = PyTuple_GET_ITEM(args, i);
    if (PyBool_Check(e) || is_tensor(e) || !to_int64(e, &v)) return false;
    out->push_back(v);
  }
  return true;
}

Tensor legacy_tensor(DType dtype, bool any_dtype, PyObject* args, PyObject* device) {
  if (device && device != Py_None) {
    const Device d = to_device(device);
    TESSERA_CHECK(d.is_cpu(), "legacy constructor expects device type: cpu but device type: ", device_type_name(d.type),
                  " was passed");
  }
  const Py_ssize_t n = PyTuple_GET_SIZE(args);
  if (n == 0) return empty_kernel(IntVector{0}, dtype);
  PyObject* first = PyTuple_GET_ITEM(args, 0);
  if (n == 1) {
    if (is_tensor(first)) {
      const Tensor& t = unwrap(first);
      TESSERA_CHECK(!device || device == Py_None,
                    "Legacy tensor constructor: torch.Tensor(tensor, device=...) is not supported; use "
                    "torch.as_tensor(tensor, device=...)");
      if (!any_dtype && t.dtype() != dtype)
        throw TypeError(str_cat("expected TensorOptions(dtype=", name_of(dtype),
                                ") (got TensorOptions(dtype=", name_of(t.dtype()), "))"));
      return g_alias(t);
    }
    if (Storage s = PyTuple_Check(first) || PyList_Check(first) ? Storage() : storage_of(first)) {
      const int64_t count[] = {static_cast<int64_t>(s->nbytes()) / item_size(dtype)}, one[] = {1};
      return tensor_from_storage(s, count, one, 0, dtype);
    }
    if (Py_TYPE(first) == SizeType) {
      IntVector sizes;
      sizes_of(first, &sizes);
      return empty_kernel(sizes, dtype);
    }
    int64_t v;
    if (PyFloat_Check(first) || PyBool_Check(first) || PyComplex_Check(first) ||
        (!PySequence_Check(first) && !to_int64(first, &v)))
      throw TypeError(str_cat("new(): data must be a sequence (got ", Py_TYPE(first)->tp_name, ")"));
    if (!PyIndex_Check(first) || is_ndarray(first)) return tensor_from_data(first, dtype, std::nullopt);
  }
  IntVector sizes;
  if (sizes_of(args, &sizes)) return empty_kernel(sizes, dtype);
  throw TypeError(
      str_cat("new() received an invalid combination of arguments - got ",
              describe_args({&PyTuple_GET_ITEM(args, 0), n, nullptr}),
              ", but expected one of:\n * (*, torch.device device)\n * (torch.Storage storage)\n * (Tensor other)\n * "
              "(tuple of ints size, *, torch.device device)\n * (object data, *, torch.device device)\n"));
}

PyObject* device_keyword(PyObject* kwargs) {
  if (!kwargs || PyDict_Size(kwargs) == 0) return nullptr;
  PyObject* device = PyDict_GetItemString(kwargs, "device");
  if (!device || PyDict_Size(kwargs) != 1)
    throw TypeError("new() received an unexpected keyword argument; it takes device= alone");
  return device;
}

// _legacy_tensor(dtype, args, kwargs): what torch.FloatTensor(...) calls.
PyObject* py_legacy_tensor(PyObject*, CallArgs call) {
  PyObject* a[3];
  read_args({"_legacy_tensor", {"dtype", "args", "kwargs"}, 3, 3}, call, a);
  return wrap(legacy_tensor(*dtype_arg("_legacy_tensor", a[0]), false, a[1], device_keyword(a[2])));
}

}  // namespace

Tensor converted(const Tensor& t, std::optional<DType> dtype, std::optional<Device> device) {
  if (device) device = complete_device(*device);
  if (device && *device == t.device()) device.reset();
  if (dtype && *dtype == t.dtype()) dtype.reset();
  if (!dtype && !device) return t;
  GilRelease unlocked(t.numel() > 16384);
  return g_to_copy(t, dtype, std::optional<Layout>(), device, std::optional<bool>(), false,
                   std::optional<MemoryFormat>());
}

// The elements of a storage, shared. One without a dtype holds int64 where none is asked for.
Tensor tensor_over_storage(PyObject* o, Storage s, std::optional<DType> dtype) {
  Ref own = Ref::steal(PyObject_GetAttrString(o, "dtype"));
  if (own) {
    const DType t = *dtype_arg("tensor", own.get());
    if (dtype && *dtype != t)
      throw Error(str_cat("Expected a Storage of type ", type_name_of(*dtype), " or an UntypedStorage, but got ",
                          type_name_of(t)));
    dtype = t;
  } else {
    PyErr_Clear();
  }
  const DType t = dtype.value_or(DType::kInt64);
  const int64_t count[] = {static_cast<int64_t>(s->nbytes()) / item_size(t)}, one[] = {1};
  return tensor_from_storage(std::move(s), count, one, 0, t);
}

Tensor tensor_from_data(PyObject* data, std::optional<DType> dtype, std::optional<Device> device) {
  if (device) device = complete_device(*device);
  if (is_tensor(data)) {
    const Tensor& t = unwrap(data);
    return copy_of(t, dtype.value_or(t.dtype()), device.value_or(t.device()));
  }
  if (is_ndarray(data)) {
    const Tensor t = tensor_from_ndarray(data, false);
    return copy_of(t, dtype.value_or(t.dtype()), device.value_or(Device()));
  }
  const bool plain = PyList_CheckExact(data) || PyTuple_CheckExact(data) || PyFloat_Check(data) || PyLong_Check(data) ||
                     PyUnicode_Check(data);
  if (Storage s = plain || is_numpy_scalar(data) ? Storage() : storage_of(data))
    return moved(tensor_over_storage(data, std::move(s), dtype), device);
  if (!plain && !is_numpy_scalar(data) && PyObject_HasAttrString(data, "__dlpack__")) {
    Ref capsule = Ref::steal(check(PyObject_CallMethod(data, "__dlpack__", nullptr)));
    const Tensor t = from_dlpack(capsule.get());
    return copy_of(t, dtype.value_or(t.dtype()), device.value_or(Device()));
  }
  if (!plain && has_cuda_array(data)) {
    const Tensor t = tensor_over_cuda_array(data);
    return copy_of(t, dtype.value_or(t.dtype()), device.value_or(t.device()));
  }
  return moved(tensor_from_sequence(data, dtype), device);
}

PyObject* legacy_constructor(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  PyObject* device = device_keyword(kwargs);
  warn_if_traced("constant", "torch.Tensor");
  Tensor t = legacy_tensor(default_dtype(), true, args, device);
  return wrap_as(type, std::move(t));
}

std::vector<PyMethodDef> creation_functions() {
  return {
      function<"tensor", py_tensor>(
          "tensor(data, *, dtype=None, device=None, requires_grad=False, pin_memory=False) -> Tensor\n\nA tensor with "
          "a copy of data: numbers, nested sequences, arrays, tensors."),
      function<"as_tensor", py_as_tensor>(
          "as_tensor(data, dtype=None, device=None) -> Tensor\n\nLike tensor(), without a copy where data is a tensor "
          "or an array of that dtype and device."),
      function<"asarray", py_asarray>(
          "asarray(obj, *, dtype=None, device=None, copy=None, requires_grad=False) -> Tensor"),
      function<"from_numpy", py_from_numpy>("from_numpy(ndarray) -> Tensor\n\nA tensor on the memory of an array."),
      function<"frombuffer", py_frombuffer>("frombuffer(buffer, *, dtype, count=-1, offset=0, requires_grad=False) -> "
                                            "Tensor\n\nA 1-D tensor on the memory of an object with a buffer."),
      function<"_from_dlpack", py_from_dlpack>(),
      function<"_to_dlpack", py_to_dlpack>(),
      function<"_legacy_tensor", py_legacy_tensor>(),
  };
}

}  // namespace tessera::python
