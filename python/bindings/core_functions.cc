#include "python/bindings/core_functions.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cxxabi.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <pmmintrin.h>
#include <xmmintrin.h>

#include <mutex>

#include "autograd/accumulate_grad.h"
#include "jit/tasks.h"
#include "nn/attention_choice.h"
#include "python/bindings/args.h"
#include "python/bindings/calls.h"
#include "python/bindings/jit/traced.h"
#include "python/bindings/types.h"
#include "tensor/core/rare/device_alias.h"
#include "tensor/core/parallel.h"
#include "tensor/ops/create_extra.h"
#include "tensor/ops/promotion.h"
#include "tensor/core/warning.h"

namespace tessera::python {
namespace {

PyObject* py_get_default_dtype(PyObject*, CallArgs) { return wrap(default_dtype()); }
PyObject* py_set_default_dtype(PyObject*, CallArgs call) {
  PyObject* a[1];
  read_args({"set_default_dtype", {"d"}, 1, 1}, call, a);
  if (!is_dtype(a[0]))
    throw TypeError("invalid dtype object: only floating-point types are supported as the default type");
  const DType t = unwrap_dtype(a[0]);
  TESSERA_CHECK_TYPE(is_floating_point(t) && !is_float8(t),
                     "only floating-point types are supported as the default type");
  set_default_dtype(t);
  return none();
}

DType required_dtype(const char* function, const char* name, PyObject* o) {
  if (!is_dtype(o))
    throw TypeError(str_cat(function, "(): argument '", name, "' must be torch.dtype, not ", Py_TYPE(o)->tp_name));
  return unwrap_dtype(o);
}
PyObject* py_promote_types(PyObject*, CallArgs call) {
  PyObject* a[2];
  read_args({"promote_types", {"type1", "type2"}, 2, 2}, call, a);
  return wrap(
      promote_types(required_dtype("promote_types", "type1", a[0]), required_dtype("promote_types", "type2", a[1])));
}
PyObject* py_can_cast(PyObject*, CallArgs call) {
  PyObject* a[2];
  read_args({"can_cast", {"from_", "to"}, 2, 0}, call, a);
  if (!a[0] || !a[1]) { read_args({"can_cast", {"from", "to"}, 2, 2}, call, a); }
  return to_python(can_cast(required_dtype("can_cast", "from", a[0]), required_dtype("can_cast", "to", a[1])));
}
void add_operand(ResultType& r, PyObject* o) {
  Scalar s;
  if (is_tensor(o))
    r.add(unwrap(o));
  else if (to_scalar(o, &s))
    r.add(s);
  else
    throw TypeError(str_cat("result_type(): arguments must be Tensors or numbers, not ", Py_TYPE(o)->tp_name));
}
PyObject* py_result_type(PyObject*, CallArgs call) {
  PyObject *a[2], *b[2];
  const bool first_form = try_read_args({"result_type", {"tensor1", "tensor2"}, 2, 2}, call, a);
  if (!first_form) {
    read_args({"result_type", {"tensor", "other"}, 2, 2}, call, b);
    a[0] = b[0];
    a[1] = b[1];
  }
  ResultType r;
  add_operand(r, a[0]);
  add_operand(r, a[1]);
  return wrap(r.get());
}

template <FixedName N>
const Tensor& only_tensor(CallArgs call) {
  PyObject* a[1];
  read_args({kStoredName<N>.text, {"input"}, 1, 1}, call, a);
  return tensor_arg(kStoredName<N>.text, "input", a[0]);
}
PyObject* py_is_floating_point(PyObject*, CallArgs call) {
  return to_python(only_tensor<"is_floating_point">(call).is_floating_point());
}
PyObject* py_is_complex(PyObject*, CallArgs call) { return to_python(only_tensor<"is_complex">(call).is_complex()); }
PyObject* py_is_conj(PyObject*, CallArgs call) { return to_python(only_tensor<"is_conj">(call).is_conj()); }
PyObject* py_is_neg(PyObject*, CallArgs call) { return to_python(only_tensor<"is_neg">(call).is_neg()); }
PyObject* py_is_inference(PyObject*, CallArgs call) {
  return to_python(only_tensor<"is_inference">(call).is_inference());
}
PyObject* py_is_signed(PyObject*, CallArgs call) {
  return to_python(is_signed(only_tensor<"is_signed">(call).dtype()));
}
PyObject* py_numel(PyObject*, CallArgs call) {
  const Tensor& t = only_tensor<"numel">(call);
  jit::Tracer* trace = jit::current_trace();
  return trace ? traced_numel(*trace, t) : PyLong_FromLongLong(t.numel());
}
PyObject* py_is_same_size(PyObject*, CallArgs call) {
  PyObject* a[2];
  read_args({"is_same_size", {"input", "other"}, 2, 2}, call, a);
  return to_python(std::ranges::equal(tensor_arg("is_same_size", "input", a[0]).sizes(),
                                      tensor_arg("is_same_size", "other", a[1]).sizes()));
}

NamedOp g_nonzero("aten::nonzero"), g_nonzero_out("aten::nonzero.out"), g_where("aten::where");

PyObject* py_nonzero(PyObject*, CallArgs call) {
  PyObject* a[3];
  read_args({"nonzero", {"input", "out", "as_tuple"}, 1, 1}, call, a);
  const Tensor& t = tensor_arg("nonzero", "input", a[0]);
  const bool as_tuple = bool_arg("nonzero", "as_tuple", a[2], false);
  if (!a[1] || a[1] == Py_None) return nonzero_of(t, as_tuple);
  if (as_tuple) throw Error("nonzero does not support the out kwarg when as_tuple is True");
  g_nonzero_out(t, tensor_arg("nonzero", "out", a[1]));
  return Py_NewRef(a[1]);
}

int thread_count(const char* function, CallArgs call) {
  PyObject* a[1];
  read_args({function, {"num_threads"}, 1, 1}, call, a);
  const int64_t n = int_arg(function, "num_threads", 1, a[0]);
  TESSERA_CHECK(n > 0, function, " expects a positive integer");
  TESSERA_CHECK(n <= 4096, function, ": ", n, " threads are more than this library makes");
  return static_cast<int>(n);
}
int g_interop_threads = 0;
PyObject* py_set_fill_uninitialized_memory(PyObject*, CallArgs call) {
  PyObject* a[1];
  read_args({"_set_fill_uninitialized_memory", {"on"}, 1, 1}, call, a);
  kernels::set_fill_uninitialized_memory(PyObject_IsTrue(a[0]) == 1);
  return none();
}

// Of this thread, innermost first, a line a frame; names of C++ as it writes them.
PyObject* py_cpp_backtrace(PyObject*, CallArgs call) {
  PyObject* a[2];
  read_args({"_cpp_backtrace", {"frames_to_skip", "maximum_number_of_frames"}, 2, 2}, call, a);
  const int64_t skip = std::max<int64_t>(int_arg("_cpp_backtrace", "frames_to_skip", 1, a[0]), 0) + 1;  // this one
  const int64_t most = std::clamp<int64_t>(int_arg("_cpp_backtrace", "maximum_number_of_frames", 2, a[1]), 0, 4096);
  std::vector<void*> addresses(static_cast<size_t>(std::min<int64_t>(skip, 4096) + most));
  const int count = backtrace(addresses.data(), static_cast<int>(addresses.size()));
  std::string text;
  for (int64_t i = skip; i < count; ++i) {
    Dl_info info{};
    dladdr(addresses[i], &info);
    int status = 1;
    char* plain = info.dli_sname ? abi::__cxa_demangle(info.dli_sname, nullptr, nullptr, &status) : nullptr;
    char line[64];
    std::snprintf(line, sizeof line, "frame #%d: ", static_cast<int>(i - skip));
    text += line;
    text += plain ? plain : info.dli_sname ? info.dli_sname : "<unknown function>";
    std::snprintf(line, sizeof line, " (%p in ", addresses[i]);
    text += line;
    text += std::string(info.dli_fname ? info.dli_fname : "?") + ")\n";
    std::free(plain);
  }
  return PyUnicode_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size()));
}

// The compiler, its standard and what it was told: for tessera.__config__.
PyObject* py_build_info(PyObject*, CallArgs) {
#ifdef NDEBUG
  const char* checks = "assertions off";
#else
  const char* checks = "assertions on";
#endif
  return PyUnicode_FromFormat("GCC %s, C++ %ld, %s", __VERSION__, static_cast<long>(__cplusplus), checks);
}

PyObject* py_get_num_threads(PyObject*, CallArgs) { return PyLong_FromLong(num_threads()); }
PyObject* py_set_num_threads(PyObject*, CallArgs call) {
  set_num_threads(thread_count("set_num_threads", call));
  return none();
}
PyObject* py_get_num_interop_threads(PyObject*, CallArgs) { return PyLong_FromLong(jit::task_threads()); }
PyObject* py_set_num_interop_threads(PyObject*, CallArgs call) {
  const int n = thread_count("set_num_interop_threads", call);
  TESSERA_CHECK(
      !g_interop_threads,
      "Error: cannot set number of interop threads after parallel work has started or set_num_interop_threads called");
  g_interop_threads = n;
  jit::set_task_threads(n);
  return none();
}
PyObject* py_set_flush_denormal(PyObject*, CallArgs call) {
  PyObject* a[1];
  read_args({"set_flush_denormal", {"mode"}, 1, 1}, call, a);
  if (!PyBool_Check(a[0])) throw TypeError(str_cat("flush_denormal expects a bool, but got ", Py_TYPE(a[0])->tp_name));
  const bool on = a[0] == Py_True;
  _MM_SET_FLUSH_ZERO_MODE(on ? _MM_FLUSH_ZERO_ON : _MM_FLUSH_ZERO_OFF);
  _MM_SET_DENORMALS_ZERO_MODE(on ? _MM_DENORMALS_ZERO_ON : _MM_DENORMALS_ZERO_OFF);
  return to_python(true);
}

PyObject* py_set_warn_always(PyObject*, CallArgs call) {
  PyObject* a[1];
  read_args({"_set_warn_always", {"b"}, 1, 1}, call, a);
  set_warn_always(a[0] == Py_True);
  return none();
}

PyObject* py_set_attention_choice(PyObject*, CallArgs call) {
  PyObject* a[3];
  read_args({"_set_attention_choice", {"flash", "other_fused", "definition"}, 3, 3}, call, a);
  set_attention_choice({a[0] == Py_True, a[1] == Py_True, a[2] == Py_True});
  return none();
}

PyObject* py_increment_version(PyObject*, CallArgs call) {
  PyObject* a[1];
  read_args({"_increment_version", {"tensors"}, 1, 1}, call, a);
  if (is_tensor(a[0])) {
    unwrap(a[0]).bump_version();
    return none();
  }
  Ref list = Ref::steal(check(PySequence_Fast(a[0], "expected a tensor or an iterable of tensors")));
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(list.get()); ++i)
    tensor_arg("_increment_version", "tensors", PySequence_Fast_GET_ITEM(list.get(), i)).bump_version();
  return none();
}
// The objects exchange their tensors, to which nothing refers beside them but the accumulator of a graph.
PyObject* py_swap_tensor_impl(PyObject*, CallArgs call) {
  PyObject* a[2];
  read_args({"_swap_tensor_impl", {"a", "b"}, 2, 2}, call, a);
  tensor_arg("_swap_tensor_impl", "a", a[0]);
  tensor_arg("_swap_tensor_impl", "b", a[1]);
  auto *x = reinterpret_cast<PyTensor*>(a[0]), *y = reinterpret_cast<PyTensor*>(a[1]);
  IntrusivePtr<autograd::Node> accumulators[2];
  const char* const names[2] = {"t1", "t2"};
  for (int i = 0; i < 2; ++i) {
    TensorImpl* impl = (i == 0 ? x : y)->impl;
    if (AutogradMeta* m = impl->autograd_meta()) {
      const std::lock_guard lock(autograd::leaf_mutex(impl));
      accumulators[i] = autograd::AccumulateGrad::shared_from(*m);
    }
    TESSERA_CHECK(impl->use_count() == (accumulators[i] ? 2 : 1), "Expected use_count of ", names[i],
                  " to be 1 or 2 with an AccumulateGrad node but got ", impl->use_count(),
                  ": other tensors or the graph refer to it, so it can't be swapped; drop those first");
  }
  for (const auto& a : accumulators)
    if (a) static_cast<autograd::AccumulateGrad&>(*a).retire();
  std::swap(x->impl, y->impl);
  x->impl->pyobject.store(x, std::memory_order_release);
  y->impl->pyobject.store(y, std::memory_order_release);
  return none();
}
PyObject* py_set_module_name(PyObject*, CallArgs call) {
  PyObject* a[1];
  read_args({"_set_module_name", {"name"}, 1, 1}, call, a);
  set_display_name(from_python_string(a[0]).c_str());
  check(PyObject_SetAttrString(reinterpret_cast<PyObject*>(TensorType), "__module__", a[0]));
  return none();
}

PyObject* py_rename_private_device(PyObject*, CallArgs call) {
  PyObject* a[1];
  read_args({"_rename_privateuse1_backend", {"backend_name"}, 1, 1}, call, a);
  rename_private_device(from_python_string(a[0]));
  return none();
}
PyObject* py_private_device_name(PyObject*, CallArgs) { return to_python_string(private_device_name()).release(); }

// Puts a method into class Tensor without a change of its number slots, as setattr would make.
PyObject* py_set_type_entry(PyObject*, CallArgs call) {
  PyObject* a[2];
  read_args({"_set_type_entry", {"name", "method"}, 2, 2}, call, a);
  check(PyDict_SetItem(TensorType->tp_dict, a[0], a[1]));
  PyType_Modified(TensorType);
  return none();
}

}  // namespace

PyObject* nonzero_of(const Tensor& t, bool as_tuple) {
  if (!as_tuple) return wrap(g_nonzero(t));
  Value args[] = {internal::lend(t)}, result;
  g_where.call(args, 1, &result, 1);
  TensorList list = result.tensor_list();
  Ref r = Ref::steal(check(PyTuple_New(static_cast<Py_ssize_t>(list.size()))));
  for (size_t i = 0; i < list.size(); ++i) PyTuple_SET_ITEM(r.get(), static_cast<Py_ssize_t>(i), wrap_or_none(list[i]));
  return r.release();
}

std::vector<PyMethodDef> core_functions() {
  return {function<"nonzero", py_nonzero>("nonzero(input, *, out=None, as_tuple=False) -> Tensor or tuple of Tensors"),
          function<"get_default_dtype", py_get_default_dtype>("get_default_dtype() -> torch.dtype"),
          function<"set_default_dtype", py_set_default_dtype>(
              "set_default_dtype(d)\n\nThe dtype of tensors made from Python floats."),
          function<"promote_types", py_promote_types>("promote_types(type1, type2) -> dtype"),
          function<"can_cast", py_can_cast>("can_cast(from_, to) -> bool"),
          function<"result_type", py_result_type>("result_type(tensor1, tensor2) -> dtype"),
          function<"is_floating_point", py_is_floating_point>("is_floating_point(input) -> bool"),
          function<"is_complex", py_is_complex>("is_complex(input) -> bool"),
          function<"is_conj", py_is_conj>("is_conj(input) -> bool"),
          function<"is_neg", py_is_neg>("is_neg(input) -> bool"),
          function<"is_inference", py_is_inference>("is_inference(input) -> bool"),
          function<"is_signed", py_is_signed>("is_signed(input) -> bool"),
          function<"numel", py_numel>("numel(input) -> int"),
          function<"is_same_size", py_is_same_size>("is_same_size(input, other) -> bool"),
          function<"_set_fill_uninitialized_memory", py_set_fill_uninitialized_memory>(),
          function<"_rename_privateuse1_backend", py_rename_private_device>(),
          function<"_get_privateuse1_backend_name", py_private_device_name>(),
          function<"_cpp_backtrace", py_cpp_backtrace>(),
          function<"_build_info", py_build_info>("_build_info() -> str"),
          function<"get_num_threads", py_get_num_threads>("get_num_threads() -> int"),
          function<"set_num_threads", py_set_num_threads>("set_num_threads(int)"),
          function<"get_num_interop_threads", py_get_num_interop_threads>(
              "get_num_interop_threads() -> int\n\nThreads that run forked tasks (torch.jit.fork)."),
          function<"set_num_interop_threads", py_set_num_interop_threads>(
              "set_num_interop_threads(int)\n\nThreads that run forked tasks; once, before the first of them."),
          function<"set_flush_denormal", py_set_flush_denormal>("set_flush_denormal(mode) -> bool"),
          function<"_increment_version", py_increment_version>(),
          function<"_set_warn_always", py_set_warn_always>(),
          function<"_set_attention_choice", py_set_attention_choice>(),
          function<"_swap_tensor_impl", py_swap_tensor_impl>(),
          function<"_set_module_name", py_set_module_name>(),
          function<"_set_type_entry", py_set_type_entry>()};
}

}  // namespace tessera::python
