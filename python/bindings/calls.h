// What hand-written methods and functions share: arguments by name, __torch_function__, operators by their qualified
// name.
#pragma once

#include <atomic>
#include <cstring>
#include <initializer_list>

#include "python/bindings/common.h"
#include "python/bindings/tensor_type.h"
#include "python/bindings/torch_function.h"
#include "tensor/dispatch/boxed.h"
#include "tensor/dispatch/registry.h"

namespace tessera::python {

// The arguments of one vectorcall, without the object itself.
struct CallArgs {
  PyObject* const* args;
  Py_ssize_t n;       // positional ones
  PyObject* kwnames;  // or null
};
using Implementation = PyObject* (*)(PyObject* self, CallArgs call);

// Parameters of a hand-written callable: the first `positional` may be given by position, the first `required` must be
// given.
struct Signature {
  const char* function;
  std::initializer_list<const char*> names;
  int positional;
  int required;
};
// out[i]: the argument (borrowed) for names[i], null where it is missing. TypeError with the documented texts.
void read_args(const Signature& signature, CallArgs call, PyObject** out);
// False instead of an error: for callables with several forms.
bool try_read_args(const Signature& signature, CallArgs call, PyObject** out);
// "(int, foo=str)": what was given, for messages.
std::string describe_args(CallArgs call);

// Converts one argument: TypeError "f(): argument 'dtype' must be torch.dtype, not int". Null and None give the
// default.
std::optional<DType> dtype_arg(const char* function, PyObject* o);
std::optional<Device> device_arg(const char* function, PyObject* o);
std::optional<MemoryFormat> memory_format_arg(const char* function, PyObject* o);
std::optional<Layout> layout_arg(const char* function, PyObject* o);
bool bool_arg(const char* function, const char* name, PyObject* o, bool otherwise);
int64_t int_arg(const char* function, const char* name, int position, PyObject* o);
IntVector int_list_arg(const char* function, const char* name, PyObject* o);
const Tensor& tensor_arg(const char* function, const char* name, PyObject* o);

// An operator found in the registry at its first call, which may be one without the interpreter's lock: nothing here
// touches Python. NotImplementedError if no linked library has it.
class NamedOp {
 public:
  constexpr explicit NamedOp(const char* name) : name_(name) {}
  template <class... A>
  Tensor operator()(const A&... a) {
    Value args[sizeof...(A) + 1] = {internal::lend(a)..., Value()};
    Value result;
    call(args, sizeof...(A), &result, 1);
    return result.take_tensor();
  }
  void call(Value* args, size_t num_args, Value* results, size_t num_results);
  const OpHeader& header(size_t num_args);  // of one with a single result

 private:
  const OpInfo* find(size_t num_args, size_t num_results);
  const char* name_;
  std::atomic<const OpInfo*> info_ = nullptr;
};

template <size_t N>
struct FixedName {
  char text[N];
  constexpr FixedName(const char (&s)[N]) {
    for (size_t i = 0; i < N; ++i) text[i] = s[i];
  }
};

// True if a __torch_function__ of the object or of an argument, or a mode, takes the call over.
inline bool overridden(PyObject* self, CallArgs call) {
  if (self && function_state.num_modes == 0 && is_exact_tensor(self) && call.n == 0 && !call.kwnames) return false;
  return (self && needs_torch_function(&self, 1)) ||
         needs_torch_function(call.args, call.n + (call.kwnames ? PyTuple_GET_SIZE(call.kwnames) : 0));
}
PyObject* call_method_override(const char* name, PyObject* self, CallArgs call);
PyObject* call_function_override(const char* name, PyObject* module, CallArgs call);

// The C function of a method of Tensor.
template <FixedName N, Implementation F>
PyObject* method_entry(PyObject* self, PyObject* const* args, Py_ssize_t n, PyObject* kwnames) {
  const CallArgs call{args, n, kwnames};
  return guarded([&] { return overridden(self, call) ? call_method_override(N.text, self, call) : F(self, call); });
}
// The C function of a function of the module.
template <FixedName N, Implementation F>
PyObject* function_entry(PyObject* module, PyObject* const* args, Py_ssize_t n, PyObject* kwnames) {
  const CallArgs call{args, n, kwnames};
  return guarded(
      [&] { return overridden(nullptr, call) ? call_function_override(N.text, module, call) : F(module, call); });
}
template <class F>
PyCFunction as_c_function(F* f) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(f));
}

// Keeps the text of a name alive for ever.
template <FixedName N>
inline constexpr FixedName kStoredName = N;
template <FixedName N, Implementation F>
PyMethodDef method(const char* doc = nullptr) {
  return {kStoredName<N>.text, as_c_function(&method_entry<N, F>), METH_FASTCALL | METH_KEYWORDS, doc};
}
template <FixedName N, Implementation F>
PyMethodDef function(const char* doc = nullptr) {
  return {kStoredName<N>.text, as_c_function(&function_entry<N, F>), METH_FASTCALL | METH_KEYWORDS, doc};
}

}  // namespace tessera::python
