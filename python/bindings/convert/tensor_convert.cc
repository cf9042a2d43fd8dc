#include "python/bindings/convert/tensor_convert.h"

#include <cstring>

#include "python/bindings/args.h"
#include "python/bindings/convert/create.h"
#include "python/bindings/types.h"
#include "tensor/core/device_hooks.h"
#include "tensor/ops/options.h"

namespace tessera::python {
namespace {

NamedOp g_to_copy("aten::_to_copy"), g_contiguous("aten::contiguous");

// Where t goes; a tensor that Python looks after (fake, wrapped) need not find the device there.
Device destination(const Tensor& t, Device d) {
  if (!t.keys().has(DispatchKey::kPython) || d.is_cpu()) return complete_device(d);
  return d.is_meta() || d.has_index() ? d : Device(d.type, 0);
}

// The same object where nothing changes.
PyObject* convert(PyObject* self, const ToArgs& a) {
  const Tensor& t = unwrap(self);
  const std::optional<Device> device =
      a.device && *a.device != t.device() ? std::optional(destination(t, *a.device)) : std::nullopt;
  const bool moves = device && *device != t.device();
  const bool casts = a.dtype && *a.dtype != t.dtype();
  const MemoryFormat format = a.memory_format.value_or(MemoryFormat::kPreserve);
  const bool restrides = format != MemoryFormat::kPreserve && !t.is_contiguous(format);
  if (!moves && !casts && !restrides && !a.copy) return Py_NewRef(self);
  Tensor r;
  {
    GilRelease unlocked(t.numel() > 16384);
    r = g_to_copy(t, casts ? a.dtype : std::nullopt, std::optional<Layout>(), moves ? device : std::nullopt,
                  std::optional<bool>(), a.non_blocking, a.memory_format);
  }
  return wrap(std::move(r));
}

PyObject* py_to(PyObject* self, CallArgs call) {
  const Tensor& t = unwrap(self);
  // The common forms first: to(dtype), to(device).
  if (call.n == 1 && !call.kwnames) {
    ToArgs a;
    if (is_dtype(call.args[0])) {
      a.dtype = unwrap_dtype(call.args[0]);
      return *a.dtype == t.dtype() ? Py_NewRef(self) : convert(self, a);
    }
    if (is_device(call.args[0])) {
      a.device = to_device(call.args[0]);
      return convert(self, a);
    }
  }
  return convert(self, parse_to(call));
}

template <DType T, FixedName N>
PyObject* py_cast(PyObject* self, CallArgs call) {
  PyObject* v[1];
  read_args({kStoredName<N>.text, {"memory_format"}, 0, 0}, call, v);
  ToArgs a;
  a.dtype = T;
  a.memory_format = memory_format_arg(kStoredName<N>.text, v[0]);
  return convert(self, a);
}
template <DType T, FixedName N>
PyMethodDef cast(const char* doc) {
  return method<N, py_cast<T, N>>(doc);
}

PyObject* py_cpu(PyObject* self, CallArgs call) {
  PyObject* v[1];
  read_args({"cpu", {"memory_format"}, 0, 0}, call, v);
  ToArgs a;
  a.device = Device();
  a.memory_format = memory_format_arg("cpu", v[0]);
  return convert(self, a);
}
PyObject* py_cuda(PyObject* self, CallArgs call) {
  PyObject* v[3];
  read_args({"cuda", {"device", "non_blocking", "memory_format"}, 2, 0}, call, v);
  ToArgs a;
  a.device = device_arg("cuda", v[0]).value_or(Device(DeviceType::kCUDA));
  TESSERA_CHECK(a.device->is_cuda(), "Invalid device, must be cuda device");
  a.non_blocking = bool_arg("cuda", "non_blocking", v[1], false);
  a.memory_format = memory_format_arg("cuda", v[2]);
  return convert(self, a);
}

struct LegacyName {
  const char* name;
  DType dtype;
};
constexpr LegacyName kLegacy[] = {{"FloatTensor", DType::kFloat32},
                                  {"DoubleTensor", DType::kFloat64},
                                  {"HalfTensor", DType::kFloat16},
                                  {"BFloat16Tensor", DType::kBFloat16},
                                  {"ByteTensor", DType::kUInt8},
                                  {"CharTensor", DType::kInt8},
                                  {"ShortTensor", DType::kInt16},
                                  {"IntTensor", DType::kInt32},
                                  {"LongTensor", DType::kInt64},
                                  {"BoolTensor", DType::kBool},
                                  {"ComplexFloatTensor", DType::kComplex64},
                                  {"ComplexDoubleTensor", DType::kComplex128}};

// A dtype, "torch.FloatTensor" or torch.FloatTensor. ValueError for other texts.
DType legacy_type(PyObject* o) {
  DType t;
  if (to_dtype(o, &t)) return t;
  if (PyUnicode_Check(o)) {
    const std::string text = from_python_string(o);
    std::string_view name = text;
    for (std::string_view prefix : {"torch.", "tessera."})
      if (name.starts_with(prefix)) name.remove_prefix(prefix.size());
    if (name.size() != text.size())
      for (const LegacyName& l : kLegacy)
        if (name == l.name) return l.dtype;
    if (name == "Tensor" && name.size() != text.size()) return default_dtype();
    throw ValueError(str_cat("invalid type: '", text, "'"));
  }
  Ref dtype = Ref::steal(PyObject_GetAttrString(o, "dtype"));
  if (dtype && is_dtype(dtype.get())) return unwrap_dtype(dtype.get());
  PyErr_Clear();
  if (o == reinterpret_cast<PyObject*>(TensorType)) return default_dtype();
  throw TypeError("dtype must be a type, str, or dtype object");
}
PyObject* py_type(PyObject* self, CallArgs call) {
  PyObject* v[3];
  read_args({"type", {"dtype", "non_blocking", "memory_format"}, 2, 0}, call, v);
  const Tensor& t = unwrap(self);
  if (!v[0] || v[0] == Py_None)
    return to_python_string(str_cat("torch.", t.is_cuda() ? "cuda." : "",
                                    t.layout() == Layout::kSparseCoo ? "sparse." : "", type_name_of(t.dtype()),
                                    "Tensor"))
        .release();
  ToArgs a;
  a.dtype = legacy_type(v[0]);
  a.non_blocking = bool_arg("type", "non_blocking", v[1], false);
  a.memory_format = memory_format_arg("type", v[2]);
  return convert(self, a);
}

PyObject* py_new_tensor(PyObject* self, CallArgs call) {
  PyObject* v[6];
  read_args({"new_tensor", {"data", "dtype", "device", "requires_grad", "layout", "pin_memory"}, 1, 1}, call, v);
  const Tensor& t = unwrap(self);
  if (is_tensor(v[0]))
    check(PyErr_WarnEx(PyExc_UserWarning,
                       "To copy construct from a tensor, it is recommended to use sourceTensor.detach().clone() or "
                       "sourceTensor.detach().clone().requires_grad_(True), rather than "
                       "tensor.new_tensor(sourceTensor).",
                       1));
  options::check_layout("new_tensor", layout_arg("new_tensor", v[4]));
  Tensor r = tensor_from_data(v[0], dtype_arg("new_tensor", v[1]).value_or(t.dtype()),
                              device_arg("new_tensor", v[2]).value_or(t.device()));
  if (bool_arg("new_tensor", "pin_memory", v[5], false)) r = options::pinned(r);
  if (bool_arg("new_tensor", "requires_grad", v[3], false)) {
    TESSERA_CHECK(r.is_floating_point() || r.is_complex(),
                  "Only Tensors of floating point and complex dtype can require gradients");
    r.requires_grad_(true);
  }
  return wrap(std::move(r));
}

// (device, dtype, non_blocking, memory_format), each None where it was not given.
PyObject* py_parse_to(PyObject*, CallArgs call) {
  const ToArgs a = parse_to(call);
  Ref device = a.device ? Ref::steal(wrap(*a.device)) : Ref::borrow(Py_None);
  Ref dtype = a.dtype ? Ref::steal(wrap(*a.dtype)) : Ref::borrow(Py_None);
  Ref format = a.memory_format ? Ref::steal(wrap(*a.memory_format)) : Ref::borrow(Py_None);
  return Py_BuildValue("(OOOO)", device.get(), dtype.get(), a.non_blocking ? Py_True : Py_False, format.get());
}

}  // namespace

ToArgs parse_to(CallArgs call) {
  PyObject* v[5];
  ToArgs a;
  bool fits = false;
  PyObject* first = call.n ? call.args[0] : nullptr;
  DType as_dtype;
  auto rest = [&](PyObject** r) {  // non_blocking, copy, memory_format
    a.non_blocking = bool_arg("to", "non_blocking", r[0], false);
    a.copy = bool_arg("to", "copy", r[1], false);
    a.memory_format = memory_format_arg("to", r[2]);
  };
  if (first && is_tensor(first)) {
    fits = try_read_args({"to", {"other", "non_blocking", "copy", "memory_format"}, 3, 1}, call, v);
    if (fits) {
      a.dtype = unwrap(first).dtype();
      a.device = unwrap(first).device();
      rest(v + 1);
    }
  } else if (first && to_dtype(first, &as_dtype)) {
    fits = try_read_args({"to", {"dtype", "non_blocking", "copy", "memory_format"}, 3, 1}, call, v);
    if (fits) {
      a.dtype = as_dtype;
      rest(v + 1);
    }
  } else if (try_read_args({"to", {"device", "dtype", "non_blocking", "copy", "memory_format"}, 4, 0}, call, v)) {
    // to(device, non_blocking) is no documented form: a bool can't be a dtype.
    fits =
        (!v[0] || v[0] == Py_None || is_device_like(v[0])) && (!v[1] || v[1] == Py_None || to_dtype(v[1], &as_dtype));
    if (fits) {
      a.device = device_arg("to", v[0]);
      a.dtype = dtype_arg("to", v[1]);
      rest(v + 2);
    }
  } else if (try_read_args({"to", {"other", "non_blocking", "copy", "memory_format"}, 3, 1}, call, v) &&
             is_tensor(v[0])) {
    fits = true;
    a.dtype = unwrap(v[0]).dtype();
    a.device = unwrap(v[0]).device();
    rest(v + 1);
  }
  if (!fits)
    throw TypeError(str_cat("to() received an invalid combination of arguments - got ", describe_args(call),
                            ", but expected one of:\n"
                            " * (torch.device device = None, torch.dtype dtype = None, bool non_blocking = False, bool "
                            "copy = False, *, torch.memory_format memory_format = None)\n"
                            " * (torch.dtype dtype, bool non_blocking = False, bool copy = False, *, "
                            "torch.memory_format memory_format = None)\n"
                            " * (Tensor other, bool non_blocking = False, bool copy = False, *, torch.memory_format "
                            "memory_format = None)\n"));
  return a;
}

std::vector<PyMethodDef> conversion_methods() {
  return {
      method<"to", py_to>("to(dtype, non_blocking=False, copy=False, memory_format=torch.preserve_format) -> "
                          "Tensor\nto(device=None, dtype=None, non_blocking=False, copy=False, "
                          "memory_format=torch.preserve_format) -> Tensor\nto(other, non_blocking=False, "
                          "copy=False) -> Tensor\n\nThe tensor in another dtype or on another device (`other`: "
                          "both as that tensor's); itself where nothing changes, unless\ncopy=True. "
                          "non_blocking: a copy between page-locked memory and a device is not waited for."),
      cast<DType::kFloat32, "float">("float(memory_format=torch.preserve_format) -> Tensor: to(torch.float32)."),
      cast<DType::kFloat64, "double">("double(memory_format=torch.preserve_format) -> Tensor: to(torch.float64)."),
      cast<DType::kFloat16, "half">("half(memory_format=torch.preserve_format) -> Tensor: to(torch.float16)."),
      cast<DType::kBFloat16, "bfloat16">(
          "bfloat16(memory_format=torch.preserve_format) -> Tensor: to(torch.bfloat16)."),
      cast<DType::kInt64, "long">("long(memory_format=torch.preserve_format) -> Tensor: to(torch.int64)."),
      cast<DType::kInt32, "int">("int(memory_format=torch.preserve_format) -> Tensor: to(torch.int32)."),
      cast<DType::kInt16, "short">("short(memory_format=torch.preserve_format) -> Tensor: to(torch.int16)."),
      cast<DType::kInt8, "char">("char(memory_format=torch.preserve_format) -> Tensor: to(torch.int8)."),
      cast<DType::kUInt8, "byte">("byte(memory_format=torch.preserve_format) -> Tensor: to(torch.uint8)."),
      cast<DType::kBool, "bool">("bool(memory_format=torch.preserve_format) -> Tensor: to(torch.bool)."),
      cast<DType::kComplex64, "cfloat">("cfloat(memory_format=torch.preserve_format) -> Tensor: to(torch.complex64)."),
      cast<DType::kComplex128, "cdouble">(
          "cdouble(memory_format=torch.preserve_format) -> Tensor: to(torch.complex128)."),
      cast<DType::kComplex32, "chalf">("chalf(memory_format=torch.preserve_format) -> Tensor: to(torch.complex32)."),
      method<"cpu", py_cpu>(
          "cpu(memory_format=torch.preserve_format) -> Tensor\n\nA copy in the CPU's memory; itself where "
          "it lies there."),
      method<"cuda", py_cuda>(
          "cuda(device=None, non_blocking=False, memory_format=torch.preserve_format) -> Tensor\n\nA copy "
          "on a CUDA device, the current one without `device`; itself where it lies there. non_blocking: "
          "from page-locked\nmemory the call does not wait for the copy."),
      method<"type", py_type>(
          "type(dtype=None, non_blocking=False, **kwargs) -> str or Tensor\n\nThe name of the tensor's "
          "type; with a dtype (or the name of a tensor type) the tensor in it, itself where it is."),
      method<"new_tensor", py_new_tensor>(
          "new_tensor(data, *, dtype=None, device=None, requires_grad=False, layout=torch.strided, "
          "pin_memory=False) -> Tensor\n\nA tensor with a copy of `data`, of this one's dtype and device "
          "where none is given.")};
}
std::vector<PyMethodDef> conversion_functions() { return {function<"_parse_to", py_parse_to>()}; }

}  // namespace tessera::python
