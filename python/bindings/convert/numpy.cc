#include "python/bindings/convert/numpy.h"

#include <cstring>

#include "python/bindings/calls.h"
#include "python/bindings/convert/storage.h"
#include "tensor/core/warning.h"

namespace tessera::python {
namespace {

constexpr const char* kSupported =
    "The only supported types are: float64, float32, float16, complex64, complex128, int64, int32, int16, int8, "
    "uint64, uint32, uint16, uint8, and bool.";

struct Code {
  const char* text;
  DType dtype;
  int number;
};
// NumPy's name ("f4"), our dtype, NumPy's type number for what it makes of that name.
constexpr Code kCodes[] = {{"b1", DType::kBool, 0},       {"u1", DType::kUInt8, 2},        {"i1", DType::kInt8, 1},
                           {"i2", DType::kInt16, 3},      {"i4", DType::kInt32, 5},        {"i8", DType::kInt64, 7},
                           {"u2", DType::kUInt16, 4},     {"u4", DType::kUInt32, 6},       {"u8", DType::kUInt64, 8},
                           {"f2", DType::kFloat16, 23},   {"f4", DType::kFloat32, 11},     {"f8", DType::kFloat64, 12},
                           {"c8", DType::kComplex64, 14}, {"c16", DType::kComplex128, 15}, {"i8", DType::kInt64, 9},
                           {"u8", DType::kUInt64, 10}};

// The public part of NumPy's array and descriptor objects, the same in versions 1 and 2 (PyArrayObject_fields and
// PyArray_Descr in its headers): asking for attributes costs ten times as much.
struct Descriptor {
  PyObject_HEAD PyObject* type;
  char kind, letter, byte_order, flags;
  int number;
};
struct Array {
  PyObject_HEAD char* data;
  int dims;
  Py_ssize_t* sizes;
  Py_ssize_t* strides;
  PyObject* base;
  Descriptor* descriptor;
  int flags;
};
constexpr int kWriteable = 0x400;
constexpr int kAligned = 0x100;
constexpr size_t kMaxArrayDims = 64;

// The entries of NumPy's C interface that are used here, by their numbers in its table.
struct Interface {
  PyTypeObject* array_type;
  PyObject* (*descriptor_of)(int number);
  PyObject* (*new_array)(PyTypeObject*, PyObject* descriptor, int dims, const Py_ssize_t* sizes,
                         const Py_ssize_t* strides, void* data, int flags, PyObject*);
  int (*set_base)(PyObject* array, PyObject* base);
};
const Interface& interface() {
  static constinit Interface known{};  // no guard of the compiler's around an import: see MadeOnce
  if (!known.array_type) {
    PyObject* module = PyImport_ImportModule("numpy._core._multiarray_umath");
    if (!module) {
      PyErr_Clear();
      module = check(PyImport_ImportModule("numpy.core._multiarray_umath"));  // before NumPy 2
    }
    Ref owner = Ref::steal(module), capsule = Ref::steal(check(PyObject_GetAttrString(module, "_ARRAY_API")));
    void** table = static_cast<void**>(PyCapsule_GetPointer(capsule.get(), nullptr));
    if (!table) throw ErrorAlreadySet();
    known =
        Interface{static_cast<PyTypeObject*>(table[2]), reinterpret_cast<decltype(Interface::descriptor_of)>(table[45]),
                  reinterpret_cast<decltype(Interface::new_array)>(table[94]),
                  reinterpret_cast<decltype(Interface::set_base)>(table[282])};
  }
  return known;
}

const Code* code_of_dtype(DType t) {
  for (const Code& c : kCodes)
    if (c.dtype == t) return &c;
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
  if (!code) return std::nullopt;
  const char* text = PyUnicode_AsUTF8(code) + 1;  // behind the byte order
  for (const Code& c : kCodes)
    if (std::strcmp(text, c.text) == 0) return c.dtype;
  return std::nullopt;
}

Tensor tensor_from_ndarray(PyObject* object, bool warn_read_only) {
  const Array& array = *reinterpret_cast<const Array*>(object);
  const Code* code = nullptr;
  for (const Code& c : kCodes)
    if (c.number == array.descriptor->number) code = &c;
  if (!code) throw TypeError(str_cat("can't convert np.ndarray of type ", dtype_text(object), ". ", kSupported));
  TESSERA_CHECK_VALUE(array.descriptor->byte_order != '>',
                      "given numpy array has byte order different from the native byte order. Conversion between byte "
                      "orders is currently not supported.");
  if (warn_read_only && !(array.flags & kWriteable))
    warn_once(
        "The given NumPy array is not writable, and PyTorch does not support non-writable tensors. This means writing "
        "to this tensor will result in undefined behavior. You may want to copy the array to protect its data or make "
        "it writable before converting it to a tensor. This type of warning will be suppressed for the rest of this "
        "program.");
  const int64_t size = item_size(code->dtype);
  IntVector sizes, steps;
  int64_t last = 0, n = 1;
  for (int i = 0; i < array.dims; ++i) {
    const int64_t extent = array.sizes[i], stride = array.strides[i];
    TESSERA_CHECK_VALUE(stride >= 0,
                        "At least one stride in the given numpy array is negative, and tensors with negative strides "
                        "are not currently supported. (You can probably work around this by making a "
                        "copy of your array  with array.copy().) ");
    TESSERA_CHECK_VALUE(stride % size == 0,
                        "given numpy array strides not a multiple of the element byte size. Copy the numpy array to "
                        "reallocate the memory.");
    sizes.push_back(extent);
    steps.push_back(stride / size);
    n *= extent;
    last += (extent - 1) * (stride / size);
  }
  const size_t nbytes = n ? static_cast<size_t>((last + 1) * size) : 0;
  return tensor_from_storage(storage_over(array.data, nbytes, Py_NewRef(object)), sizes, steps, 0, code->dtype);
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
  TESSERA_CHECK(!t.requires_grad() || !grad_mode_enabled(),
                "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.");
  TESSERA_CHECK_TYPE(t.layout() == Layout::kStrided, "can't convert ", layout_name(t.layout()),
                     " layout tensor to numpy. Use Tensor.to_dense() first.");
  TESSERA_CHECK(t.numel() == 0 || !t.is_cpu() || t.data_ptr(),
                "Cannot access data pointer of Tensor that doesn't have storage");
  TESSERA_CHECK_TYPE(t.is_cpu(), "can't convert ", t.device().str(),
                     " device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first.");
  TESSERA_CHECK(!t.is_conj(),
                "Can't call numpy() on Tensor that has conjugate bit set. Use tensor.resolve_conj().numpy() instead.");
  TESSERA_CHECK(!t.is_neg(),
                "Can't call numpy() on Tensor that has negative bit set. Use tensor.resolve_neg().numpy() instead.");
  const Code* code = code_of_dtype(t.dtype());
  TESSERA_CHECK_TYPE(code, "Got unsupported ScalarType ", type_name_of(t.dtype()));
  const Interface& numpy = interface();
  const size_t dims = static_cast<size_t>(t.dim());
  Py_ssize_t sizes[kMaxArrayDims], strides[kMaxArrayDims];
  TESSERA_CHECK_VALUE(dims <= kMaxArrayDims, "NumPy arrays have at most ", kMaxArrayDims,
                      " dimensions, the tensor has ", dims);
  for (size_t i = 0; i < dims; ++i) {
    sizes[i] = t.sizes()[i];
    strides[i] = t.strides()[i] * t.item_size();
  }
  PyObject* descriptor = check(numpy.descriptor_of(code->number));  // new_array takes the reference
  if (t.numel() == 0)
    return check(
        numpy.new_array(numpy.array_type, descriptor, static_cast<int>(dims), sizes, nullptr, nullptr, 0, nullptr));
  Ref hold = AddressHold::capsule(t.storage());
  Ref array = Ref::steal(check(numpy.new_array(numpy.array_type, descriptor, static_cast<int>(dims), sizes, strides,
                                               t.data_ptr(), kWriteable | kAligned, nullptr)));
  check(numpy.set_base(array.get(), hold.release()));
  return array.release();
}

}  // namespace tessera::python
