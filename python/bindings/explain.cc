#include "python/bindings/explain.h"

#include <bit>

#include "jit/tracer.h"
#include "python/bindings/calls.h"
#include "python/bindings/operators.h"
#include "tensor/cpu/support/simd.h"
#include "tensor/dispatch/runtime.h"

namespace tessera::python {
namespace {

DispatchKeySet keys_of(const Value* values, size_t n) {
  DispatchKeySet keys;
  for (size_t i = 0; i < n; ++i) {
    if (values[i].is_tensor()) keys |= internal::keys_of_arg(values[i].tensor());
    if (values[i].is_tensor_list()) keys |= internal::keys_of_arg(values[i].tensor_list());
  }
  return keys;
}

void put(const Ref& dict, const char* name, Ref value) { check(PyDict_SetItemString(dict.get(), name, value.get())); }
void put(const Ref& dict, const char* name, const char* text) { put(dict, name, to_python_string(text ? text : "")); }

Ref key_names(DispatchKeySet keys) {
  Ref list = Ref::steal(check(PyList_New(0)));
  for (uint64_t bits = keys.bits(); bits;) {
    const int k = 63 - std::countl_zero(bits);
    check(PyList_Append(list.get(), to_python_string(key_name(static_cast<DispatchKey>(k))).get()));
    bits &= ~(uint64_t{1} << k);
  }
  return list;
}

PyObject* describe(const OpInfo& info, DispatchKeySet from_tensors) {
  Ref d = Ref::steal(check(PyDict_New()));
  const DispatchKeySet keys = DispatchKeySet::from_bits(
      (from_tensors.bits() | info.op->forced_keys | thread_state.included) & ~thread_state.excluded);
  put(d, "schema", info.schema());
  put(d, "rule", info.rule());
  put(d, "source", info.source().c_str());
  put(d, "tags", info.tags());
  put(d, "simd", cpu::simd_level_name());
  put(d, "keys", key_names(keys));
  put(d, "keys_of_tensors", key_names(from_tensors));
  Ref steps = Ref::steal(check(PyList_New(0)));
  for (const Step& s : explain_dispatch(*info.op, keys)) {
    Ref pair = Ref::steal(check(Py_BuildValue("(ss)", key_name(s.key), s.what)));
    check(PyList_Append(steps.get(), pair.get()));
  }
  put(d, "steps", steps);
  return d.release();
}

// _explain(callable, args, kwargs): which overload the arguments choose, and its way. None for a callable that is no
// operator.
PyObject* py_explain(PyObject*, PyObject* const* given, Py_ssize_t n, PyObject*) {
  return guarded([&]() -> PyObject* {
    if (n != 3 || !PyTuple_Check(given[1]) || !PyDict_Check(given[2]))
      throw TypeError("_explain(callable, args, kwargs)");
    if (Py_TYPE(given[0]) != &OpFunctionType && Py_TYPE(given[0]) != &OpMethodType) return none();
    auto* f = reinterpret_cast<OpFunction*>(given[0]);
    std::vector<PyObject*> args;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(given[1]); ++i) args.push_back(PyTuple_GET_ITEM(given[1], i));
    const auto positional = static_cast<Py_ssize_t>(args.size());
    Ref names = Ref::steal(check(PySequence_Tuple(given[2])));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names.get()); ++i)
      args.push_back(PyDict_GetItem(given[2], PyTuple_GET_ITEM(names.get(), i)));
    Ref tried = Ref::steal(check(PyList_New(0)));
    for (auto& overload : *f->overloads) {
      const ParsePlan& plan = overload->plan();
      std::vector<Value> values(plan.params().size());
      bool requires_grad = false;
      if (plan.parse(args.data(), positional, PyTuple_GET_SIZE(names.get()) ? names.get() : nullptr, values.data(),
                     &requires_grad, nullptr)) {
        Ref d = Ref::steal(describe(overload->info(), keys_of(values.data(), values.size())));
        put(d, "tried", tried);
        return d.release();
      }
      check(PyList_Append(tried.get(), to_python_string(overload->info().schema()).get()));
    }
    throw TypeError("no overload of this operator takes these arguments");
  });
}

// What is registered for every operator: [(schema, python module, python name, rule, source, gradients, constants,
// numbers, tags, forward)]; see OpInfo.
PyObject* py_operator_table(PyObject*, PyObject*) {
  return guarded([&] {
    Ref list = Ref::steal(check(PyList_New(0)));
    for (const OpInfo* i : all_ops()) {
      Ref row = Ref::steal(check(Py_BuildValue("(ssssssssss)", i->schema(), i->python_module(), i->python_name(),
                                               i->rule(), i->source().c_str(), i->gradients(), i->constants(),
                                               i->numbers(), i->tags(), i->forward())));
      check(PyList_Append(list.get(), row.get()));
    }
    return list.release();
  });
}

// The recording of operators as a program that this thread has under way, or None.
PyObject* py_tracing_state(PyObject*, PyObject*) {
  return guarded([&] {
    if (!jit::current_trace()) return none();
    Ref m = Ref::steal(check(PyImport_ImportModule("tessera.jit._trace")));
    return check(PyObject_CallMethod(m.get(), "TracingState", nullptr));
  });
}

}  // namespace

std::vector<PyMethodDef> explain_functions() {
  return {{"_explain", as_c_function(py_explain), METH_FASTCALL | METH_KEYWORDS, nullptr},
          {"_operator_table", py_operator_table, METH_NOARGS, nullptr},
          {"_get_tracing_state", py_tracing_state, METH_NOARGS, nullptr}};
}

}  // namespace tessera::python
