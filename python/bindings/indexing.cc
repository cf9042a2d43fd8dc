#include "python/bindings/convert/names.h"
#include "python/bindings/indexing.h"

#include <cmath>
#include <vector>

#include "python/bindings/args.h"
#include "python/bindings/calls.h"
#include "python/bindings/convert/create.h"
#include "python/bindings/jit/traced.h"
#include "python/bindings/library/fake.h"
#include "python/bindings/types.h"
#include "tensor/core/transforms.h"
#include "tensor/core/warning.h"

namespace tessera::python {
namespace {

NamedOp g_select("aten::select.int"), g_slice("aten::slice.Tensor"), g_unsqueeze("aten::unsqueeze"),
    g_alias("aten::alias"), g_index("aten::index.Tensor"), g_index_put("aten::index_put_"), g_copy("aten::copy_"),
    g_fill("aten::fill_.Scalar"), g_view("aten::view");

constexpr int kMaxDims = 64;
constexpr int64_t kReleaseGilAbove = 16384;

// True if a view can be made from the numbers alone: nothing but the plain backends, autograd off or not concerned, no
// layer on this thread.
bool is_plain(const Tensor& t) {
  constexpr uint64_t plain = (DispatchKeySet(DispatchKey::kCPU) | DispatchKey::kMeta | DispatchKey::kCUDA |
                              DispatchKey::kConjugate | DispatchKey::kNegative | kAutogradKeys)
                                 .bits();
  return (t.keys().bits() & ~plain) == 0 && thread_state.included == 0 && t.layout() == Layout::kStrided &&
         !t.requires_grad();
}

int64_t wrap_index(int64_t i, int64_t size, int64_t dim) {
  TESSERA_CHECK_INDEX(i >= -size && i < size, "index ", i, " is out of bounds for dimension ", dim, " with size ",
                      size);
  return i < 0 ? i + size : i;
}

// x[i] without any allocation besides the result.
Tensor select_first(const Tensor& t, int64_t i) {
  const int64_t n = t.dim();
  TESSERA_CHECK_INDEX(n > 0,
                      "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or `tensor.item<T>()` in C++ to "
                      "convert a 0-dim tensor to a number");
  const int64_t given = i;
  i = wrap_index(i, t.sizes()[0], 0);
  if (!is_plain(t)) return g_select(t, int64_t{0}, given);
  return make_view(t, t.sizes().subspan(1), t.strides().subspan(1), t.storage_offset() + i * t.strides()[0]);
}

// A tensor on its way through the basic parts of an index: as numbers where nobody watches, else through the operators.
class Walk {
 public:
  explicit Walk(const Tensor& t) : t_(t), plain_(is_plain(t)) {
    if (!plain_) return;
    dim_ = static_cast<int>(t.dim());
    TESSERA_CHECK(dim_ < kMaxDims, "tensors of more than ", kMaxDims - 1, " dimensions can't be indexed");
    for (int d = 0; d < dim_; ++d) {
      sizes_[d] = t.sizes()[static_cast<size_t>(d)];
      strides_[d] = t.strides()[static_cast<size_t>(d)];
    }
    offset_ = t.storage_offset();
  }
  int64_t dim() const { return plain_ ? dim_ : t_.dim(); }
  int64_t size(int64_t d) const { return plain_ ? sizes_[d] : t_.size(d); }

  // shown: the dimension of the original tensor, for messages.
  void select(int64_t d, int64_t given, int64_t shown) {
    const int64_t i = wrap_index(given, size(d), shown);
    changed_ = true;
    if (!plain_) {
      t_ = g_select(t_, d, given);
      return;
    }
    offset_ += i * strides_[d];
    --dim_;
    for (int k = static_cast<int>(d); k < dim_; ++k) {
      sizes_[k] = sizes_[k + 1];
      strides_[k] = strides_[k + 1];
    }
  }
  void slice(int64_t d, int64_t start, int64_t length, int64_t step) {
    if (start == 0 && step == 1 && length == size(d)) return;
    changed_ = true;
    if (!plain_) {
      t_ = g_slice(t_, d, std::optional<int64_t>(start), std::optional<int64_t>(start + length * step), step);
      return;
    }
    offset_ += start * strides_[d];
    sizes_[d] = length;
    strides_[d] *= step;
  }
  // As it was written, so that the recording fits other sizes.
  void traced_slice(jit::Tracer& trace, int64_t d, PyObject* item) {
    Py_ssize_t start, stop, step;
    check(PySlice_Unpack(item, &start, &stop, &step));
    TESSERA_CHECK_VALUE(step > 0, "step must be greater than zero");
    const auto* parts = reinterpret_cast<const PySliceObject*>(item);
    std::vector<jit::NumberSource> sources;
    for (int i = 0; PyObject * part : {parts->start, parts->stop, parts->step}) {
      if (is_tensor(part)) sources.push_back({2 + i, -1, unwrap(part)});
      ++i;
    }
    if (sources.empty() && start == 0 && stop == PY_SSIZE_T_MAX && step == 1) return;
    changed_ = true;
    trace.expect(g_slice.header(5), std::move(sources));
    t_ = g_slice(t_, d, std::optional<int64_t>(start), std::optional<int64_t>(stop), int64_t{step});
  }
  // An index that a tensor of the recording has.
  void traced_select(jit::Tracer& trace, int64_t d, const Tensor& index, int64_t shown) {
    trace.expect(g_select.header(3), {{2, -1, index}});
    select(d, index.item_scalar().to_int(), shown);
  }
  void unsqueeze(int64_t d) {
    changed_ = true;
    if (!plain_) {
      t_ = g_unsqueeze(t_, d);
      return;
    }
    TESSERA_CHECK_INDEX(dim_ + 1 < kMaxDims, "too many new dimensions in an index");
    const int64_t stride = d < dim_ ? sizes_[d] * strides_[d] : 1;
    for (int k = dim_; k > d; --k) {
      sizes_[k] = sizes_[k - 1];
      strides_[k] = strides_[k - 1];
    }
    sizes_[d] = 1;
    strides_[d] = stride;
    ++dim_;
  }
  // A view, also where nothing was changed.
  Tensor view() {
    if (!plain_) return changed_ ? t_ : g_alias(t_);
    return make_view(t_, {sizes_, static_cast<size_t>(dim_)}, {strides_, static_cast<size_t>(dim_)}, offset_);
  }
  Tensor for_reading() { return changed_ ? view() : t_; }

 private:
  Tensor t_;
  const bool plain_;
  bool changed_ = false;
  int dim_ = 0;
  int64_t offset_ = 0;
  int64_t sizes_[kMaxDims], strides_[kMaxDims];
};

bool is_ndarray(PyObject* o) { return std::strcmp(Py_TYPE(o)->tp_name, "numpy.ndarray") == 0; }
bool is_plain_int(PyObject* o) {
  return PyLong_CheckExact(o) ||
         (!PyBool_Check(o) &&
          (PyLong_Check(o) || (PyIndex_Check(o) && !is_tensor(o) && !is_ndarray(o) && !PySequence_Check(o))));
}
bool is_numpy_bool(PyObject* o) { return std::strncmp(Py_TYPE(o)->tp_name, "numpy.bool", 10) == 0; }
int64_t plain_int(PyObject* o) {
  int64_t v;
  try {
    if (!to_int64(o, &v)) throw TypeError("an index must be an integer");
  } catch (const OverflowError& e) { throw ValueError(e.what()); }
  return v;
}

// A list that holds tensors, sequences, slices, None or ... stands for a tuple (the old rule of NumPy).
bool stands_for_tuple(PyObject* index) {
  if (PyTuple_Check(index)) return true;
  if (is_exact_tensor(index)) return false;
  if (is_tensor(index) || is_ndarray(index) || PyUnicode_Check(index) || !PySequence_Check(index) ||
      PyRange_Check(index))
    return false;
  const Py_ssize_t n = PySequence_Size(index);
  if (n < 0) {
    PyErr_Clear();
    return false;
  }
  if (n >= 32) return false;
  for (Py_ssize_t i = 0; i < n; ++i) {
    Ref e = Ref::steal(PySequence_GetItem(index, i));
    if (!e) {
      PyErr_Clear();
      return false;
    }
    PyObject* o = e.get();
    if (!is_tensor(o) && !PySequence_Check(o) && !PySlice_Check(o) && o != Py_Ellipsis && o != Py_None) continue;
    warn(
        "Using a non-tuple sequence for multidimensional indexing is deprecated and will be changed in pytorch 2.9; "
        "use x[tuple(seq)] instead of x[seq]. In pytorch 2.9 this will be interpreted as tensor index, "
        "x[torch.tensor(seq)], which will result either in an error or a different result");
    return true;
  }
  return false;
}

Tensor index_tensor(PyObject* sequence) {
  Tensor t = tensor_from_data(sequence, std::nullopt, std::nullopt);
  if (t.dtype() == DType::kBool || t.dtype() == DType::kUInt8 || t.dtype() == DType::kInt64 || is_ndarray(sequence))
    return t;
  return tensor_from_data(sequence, DType::kInt64, std::nullopt);
}

// The index tensor of a single truth value: one element or none.
Tensor truth_index(bool b) {
  const int64_t n[] = {b ? 1 : 0};
  Tensor t = empty_kernel(n, DType::kInt64);
  if (b) *t.data<int64_t>() = 0;
  return t;
}

// How many dimensions of the tensor an item uses.
int64_t dims_used(PyObject* item) {
  if (PySlice_Check(item) || PyLong_CheckExact(item)) return 1;
  if (is_tensor(item)) {
    const Tensor& t = unwrap(item);
    return t.dtype() == DType::kBool || t.dtype() == DType::kUInt8 ? t.dim() : 1;
  }
  return item == Py_None || item == Py_Ellipsis || PyBool_Check(item) || is_numpy_bool(item) ? 0 : 1;
}

struct Parsed {
  Walk walk;
  std::vector<Tensor>
      advanced;  // what index() takes: undefined for a dimension that is not indexed; a mask covers as many as it has
  int64_t covered = 0;  // dimensions of the walked tensor that `advanced` stands for
  explicit Parsed(const Tensor& t) : walk(t) {}
};

void put_advanced(Parsed& p, int64_t* dim, Tensor t) {
  p.advanced.resize(p.advanced.size() + static_cast<size_t>(*dim - p.covered));
  const bool mask = t.dtype() == DType::kBool || t.dtype() == DType::kUInt8;
  *dim += mask ? t.dim() : 1;
  p.covered = *dim;
  p.advanced.push_back(std::move(t));
}
void apply_truth(Parsed& p, int64_t* dim, bool b) {
  p.walk.unsqueeze(*dim);
  put_advanced(p, dim, truth_index(b));
}
void apply_slice(Parsed& p, int64_t* dim, PyObject* item) {
  TESSERA_CHECK_INDEX(p.walk.dim() > 0, "slice() cannot be applied to a 0-dim tensor.");
  if (jit::Tracer* trace = jit::current_trace()) [[unlikely]]
    return p.walk.traced_slice(*trace, (*dim)++, item);
  Py_ssize_t start, stop, step;
  check(PySlice_Unpack(item, &start, &stop, &step));
  TESSERA_CHECK_VALUE(step > 0, "step must be greater than zero");
  const Py_ssize_t length = PySlice_AdjustIndices(p.walk.size(*dim), &start, &stop, step);
  p.walk.slice(*dim, start, length, step);
  ++*dim;
}
void apply_tensor(Parsed& p, int64_t* dim, const Tensor& t, int64_t shown) {
  // One that is being vmapped over is a number for each element.
  if (t.dim() == 0 && is_integral(t.dtype(), true) && !t.is_meta() && !is_transformed(t)) {
    if (t.dtype() == DType::kBool || t.dtype() == DType::kUInt8) return apply_truth(p, dim, t.item_scalar().to_bool());
    if (jit::Tracer* trace = jit::current_trace()) [[unlikely]]
      return p.walk.traced_select(*trace, *dim, t, shown);
    return p.walk.select(*dim, t.item_scalar().to_int(), shown);
  }
  TESSERA_CHECK_INDEX(t.dtype() == DType::kInt64 || t.dtype() == DType::kInt32 || t.dtype() == DType::kBool ||
                          t.dtype() == DType::kUInt8,
                      "tensors used as indices must be long, int, byte or bool tensors");
  put_advanced(p, dim, t);
}

void apply_item(Parsed& p, int64_t* dim, PyObject* item, int64_t rest, int64_t shown) {
  if (is_plain_int(item)) return p.walk.select(*dim, plain_int(item), shown);
  if (PySlice_Check(item)) return apply_slice(p, dim, item);
  if (item == Py_None) {
    p.walk.unsqueeze((*dim)++);
    return;
  }
  if (item == Py_Ellipsis) {
    *dim += p.walk.dim() - *dim - rest;
    return;
  }
  if (is_tensor(item)) return apply_tensor(p, dim, unwrap(item), shown);
  if (PyBool_Check(item)) return apply_truth(p, dim, item == Py_True);
  if (is_numpy_bool(item)) return apply_truth(p, dim, PyObject_IsTrue(item) == 1);
  if (PySequence_Check(item)) return apply_tensor(p, dim, index_tensor(item), shown);
  throw IndexError(
      str_cat("only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices (got ",
              Py_TYPE(item)->tp_name, ")"));
}

// Applies the basic parts, collects the others.
void parse_index(Parsed& p, PyObject* index) {
  int64_t dim = 0;
  if (PySlice_Check(index)) return apply_slice(p, &dim, index);
  Ref items;
  if (stands_for_tuple(index)) {
    items = Ref::steal(check(PySequence_Fast(index, "an index must be a sequence")));
  } else {
    items = Ref::steal(check(PyTuple_Pack(1, index)));
  }
  const Py_ssize_t n = PySequence_Fast_GET_SIZE(items.get());
  int64_t used = 0;
  for (Py_ssize_t i = 0; i < n; ++i) used += dims_used(PySequence_Fast_GET_ITEM(items.get(), i));
  const int64_t total = p.walk.dim();
  TESSERA_CHECK_INDEX(used <= total, "too many indices for tensor of dimension ", total);
  int64_t after = used, shown = 0;
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* item = PySequence_Fast_GET_ITEM(items.get(), i);
    const int64_t uses = dims_used(item);
    if (item == Py_Ellipsis) shown = total - after;
    after -= uses;
    apply_item(p, &dim, item, after, shown);
    if (item != Py_Ellipsis) shown += uses;
  }
}

Tensor apply_advanced(const Tensor& t, std::vector<Tensor>& indices) {
  for (Tensor& i : indices)
    if (i.defined() && i.device().type != t.device().type && t.device().is_meta())
      i = empty_tensor(i.sizes(), {}, i.dtype(), t.device());
  GilRelease unlocked(t.numel() > kReleaseGilAbove);
  return g_index(t, TensorList(indices));
}

Tensor get(const Tensor& t, PyObject* index) {
  if (is_plain_int(index)) return select_first(t, plain_int(index));
  Parsed p(t);
  parse_index(p, index);
  if (p.advanced.empty()) return p.walk.view();
  return apply_advanced(p.walk.for_reading(), p.advanced);
}

// --- assignment ---

// Without the leading dimensions of size one that the target lacks.
Tensor without_leading_ones(const Tensor& value, int64_t target_dims) {
  int64_t skip = 0;
  while (value.dim() - skip > target_dims && value.sizes()[static_cast<size_t>(skip)] == 1) ++skip;
  if (skip == 0) return value;
  return g_view(value, IntList(value.sizes().subspan(static_cast<size_t>(skip))));
}

[[noreturn]] void cannot_assign(const Tensor& t, PyObject* value) {
  throw TypeError(
      str_cat("can't assign a ", Py_TYPE(value)->tp_name, " to a torch.", type_name_of(t.dtype()), "Tensor"));
}

bool number_of(PyObject* value, Scalar* out) {
  try {
    return !is_tensor(value) && to_scalar(value, out);
  } catch (const OverflowError&) { throw ValueError("Overflow when unpacking long long"); }
}
// What elements of a half type are assigned: beyond its largest number is infinity, which fill_ would refuse.
Scalar for_elements(DType t, const Scalar& number) {
  if (number.is_complex() || (t != DType::kFloat16 && t != DType::kBFloat16)) return number;
  const double d = number.to_double();
  if (!(std::fabs(d) > 65504)) return number;
  const float f = static_cast<float>(d);
  return Scalar(static_cast<double>(t == DType::kFloat16 ? static_cast<float>(Half(f)) : f));
}

void store_basic(const Tensor& self, const Tensor& target, PyObject* value) {
  Scalar number;
  if (number_of(value, &number)) {
    g_fill(target, for_elements(target.dtype(), number));
    return;
  }
  if (!is_tensor(value)) cannot_assign(self, value);
  const Tensor& v = unwrap(value);
  if (v.is_same(target)) return;
  const Tensor source = without_leading_ones(v, target.dim());
  GilRelease unlocked(target.numel() > kReleaseGilAbove);
  g_copy(target, source, false);
}

void store_advanced(const Tensor& self, Parsed& p, PyObject* value) {
  const Tensor target = p.walk.for_reading();
  Scalar number;
  Tensor v;
  if (number_of(value, &number)) {
    v = empty_tensor({}, {}, self.dtype(), self.device());
    const jit::Tracer::Pause constant;
    if (!self.is_meta()) g_fill(v, for_elements(v.dtype(), number));
  } else if (is_tensor(value)) {
    v = unwrap(value);
    if (v.dim() == 0 && !(v.device() == self.device()) && !v.requires_grad())
      v = converted(v, self.dtype(), self.device());
    int64_t skip_to = v.dim();
    while (skip_to > 0 && v.sizes()[static_cast<size_t>(v.dim() - skip_to)] == 1) --skip_to;
    v = without_leading_ones(v, skip_to);
  } else {
    cannot_assign(self, value);
  }
  GilRelease unlocked(target.numel() > kReleaseGilAbove);
  g_index_put(target, TensorList(p.advanced), v, false);
}

void set(const Tensor& t, PyObject* index, PyObject* value) {
  if (is_plain_int(index)) return store_basic(t, select_first(t, plain_int(index)), value);
  Scalar number;
  if (index == Py_False && (is_tensor(value) || number_of(value, &number))) return;  // none of it
  Parsed p(t);
  if (index == Py_True) {  // all of it
    p.walk.unsqueeze(0);
    return store_basic(t, p.walk.view(), value);
  }
  parse_index(p, index);
  if (p.advanced.empty()) return store_basic(t, p.walk.view(), value);
  store_advanced(t, p, value);
}

}  // namespace

PyObject* tensor_getitem(PyObject* self, PyObject* index) {
  return guarded([&]() -> PyObject* {
    PyObject* args[] = {self, index};
    if (needs_torch_function(args, 2)) [[unlikely]] {
      Ref f = Ref::steal(check(PyObject_GetAttrString(reinterpret_cast<PyObject*>(TensorType), "__getitem__")));
      return call_torch_function(f.get(), args, 2, nullptr);
    }
    if (unwrap(self).keys().has(DispatchKey::kNamed)) [[unlikely]]
      return named_getitem(self, index);
    if (indexed_in_python(*unwrap(self).impl())) return index_in_python("getitem", self, index, nullptr);
    return wrap(get(unwrap(self), index));
  });
}

int tensor_setitem(PyObject* self, PyObject* index, PyObject* value) {
  return guarded_int([&] {
    if (!value) throw TypeError("Tensor does not support deleting items");
    PyObject* args[] = {self, index, value};
    if (needs_torch_function(args, 3)) [[unlikely]] {
      Ref f = Ref::steal(check(PyObject_GetAttrString(reinterpret_cast<PyObject*>(TensorType), "__setitem__")));
      Ref done = Ref::steal(call_torch_function(f.get(), args, 3, nullptr));
      return;
    }
    if (indexed_in_python(*unwrap(self).impl())) {
      Ref done = Ref::steal(index_in_python("setitem", self, index, value));
      return;
    }
    const Layout layout = unwrap(self).layout();
    TESSERA_CHECK_TYPE(layout == Layout::kStrided || layout == Layout::kJagged || layout == Layout::kMkldnn,
                       "Cannot assign to a sparse tensor");
    set(unwrap(self), index, value);
  });
}

}  // namespace tessera::python
