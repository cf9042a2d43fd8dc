#include "python/bindings/jit/traced.h"

#include "python/bindings/jit/jit.h"
#include "python/bindings/tensor_type.h"
#include "python/bindings/types.h"

namespace tessera::python {

PyObject* traced_size(jit::Tracer& trace, const Tensor& t, int64_t dim) {
  return trace.knows(t) ? wrap(trace.size(t, dim)) : PyLong_FromLongLong(t.size(dim));
}
PyObject* traced_numel(jit::Tracer& trace, const Tensor& t) {
  return trace.knows(t) ? wrap(trace.numel(t)) : PyLong_FromLongLong(t.numel());
}
PyObject* traced_shape(jit::Tracer& trace, const Tensor& t) {
  Ref shape = Ref::steal(check(SizeType->tp_alloc(SizeType, static_cast<Py_ssize_t>(t.dim()))));
  for (int64_t d = 0; d < t.dim(); ++d) PyTuple_SET_ITEM(shape.get(), d, check(traced_size(trace, t, d)));
  return shape.release();
}

void add_sources(int argument, PyObject* o, std::vector<jit::NumberSource>* to) {
  if (is_tensor(o)) return to->push_back({argument, -1, unwrap(o)});
  if (!PyTuple_Check(o) && !PyList_Check(o)) return;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(o); ++i)
    if (PyObject* e = PySequence_Fast_GET_ITEM(o, i); is_tensor(e))
      to->push_back({argument, static_cast<int>(i), unwrap(e)});
}

void warn_of_trace(const char* kind, const char* what) {
  GilAcquire gil;
  Ref f = Ref::steal(jit_host("trace_warning"));
  check(Ref::steal(PyObject_CallFunction(f.get(), "ss", kind, what)).get());
}

}  // namespace tessera::python
