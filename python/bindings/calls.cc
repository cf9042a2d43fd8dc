#include "python/bindings/calls.h"

#include <vector>

#include "python/bindings/args.h"
#include "python/bindings/operators.h"
#include "python/bindings/types.h"

namespace tessera::python {
namespace {

int find_name(const Signature& s, PyObject* name) {
  int i = 0;
  for (const char* n : s.names) {
    if (PyUnicode_CompareWithASCIIString(name, n) == 0) return i;
    ++i;
  }
  return -1;
}

const char* type_name(PyObject* o) { return is_exact_tensor(o) ? "Tensor" : Py_TYPE(o)->tp_name; }

[[noreturn]] void bad_type(const char* function, const char* name, int position, const char* wanted, PyObject* o) {
  const std::string where = position > 0 ? str_cat(" (position ", position, ")") : "";
  throw TypeError(str_cat(function, "(): argument '", name, "'", where, " must be ", wanted, ", not ", type_name(o)));
}

// Empty: the arguments fit.
std::string fill(const Signature& s, CallArgs call, PyObject** out) {
  const int count = static_cast<int>(s.names.size());
  for (int i = 0; i < count; ++i) out[i] = nullptr;
  if (call.n > s.positional)
    return str_cat(s.function, "() takes ",
                   s.required < s.positional ? "from " + std::to_string(s.required) + " to " : "", s.positional,
                   " positional argument", s.positional == 1 ? "" : "s", " but ", call.n,
                   call.n == 1 ? " was given" : " were given");
  for (Py_ssize_t i = 0; i < call.n; ++i) out[i] = call.args[i];
  const Py_ssize_t nkw = call.kwnames ? PyTuple_GET_SIZE(call.kwnames) : 0;
  for (Py_ssize_t k = 0; k < nkw; ++k) {
    PyObject* name = PyTuple_GET_ITEM(call.kwnames, k);
    const int i = find_name(s, name);
    if (i < 0) return str_cat(s.function, "() got an unexpected keyword argument '", PyUnicode_AsUTF8(name), "'");
    if (out[i]) return str_cat(s.function, "() got multiple values for argument '", PyUnicode_AsUTF8(name), "'");
    out[i] = call.args[call.n + k];
  }
  std::string missing;
  int lacking = 0;
  for (int i = 0; i < s.required; ++i)
    if (!out[i]) { missing += str_cat(lacking++ ? ", \"" : "\"", *(s.names.begin() + i), "\""); }
  if (lacking) return str_cat(s.function, "() missing ", lacking, " required positional arguments: ", missing);
  return {};
}

}  // namespace

void read_args(const Signature& signature, CallArgs call, PyObject** out) {
  const std::string problem = fill(signature, call, out);
  if (!problem.empty()) throw TypeError(problem);
}
bool try_read_args(const Signature& signature, CallArgs call, PyObject** out) {
  return fill(signature, call, out).empty();
}

std::string describe_args(CallArgs call) {
  std::string s = "(";
  for (Py_ssize_t i = 0; i < call.n; ++i) s += std::string(i ? ", " : "") + type_name(call.args[i]);
  for (Py_ssize_t k = 0; call.kwnames && k < PyTuple_GET_SIZE(call.kwnames); ++k)
    s += std::string(call.n + k ? ", " : "") + PyUnicode_AsUTF8(PyTuple_GET_ITEM(call.kwnames, k)) + "=" +
         type_name(call.args[call.n + k]);
  return s + ")";
}

std::optional<DType> dtype_arg(const char* function, PyObject* o) {
  if (!o || o == Py_None) return std::nullopt;
  DType t;
  if (!to_dtype(o, &t)) bad_type(function, "dtype", 0, "torch.dtype", o);
  return t;
}
std::optional<Device> device_arg(const char* function, PyObject* o) {
  if (!o || o == Py_None) return std::nullopt;
  if (!is_device_like(o)) bad_type(function, "device", 0, "torch.device", o);
  return to_device(o);
}
std::optional<MemoryFormat> memory_format_arg(const char* function, PyObject* o) {
  if (!o || o == Py_None) return std::nullopt;
  if (!is_memory_format(o)) bad_type(function, "memory_format", 0, "torch.memory_format", o);
  return unwrap_memory_format(o);
}
std::optional<Layout> layout_arg(const char* function, PyObject* o) {
  if (!o || o == Py_None) return std::nullopt;
  if (!is_layout(o)) bad_type(function, "layout", 0, "torch.layout", o);
  return unwrap_layout(o);
}
bool bool_arg(const char* function, const char* name, PyObject* o, bool otherwise) {
  if (!o || o == Py_None) return otherwise;
  if (PyBool_Check(o)) return o == Py_True;
  Scalar s;
  if (!is_tensor(o) && to_scalar(o, &s) && s.is_bool()) return s.to_bool();
  bad_type(function, name, 0, "bool", o);
}
int64_t int_arg(const char* function, const char* name, int position, PyObject* o) {
  int64_t v;
  if (PyBool_Check(o) || !to_int64(o, &v)) bad_type(function, name, position, "int", o);
  return v;
}
IntVector int_list_arg(const char* function, const char* name, PyObject* o) {
  if (!PyTuple_Check(o) && !PyList_Check(o)) bad_type(function, name, 0, "tuple of ints", o);
  IntVector l;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(o); ++i) {
    int64_t v;
    PyObject* e = PySequence_Fast_GET_ITEM(o, i);
    if (!to_int64(e, &v))
      throw TypeError(str_cat(function, "(): argument '", name, "' must be tuple of ints, but found element of type ",
                              type_name(e), " at pos ", i));
    l.push_back(v);
  }
  return l;
}
const Tensor& tensor_arg(const char* function, const char* name, PyObject* o) {
  if (!is_tensor(o)) bad_type(function, name, 0, "Tensor", o);
  return unwrap(o);
}

const OpInfo* NamedOp::find(size_t num_args, size_t num_results) {
  const OpInfo* info = find_op(name_);
  TESSERA_CHECK_NOT_IMPLEMENTED(info, "no linked library has the operator ", name_);
  const FunctionSchema schema = parse_schema(info->schema());
  TESSERA_CHECK(schema.arguments.size() == num_args && schema.returns.size() == num_results, "the operator ", name_,
                " has another signature here: ", info->schema());
  info_.store(info, std::memory_order_release);
  return info;
}
const OpHeader& NamedOp::header(size_t num_args) {
  const OpInfo* info = info_.load(std::memory_order_acquire);
  return *(info ? info : find(num_args, 1))->op;
}
void NamedOp::call(Value* args, size_t num_args, Value* results, size_t num_results) {
  const OpInfo* info = info_.load(std::memory_order_acquire);
  if (!info) [[unlikely]]
    info = find(num_args, num_results);
  info->adapter->call(*info->op, nullptr, args, results);
}

PyObject* call_method_override(const char* name, PyObject* self, CallArgs call) {
  Ref f = Ref::steal(check(PyObject_GetAttrString(reinterpret_cast<PyObject*>(TensorType), name)));
  const Py_ssize_t nkw = call.kwnames ? PyTuple_GET_SIZE(call.kwnames) : 0;
  std::vector<PyObject*> all{self};
  all.insert(all.end(), call.args, call.args + call.n + nkw);
  return call_torch_function(f.get(), all.data(), call.n + 1, call.kwnames);
}
PyObject* call_function_override(const char* name, PyObject* module, CallArgs call) {
  Ref f = Ref::steal(check(PyObject_GetAttrString(module, name)));
  return call_torch_function(f.get(), call.args, call.n, call.kwnames);
}

}  // namespace tessera::python
