// Nested sequences of numbers into tensors: shape from the first elements, dtype from all, then the values.
#include <cstring>
#include <vector>

#include "python/bindings/args.h"
#include "python/bindings/convert/create.h"
#include "python/bindings/convert/numpy.h"
#include "python/bindings/tensor_type.h"

namespace tessera::python {
namespace {

constexpr size_t kMaxDims = 64;

bool is_number(PyObject* o) { return PyFloat_Check(o) || PyLong_Check(o) || PyComplex_Check(o); }
// An array fills a block of the result; a tensor in a sequence stands for the number that is its only element.
bool is_block(PyObject* o) { return is_ndarray(o); }
Tensor block_of(PyObject* o) { return tensor_from_ndarray(o, false); }
bool is_sequence(PyObject* o) {
  return PyList_CheckExact(o) || PyTuple_CheckExact(o) ||
         (!is_number(o) && !is_tensor(o) && !PyUnicode_Check(o) && !PyBytes_Check(o) && !is_numpy_scalar(o) &&
          PySequence_Check(o));
}

// A list or tuple with the elements (itself where it is one).
Ref elements_of(PyObject* o) {
  Ref fast = Ref::steal(PySequence_Fast(o, "not a sequence"));
  if (!fast) throw ErrorAlreadySet();
  return fast;
}

IntVector infer_shape(PyObject* data) {
  IntVector sizes;
  Ref at = Ref::borrow(data);
  while (true) {
    if (is_block(at.get())) {
      const Tensor t = block_of(at.get());
      sizes.insert(sizes.end(), t.sizes().begin(), t.sizes().end());
      break;
    }
    if (PyUnicode_Check(at.get()) || PyBytes_Check(at.get()))
      throw ValueError(str_cat("too many dimensions '", Py_TYPE(at.get())->tp_name, "'"));
    if (!is_sequence(at.get())) break;
    const Py_ssize_t n = PySequence_Size(at.get());
    if (n < 0) throw ErrorAlreadySet();
    sizes.push_back(n);
    TESSERA_CHECK_VALUE(sizes.size() <= kMaxDims, "too many dimensions '", Py_TYPE(data)->tp_name, "'");
    if (n == 0) break;
    Ref first = Ref::steal(PySequence_GetItem(at.get(), 0));
    if (!first) {
      PyErr_Clear();
      throw ValueError(str_cat("could not determine the shape of object type '", Py_TYPE(at.get())->tp_name, "'"));
    }
    at = std::move(first);
    if (at.get() == data) throw ValueError(str_cat("too many dimensions '", Py_TYPE(data)->tp_name, "'"));
  }
  TESSERA_CHECK_VALUE(sizes.size() < kMaxDims, "too many dimensions '", Py_TYPE(data)->tp_name, "'");
  return sizes;
}

class DTypeInference {
 public:
  void add(PyObject* o, int depth) {
    if (PyFloat_CheckExact(o)) {
      note(kFloat, default_dtype());
      return;
    }
    if (PyLong_CheckExact(o)) {
      note(kInt, DType::kInt64);
      return;
    }
    if (PyBool_Check(o)) {
      note(kBool, DType::kBool);
      return;
    }
    if (is_tensor(o)) {
      join(unwrap(o).dtype());
      return;
    }
    if (is_ndarray(o)) {
      join(tensor_from_ndarray(o, false).dtype());
      return;
    }
    if (is_numpy_scalar(o)) {
      const auto t = numpy_scalar_dtype(o);
      if (!t) throw TypeError(str_cat("can't convert a NumPy scalar of type ", Py_TYPE(o)->tp_name));
      join(*t);
      return;
    }
    if (PyComplex_Check(o)) {
      note(kComplex, default_complex_dtype());
      return;
    }
    if (PyFloat_Check(o)) {
      note(kFloat, default_dtype());
      return;
    }
    if (PyLong_Check(o)) {
      note(kInt, DType::kInt64);
      return;
    }
    if (PyUnicode_Check(o) || PyBytes_Check(o))
      throw TypeError(str_cat("new(): invalid data type '", Py_TYPE(o)->tp_name, "'"));
    if (is_sequence(o)) {
      add_all(o, depth);
      return;
    }
    throw Error(str_cat("Could not infer dtype of ", Py_TYPE(o)->tp_name));
  }
  std::optional<DType> get() const { return dtype_; }

 private:
  enum { kBool = 1, kInt = 2, kFloat = 4, kComplex = 8 };
  // Python numbers come in four kinds: each is joined once.
  void note(int kind, DType t) {
    if (seen_ & kind) [[likely]]
      return;
    seen_ |= kind;
    join(t);
  }
  void join(DType t) { dtype_ = dtype_ ? promote_types(*dtype_, t) : t; }
  void add_all(PyObject* o, int depth) {
    TESSERA_CHECK_VALUE(depth < static_cast<int>(kMaxDims), "too many dimensions '", Py_TYPE(o)->tp_name, "'");
    Ref list = elements_of(o);
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(list.get()); ++i) {
      Ref element = Ref::borrow(
          PySequence_Fast_GET_ITEM(list.get(), i));  // a conversion may run Python code that changes the list
      if (element.get() == o) throw TypeError("new(): self-referential lists are incompatible with tensors");
      add(element.get(), depth + 1);
    }
  }
  std::optional<DType> dtype_;
  int seen_ = 0;
};

// An integer that no 64 bits hold, for dtypes that are not of integers.
Scalar wide_integer(PyObject* o, DType t) {
  if (!PyLong_Check(o) || is_integral(t, false)) throw ValueError("Overflow when unpacking long long");
  if (t == DType::kBool) return Scalar(true);
  const double v = PyLong_AsDouble(o);
  if (v == -1 && PyErr_Occurred()) throw ErrorAlreadySet();
  return Scalar(v);
}

// Writes one element.
void store_element(PyObject* o, DType t, char* to) {
  if (PyFloat_CheckExact(o)) {
    const double v = PyFloat_AS_DOUBLE(o);
    if (t == DType::kFloat32) {
      const float f = static_cast<float>(v);
      std::memcpy(to, &f, sizeof f);
      return;
    }
    if (t == DType::kFloat64) {
      std::memcpy(to, &v, sizeof v);
      return;
    }
  }
  Scalar s;
  if (is_tensor(o)) {
    const Tensor& e = unwrap(o);
    if (e.numel() != 1 && is_integral(t, false))
      throw TypeError("only integer tensors of a single element can be converted to an index");
    TESSERA_CHECK_VALUE(e.numel() == 1, "only one element tensors can be converted to Python scalars");
    s = e.item_scalar();
  } else {
    bool fits;
    try {
      fits = to_scalar(o, &s);
    } catch (const OverflowError&) {
      s = wide_integer(o, t);
      fits = true;
    }
    if (!fits) {
      // Objects that only know __float__ or __complex__.
      const Py_complex c = PyUnicode_Check(o) || PyBytes_Check(o) ? Py_complex{-1, 0} : PyComplex_AsCComplex(o);
      if (PyUnicode_Check(o) || PyBytes_Check(o))
        throw TypeError(str_cat("'", Py_TYPE(o)->tp_name, "' object cannot be interpreted as a number"));
      if (PyErr_Occurred()) {
        PyErr_Clear();
        throw TypeError(str_cat("'", Py_TYPE(o)->tp_name, "' object cannot be interpreted as ",
                                is_integral(t, true) ? "an integer" : "a number"));
      }
      s = c.imag != 0 ? Scalar(std::complex<double>(c.real, c.imag)) : Scalar(c.real);
    }
  }
  if (t == DType::kBool) s = Scalar(s.to_bool());
  if (s.is_complex() && !is_complex(t)) throw TypeError("must be real number, not complex");
  if (s.kind() == Scalar::Kind::kUInt && t != DType::kUInt64 && is_integral(t, false))
    throw ValueError("Overflow when unpacking long long");
  store_scalar(s, t, to, is_integral(t, false));
}

void store_block(const Tensor& block, IntList sizes, DType t, char* to) {
  const int64_t n = block.numel(), dims = block.dim();
  if (block.dim() != static_cast<int64_t>(sizes.size()) ||
      !std::equal(sizes.begin(), sizes.end(), block.sizes().begin()))
    throw ValueError(str_cat("expected sequence of length ", sizes.empty() ? 1 : sizes[0],
                             " at dim 0 (got a tensor of shape ", shape_string(block.sizes()), ")"));
  TESSERA_CHECK(block.is_cpu(), "a sequence of tensors on device ", block.device().str(),
                " can't be converted element by element; use torch.stack");
  const int64_t size = item_size(t);
  for (int64_t i = 0; i < n; ++i) {
    int64_t offset = 0, rest = i;
    for (int64_t d = dims - 1; d >= 0; --d) {
      offset += rest % sizes[static_cast<size_t>(d)] * block.strides()[static_cast<size_t>(d)];
      rest /= sizes[static_cast<size_t>(d)];
    }
    Scalar s = load_scalar(block.dtype(), static_cast<const char*>(block.data_ptr()) + offset * block.item_size());
    if (block.is_conj()) s = s.conj();
    if (block.is_neg()) s = -s;
    if (s.is_complex() && !is_complex(t)) throw TypeError("must be real number, not complex");
    store_scalar(s, t, to + i * size, is_integral(t, false));
  }
}

void store_nested(PyObject* o, IntList sizes, int64_t dim, IntList steps, DType t, char* to) {
  if (dim == static_cast<int64_t>(sizes.size())) {
    store_element(o, t, to);
    return;
  }
  if (is_block(o)) {
    store_block(block_of(o), sizes.subspan(static_cast<size_t>(dim)), t, to);
    return;
  }
  if (!is_sequence(o)) throw TypeError("not a sequence");
  Ref list = elements_of(o);
  const int64_t n = sizes[static_cast<size_t>(dim)];
  if (PySequence_Fast_GET_SIZE(list.get()) != n)
    throw ValueError(str_cat("expected sequence of length ", n, " at dim ", dim, " (got ",
                             PySequence_Fast_GET_SIZE(list.get()), ")"));
  const int64_t step = steps[static_cast<size_t>(dim)] * item_size(t);
  for (int64_t i = 0; i < n; ++i) {
    if (PySequence_Fast_GET_SIZE(list.get()) != n)
      throw ValueError("the sequence changed its length while it was read");
    Ref element = Ref::borrow(PySequence_Fast_GET_ITEM(list.get(), i));
    store_nested(element.get(), sizes, dim + 1, steps, t, to + i * step);
  }
}

}  // namespace

Tensor tensor_from_sequence(PyObject* data, std::optional<DType> dtype) {
  if (PyUnicode_Check(data) || PyBytes_Check(data))
    throw TypeError(str_cat("new(): invalid data type '", Py_TYPE(data)->tp_name, "'"));
  const IntVector sizes = infer_shape(data);
  if (!dtype) {
    DTypeInference inference;
    inference.add(data, 0);
    dtype = inference.get().value_or(default_dtype());
  }
  Tensor t = empty_kernel(sizes, *dtype);
  store_nested(data, sizes, 0, t.strides(), *dtype, static_cast<char*>(t.data_ptr()));
  return t;
}

}  // namespace tessera::python
