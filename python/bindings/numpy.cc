#include "python/bindings/numpy.h"

#include <cstring>
#include <utility>

#include "python/bindings/calls.h"
#include "python/bindings/storage.h"

namespace tessera::python {
namespace {

constexpr const char* kSupported = "The only supported types are: float64, float32, float16, complex64, complex128, int64, int32, int16, int8, uint64, uint32, uint16, uint8, and bool.";

struct Code { const char* text; DType dtype; };
constexpr Code kCodes[] = {{"b1", DType::kBool},    {"u1", DType::kUInt8},   {"i1", DType::kInt8},    {"i2", DType::kInt16},   {"i4", DType::kInt32},     {"i8", DType::kInt64},     {"u2", DType::kUInt16},
                           {"u4", DType::kUInt32},  {"u8", DType::kUInt64},  {"f2", DType::kFloat16}, {"f4", DType::kFloat32}, {"f8", DType::kFloat64},   {"c8", DType::kComplex64}, {"c16", DType::kComplex128}};

// "<f4" -> float32.
std::optional<DType> dtype_of_code(const char* typestr) {
  for (const Code& c : kCodes)
    if (std::strcmp(typestr + 1, c.text) == 0) return c.dtype;
  return std::nullopt;
}
const char* code_of_dtype(DType t) {
  for (const Code& c : kCodes)
    if (c.dtype == t) return c.text;
  return nullptr;
}

Ref interface_of(PyObject* o) { return Ref::steal(check(PyObject_GetAttrString(o, "__array_interface__"))); }
PyObject* item(const Ref& dict, const char* name) { return PyDict_GetItemString(dict.get(), name); }  // borrowed

std::string dtype_text(PyObject* array) {
  Ref dtype = Ref::steal(check(PyObject_GetAttrString(array, "dtype")));
  Ref type = Ref::steal(check(PyObject_GetAttrString(dtype.get(), "type")));
  return reinterpret_cast<PyTypeObject*>(type.get())->tp_name;
}

}  // namespace

bool is_ndarray(PyObject* o) {
  for (PyTypeObject* t = Py_TYPE(o); t; t = t->tp_base)
    if (std::strcmp(t->tp_name, "numpy.ndarray") == 0) return true;
  return false;
}

bool is_numpy_scalar(PyObject* o) {
  const char* name = Py_TYPE(o)->tp_name;
  return std::strncmp(name, "numpy.", 6) == 0 && !is_ndarray(o) && PyObject_HasAttrString(o, "__array_interface__");
}

std::optional<DType> numpy_scalar_dtype(PyObject* o) {
  Ref info = interface_of(o);
  PyObject* code = item(info, "typestr");
  return code ? dtype_of_code(PyUnicode_AsUTF8(code)) : std::nullopt;
}

Tensor tensor_from_ndarray(PyObject* array, bool warn_read_only) {
  Ref info = interface_of(array);
  const char* code = PyUnicode_AsUTF8(item(info, "typestr"));
  const auto dtype = dtype_of_code(code);
  if (!dtype) throw TypeError(str_cat("can't convert np.ndarray of type ", dtype_text(array), ". ", kSupported));
  TESSERA_CHECK_VALUE(code[0] != '>', "given numpy array has byte order different from the native byte order. Conversion between byte orders is currently not supported.");
  PyObject* data = item(info, "data");
  PyObject* shape = item(info, "shape");
  PyObject* strides = item(info, "strides");
  void* address = PyLong_AsVoidPtr(PyTuple_GET_ITEM(data, 0));
  static bool warned = false;
  if (warn_read_only && PyTuple_GET_ITEM(data, 1) == Py_True && !std::exchange(warned, true))
    check(PyErr_WarnEx(PyExc_UserWarning, "The given NumPy array is not writable, and PyTorch does not support non-writable tensors. This means writing to this tensor will result in undefined behavior. "
                       "You may want to copy the array to protect its data or make it writable before converting it to a tensor. This type of warning will be suppressed for the rest of this program.", 1));
  const int64_t size = item_size(*dtype);
  IntVector sizes, steps;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(shape); ++i) sizes.push_back(PyLong_AsLongLong(PyTuple_GET_ITEM(shape, i)));
  if (strides && strides != Py_None) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(strides); ++i) {
      const int64_t s = PyLong_AsLongLong(PyTuple_GET_ITEM(strides, i));
      TESSERA_CHECK_VALUE(s >= 0, "At least one stride in the given numpy array is negative, and tensors with negative strides are not currently supported. (You can probably work around this by making a "
                          "copy of your array  with array.copy().) ");
      TESSERA_CHECK_VALUE(s % size == 0, "given numpy array strides not a multiple of the element byte size. Copy the numpy array to reallocate the memory.");
      steps.push_back(s / size);
    }
  } else {
    steps = contiguous_strides(sizes);
  }
  int64_t last = 0, n = 1;
  for (size_t i = 0; i < sizes.size(); ++i) { n *= sizes[i]; last += (sizes[i] - 1) * steps[i]; }
  const size_t nbytes = n ? static_cast<size_t>((last + 1) * size) : 0;
  return tensor_from_storage(storage_over(address, nbytes, Py_NewRef(array)), sizes, steps, 0, *dtype);
}

PyObject* tensor_to_ndarray(const Tensor& given, bool force) {
  Tensor t = given;
  if (force) {
    static NamedOp detach("aten::detach"), resolve_conj("aten::resolve_conj"), resolve_neg("aten::resolve_neg");
    if (t.requires_grad()) t = detach(t);
    TESSERA_CHECK(t.is_cpu(), "a tensor on device ", t.device().str(), " has no NumPy form; copy it to the CPU first");
    if (t.is_conj()) t = resolve_conj(t);
    if (t.is_neg()) t = resolve_neg(t);
  }
  TESSERA_CHECK(!(t.requires_grad() && grad_mode_enabled()) && !t.requires_grad(), "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.");
  TESSERA_CHECK(t.numel() == 0 || !t.is_cpu() || t.data_ptr(), "Cannot access data pointer of Tensor that doesn't have storage");
  TESSERA_CHECK_TYPE(t.is_cpu(), "can't convert ", t.device().str(), " device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first.");
  TESSERA_CHECK_TYPE(t.layout() == Layout::kStrided, "can't convert ", layout_name(t.layout()), " layout tensor to numpy. Use Tensor.to_dense() first.");
  TESSERA_CHECK(!t.is_conj(), "Can't call numpy() on Tensor that has conjugate bit set. Use tensor.resolve_conj().numpy() instead.");
  TESSERA_CHECK(!t.is_neg(), "Can't call numpy() on Tensor that has negative bit set. Use tensor.resolve_neg().numpy() instead.");
  const char* code = code_of_dtype(t.dtype());
  TESSERA_CHECK_TYPE(code, "Got unsupported ScalarType ", type_name_of(t.dtype()));
  static PyObject* ndarray = nullptr;
  if (!ndarray) {
    Ref numpy = Ref::steal(check(PyImport_ImportModule("numpy")));
    ndarray = check(PyObject_GetAttrString(numpy.get(), "ndarray"));
  }
  Ref shape = Ref::steal(check(PyTuple_New(t.dim()))), strides = Ref::steal(check(PyTuple_New(t.dim())));
  for (int64_t i = 0; i < t.dim(); ++i) {
    PyTuple_SET_ITEM(shape.get(), i, PyLong_FromLongLong(t.sizes()[static_cast<size_t>(i)]));
    PyTuple_SET_ITEM(strides.get(), i, PyLong_FromLongLong(t.strides()[static_cast<size_t>(i)] * t.item_size()));
  }
  if (t.numel() == 0) return check(PyObject_CallFunction(ndarray, "Os", shape.get(), code));
  Ref storage = Ref::steal(wrap(t.storage()));
  return check(PyObject_CallFunction(ndarray, "OsOLO", shape.get(), code, storage.get(), static_cast<long long>(t.storage_offset() * t.item_size()), strides.get()));
}

}  // namespace tessera::python
