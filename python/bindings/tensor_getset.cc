// Attributes of Tensor. Each one goes through __torch_function__ for subclasses that define it.
#include <cstring>

#include "autograd/accumulate_grad.h"
#include "autograd/variable.h"
#include "python/bindings/convert/names.h"
#include "python/bindings/autograd/autograd.h"
#include "python/bindings/calls.h"
#include "python/bindings/jit/traced.h"
#include "python/bindings/library/fake.h"
#include "python/bindings/tensor_type.h"
#include "python/bindings/types.h"
#include "tensor/core/warning.h"

namespace tessera::python {
namespace {

struct Attribute {
  const char* name;
  PyObject* (*get)(const Tensor& t);
  void (*set)(const Tensor& t, PyObject* value);  // value null: deleted
  const char* doc = nullptr;
};

PyObject* get_attribute(PyObject* self, void* closure) {
  const auto* a = static_cast<const Attribute*>(closure);
  return guarded([&]() -> PyObject* {
    if (is_exact_tensor(self) ? function_state.num_modes > 0 && !function_state.all_disabled
                              : needs_torch_function(&self, 1)) [[unlikely]] {
      Ref descriptor = Ref::steal(check(PyObject_GetAttrString(reinterpret_cast<PyObject*>(TensorType), a->name)));
      Ref getter = Ref::steal(check(PyObject_GetAttrString(descriptor.get(), "__get__")));
      return call_torch_function(getter.get(), &self, 1, nullptr);
    }
    return a->get(unwrap(self));
  });
}
int set_attribute(PyObject* self, PyObject* value, void* closure) {
  const auto* a = static_cast<const Attribute*>(closure);
  return guarded_int([&] {
    if (is_exact_tensor(self) ? function_state.num_modes > 0 && !function_state.all_disabled
                              : needs_torch_function(&self, 1)) [[unlikely]] {
      Ref descriptor = Ref::steal(check(PyObject_GetAttrString(reinterpret_cast<PyObject*>(TensorType), a->name)));
      Ref setter = Ref::steal(check(PyObject_GetAttrString(descriptor.get(), value ? "__set__" : "__delete__")));
      PyObject* args[] = {self, value};
      Ref done = Ref::steal(call_torch_function(setter.get(), args, value ? 2 : 1, nullptr));
      return;
    }
    a->set(unwrap(self), value);
  });
}

// --- what the tensor is ---
PyObject* get_shape(const Tensor& t) {
  if (PyObject* symbolic = symbolic_shape_of(*t.impl())) return ask_symbolic_shape(symbolic, "size", nullptr);
  if (jit::Tracer* trace = jit::current_trace()) [[unlikely]]
    return traced_shape(*trace, t);
  return wrap_size(t.sizes());
}
PyObject* get_dtype(const Tensor& t) { return wrap(t.dtype()); }
PyObject* get_device(const Tensor& t) { return wrap(t.device()); }
PyObject* get_layout(const Tensor& t) { return wrap(t.layout()); }
PyObject* get_ndim(const Tensor& t) { return PyLong_FromLongLong(t.dim()); }
PyObject* get_itemsize(const Tensor& t) { return PyLong_FromLongLong(t.item_size()); }
PyObject* get_nbytes(const Tensor& t) { return PyLong_FromLongLong(t.nbytes()); }
template <DeviceType D>
PyObject* is_on(const Tensor& t) {
  return to_python(t.device().type == D);
}
PyObject* is_cpu_like(const Tensor& t) { return to_python(t.is_cpu()); }
template <Layout L>
PyObject* has_layout(const Tensor& t) {
  return to_python(t.layout() == L);
}
PyObject* get_is_quantized(const Tensor& t) { return to_python(is_quantized(t.dtype())); }
PyObject* get_is_nested(const Tensor& t) {
  return to_python((t.keys() & (DispatchKeySet(DispatchKey::kNestedTensorCPU) | DispatchKey::kNestedTensorCUDA |
                                DispatchKey::kNestedTensorMeta))
                       .bits() != 0);
}
PyObject* get_false(const Tensor&) { return to_python(false); }
PyObject* get_names(const Tensor& t) { return names_of_tensor(t); }
void set_names(const Tensor& t, PyObject* value) {
  if (!value) throw TypeError("can't delete names: assign None instead");
  give_names(t, value);
}
PyObject* get_cdata(const Tensor& t) { return PyLong_FromVoidPtr(t.impl()); }

// --- autograd ---
PyObject* get_requires_grad(const Tensor& t) { return to_python(t.requires_grad()); }
void set_requires_grad(const Tensor& t, PyObject* value) {
  TESSERA_CHECK(value, "Can't delete requires_grad attribute");
  TESSERA_CHECK(PyBool_Check(value), "requires_grad must be a bool");
  const bool on = value == Py_True;
  TESSERA_CHECK(t.is_leaf() || on,
                "you can only change requires_grad flags of leaf variables. If you want to use a computed variable in "
                "a subgraph that doesn't require differentiation use "
                "var_no_grad = var.detach().");
  if (t.is_leaf()) {
    TESSERA_CHECK(!on || t.is_floating_point() || t.is_complex(),
                  "only Tensors of floating point and complex dtype can require gradients");
    t.requires_grad_(on);
  }
}
PyObject* get_is_leaf(const Tensor& t) { return to_python(!autograd::grad_fn(t)); }
PyObject* get_grad_fn(const Tensor& t) {
  const auto node = autograd::grad_fn(t);
  return node ? wrap_node(node) : none();
}
PyObject* get_grad(const Tensor& t) { return wrap_or_none(t.grad()); }
// What users ask for: an empty grad of a result is mostly a mistake.
PyObject* get_grad_with_warning(const Tensor& t) {
  if (!t.grad().defined() && t.requires_grad() && autograd::grad_fn(t) && !autograd::retains_grad(t))
    check(PyErr_WarnEx(PyExc_UserWarning,
                       "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad "
                       "attribute won't be populated during autograd.backward(). If you indeed want the "
                       ".grad field to be populated for a non-leaf Tensor, use .retain_grad() on the non-leaf Tensor. "
                       "If you access the non-leaf Tensor by mistake, make sure you access the leaf Tensor "
                       "instead.",
                       1));
  return get_grad(t);
}
void set_grad(const Tensor& t, PyObject* value) {
  if (!value || value == Py_None) {
    if (t.impl()->autograd_meta()) t.set_grad(Tensor());
    return;
  }
  if (!is_tensor(value))
    throw TypeError(
        str_cat("assigned grad expected to be a Tensor or None but got grad of type ", Py_TYPE(value)->tp_name));
  autograd::assign_grad(t, unwrap(value));
}
PyObject* get_grad_dtype(const Tensor& t) {
  const std::optional<DType> dtype = autograd::grad_dtype(t);
  if (!dtype) Py_RETURN_NONE;
  return wrap(*dtype);
}
void set_grad_dtype(const Tensor& t, PyObject* value) {
  if (!value) throw TypeError("grad_dtype can't be deleted");
  TESSERA_CHECK(value == Py_None || is_dtype(value), "grad_dtype must be a torch.dtype or None, but got ",
                Py_TYPE(value)->tp_name);
  autograd::set_grad_dtype(t, value == Py_None ? std::nullopt : std::optional<DType>(unwrap_dtype(value)));
}
PyObject* get_retains_grad(const Tensor& t) {
  return to_python(t.requires_grad() && autograd::grad_fn(t) && autograd::retains_grad(t));
}
PyObject* get_output_nr(const Tensor& t) { return PyLong_FromUnsignedLong(t.output_nr()); }
PyObject* get_version(const Tensor& t) {
  TESSERA_CHECK(!t.is_inference(), "Inference tensors do not track version counter.");
  return PyLong_FromUnsignedLong(t.impl()->has_version() ? t.version() : 0);
}
PyObject* get_base(const Tensor& t) { return wrap_or_none(t.view_base()); }
NamedOp g_detach("aten::detach");
PyObject* get_data(const Tensor& t) {
  // A class that handles operators itself knows what its data are.
  if (jit::current_trace() || t.keys().has(DispatchKey::kPython)) [[unlikely]]
    return wrap(g_detach(t));
  Tensor r(t.impl()->shallow_copy(false));
  return wrap(std::move(r));
}
void set_data(const Tensor& t, PyObject* value) {
  TESSERA_CHECK(value, "Deleting tensor data is not allowed. Delete tensor instead!");
  if (!is_tensor(value))
    throw TypeError(str_cat("Variable data has to be a tensor, but got ", Py_TYPE(value)->tp_name));
  autograd::set_data(t, unwrap(value));
}
PyObject* get_name(const Tensor& t) {
  const AutogradMeta* m = t.impl()->autograd_meta();
  return m && !m->name.empty() ? to_python_string(m->name).release() : none();
}

// --- views ---
NamedOp g_permute("aten::permute"), g_transpose("aten::transpose.int"), g_conj("aten::conj"), g_real("aten::real"),
    g_imag("aten::imag");

PyObject* get_t(const Tensor& t) {
  if (t.dim() != 2 && t.dim() != 0)
    warn_once(
        "The use of `x.T` on tensors of dimension other than 2 to reverse their shape is deprecated and it will throw "
        "an error in a future release. Consider `x.mT` to transpose batches of matrices or "
        "`x.permute(*torch.arange(x.ndim - 1, -1, -1))` to reverse the dimensions of a tensor.");
  IntVector order;
  for (int64_t i = t.dim() - 1; i >= 0; --i) order.push_back(i);
  return wrap(g_permute(t, IntList(order)));
}
Tensor transposed(const Tensor& t) { return g_transpose(t, int64_t{-2}, int64_t{-1}); }
// Whether t is a number without dimensions, which such views warn of and return as it is.
bool without_dims(const Tensor& t, const char* name, const char* instead) {
  if (t.dim() == 0) warn_once(str_cat("Tensor.", name, " is deprecated on 0-D tensors. ", instead));
  return t.dim() == 0;
}
PyObject* get_mt(const Tensor& t) {
  if (without_dims(t, "mT", "It is the tensor itself.")) return wrap(t);
  TESSERA_CHECK(t.dim() >= 2, "tensor.mT is only supported on matrices or batches of matrices. Got ", t.dim(),
                "-D tensor.");
  return wrap(transposed(t));
}
PyObject* get_mh(const Tensor& t) {
  if (without_dims(t, "mH", "Consider x.conj().")) return wrap(t.is_complex() ? g_conj(t) : t);
  TESSERA_CHECK(t.dim() >= 2, "tensor.mH is only supported on matrices or batches of matrices. Got ", t.dim(),
                "-D tensor.");
  return wrap(t.is_complex() ? g_conj(transposed(t)) : transposed(t));
}
PyObject* get_h(const Tensor& t) {
  TESSERA_CHECK(t.dim() == 2 || t.dim() == 0, "tensor.H is only supported on matrices (2-D tensors). Got ", t.dim(),
                "-D tensor.", t.dim() > 2 ? " For batches of matrices, consider using tensor.mH" : "");
  if (t.dim() == 0) return wrap(t.is_complex() ? g_conj(t) : t);
  return wrap(t.is_complex() ? g_conj(transposed(t)) : transposed(t));
}
Tensor real_of(const Tensor& t) { return t.is_complex() ? g_real(t) : t; }
Tensor imag_of(const Tensor& t) {
  TESSERA_CHECK(t.is_complex(), "imag is not implemented for tensors with non-complex dtypes.");
  return g_imag(t);
}
PyObject* get_real(const Tensor& t) { return wrap(real_of(t)); }
PyObject* get_imag(const Tensor& t) { return wrap(imag_of(t)); }
void assign_part(const Tensor& part, PyObject* value, const char* name) {
  TESSERA_CHECK(value, "Can't delete the attribute ", name);
  Ref done = Ref::steal(
      check(PyObject_CallMethod(Ref::steal(wrap(part)).get(), is_tensor(value) ? "copy_" : "fill_", "(O)", value)));
}
void set_real(const Tensor& t, PyObject* value) { assign_part(real_of(t), value, "real"); }
void set_imag(const Tensor& t, PyObject* value) { assign_part(imag_of(t), value, "imag"); }

Attribute g_attributes[] = {
    {"shape", get_shape, nullptr, "The sizes of the dimensions, a torch.Size."},
    {"dtype", get_dtype, nullptr, "The type of the elements, a torch.dtype."},
    {"device", get_device, nullptr, "Where the data lie, a torch.device."},
    {"layout", get_layout, nullptr, "How the data lie, a torch.layout."},
    {"ndim", get_ndim, nullptr, "The number of dimensions."},
    {"itemsize", get_itemsize, nullptr, "Bytes of one element."},
    {"nbytes", get_nbytes, nullptr, "Bytes of all elements; for sparse tensors those of the values."},
    {"requires_grad", get_requires_grad, set_requires_grad,
     "Whether autograd records what is done with the tensor; can be set on leaves."},
    {"grad", get_grad_with_warning, set_grad,
     "The gradient that backward() has summed up, of the tensor's shape; None before."},
    {"_grad", get_grad, set_grad},
    {"grad_dtype", get_grad_dtype, set_grad_dtype,
     "The dtype that gradients of a leaf are brought to, by default its own; None: they keep theirs. Can be set while "
     "there is no gradient of another dtype."},
    {"grad_fn", get_grad_fn, nullptr, "The node of the graph that made the tensor; None for leaves."},
    {"is_leaf", get_is_leaf, nullptr, "Whether the tensor is no result of a recorded operation."},
    {"retains_grad", get_retains_grad, nullptr, "Whether a tensor that is no leaf keeps its gradient (retain_grad())."},
    {"output_nr", get_output_nr, nullptr, "Which result of its grad_fn the tensor is."},
    {"_version", get_version, nullptr, "How many times the data were written in place."},
    {"_base", get_base, nullptr, "The tensor that this one is a view of; None otherwise."},
    {"data", get_data, set_data,
     "The same data without the graph. Assigned: the tensor takes the other's data, shape and dtype; autograd does not "
     "see it."},
    {"name", get_name, nullptr, "The name that C++ gave; mostly None."},
    {"names", get_names, set_names, "The names of the dimensions, None for one without; can be assigned."},
    {"_cdata", get_cdata, nullptr},
    {"T", get_t, nullptr, "The matrix transposed: all dimensions in reverse order."},
    {"mT", get_mt, nullptr, "The last two dimensions exchanged; dim() >= 2."},
    {"H", get_h, nullptr, "The matrix conjugated and transposed; 2 or 0 dimensions."},
    {"mH", get_mh, nullptr, "The last two dimensions exchanged, elements conjugated; dim() >= 2."},
    {"real", get_real, set_real, "The real parts, a view; of a real tensor itself."},
    {"imag", get_imag, set_imag, "The imaginary parts, a view; complex dtypes only."},
    {"is_cpu", is_cpu_like, nullptr, "Whether the data lie in the CPU's memory."},
    {"is_cuda", is_on<DeviceType::kCUDA>, nullptr, "Whether the data lie on a CUDA device."},
    {"is_meta", is_on<DeviceType::kMeta>, nullptr, "Whether there are no data: shape and dtype only."},
    {"is_mps", is_on<DeviceType::kMPS>, nullptr},
    {"is_xpu", is_on<DeviceType::kXPU>, nullptr},
    {"is_xla", is_on<DeviceType::kXLA>, nullptr},
    {"is_ipu", is_on<DeviceType::kIPU>, nullptr},
    {"is_maia", is_on<DeviceType::kMAIA>, nullptr},
    {"is_mtia", is_on<DeviceType::kMTIA>, nullptr},
    {"is_vulkan", is_on<DeviceType::kVulkan>, nullptr},
    {"is_sparse", has_layout<Layout::kSparseCoo>, nullptr, "Whether the layout is torch.sparse_coo."},
    {"is_sparse_csr", has_layout<Layout::kSparseCsr>, nullptr, "Whether the layout is torch.sparse_csr."},
    {"is_mkldnn", has_layout<Layout::kMkldnn>, nullptr},
    {"is_quantized", get_is_quantized, nullptr, "Whether the elements are quantized integers with a scale."},
    {"is_nested", get_is_nested, nullptr, "Whether the tensor is a list of tensors of several shapes."},
    {"_has_symbolic_sizes_strides", get_false, nullptr},
};

}  // namespace

std::vector<PyGetSetDef> tensor_getters() {
  std::vector<PyGetSetDef> r;
  for (Attribute& a : g_attributes) r.push_back({a.name, get_attribute, a.set ? set_attribute : nullptr, a.doc, &a});
  r.push_back({nullptr, nullptr, nullptr, nullptr, nullptr});
  return r;
}

}  // namespace tessera::python
