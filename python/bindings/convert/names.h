// Named dimensions: what Python gives and gets, and calls that mention names.
#pragma once

#include "python/bindings/common.h"
#include "tensor/core/tensor.h"

namespace tessera::python {

// A tuple with the name, or None, of each dimension.
PyObject* names_of_tensor(const Tensor& t);
// Gives t the names of a sequence of strings and None; None takes them away. TypeError, or what named::set_names
// throws.
// refine: names that t has already must be the same.
void give_names(const Tensor& t, PyObject* names, bool refine = false);
// Gives `to`, of the same shape, the names of `from` if that has any.
void keep_names(const Tensor& from, const Tensor& to);
// A call that no overload took. Where it has names among its arguments, `tessera._named` finds what it means;
// null where that is not so.
PyObject* call_with_names(PyObject* callable, PyObject* const* args, Py_ssize_t num_positional, PyObject* kwnames);
// t[index] of a named tensor.
PyObject* named_getitem(PyObject* self, PyObject* index);
// The dimension that a hand-written method was given: an integer, or a name.
int64_t dim_arg(const char* function, const Tensor& t, PyObject* o);

void init_names(PyObject* module);

}  // namespace tessera::python
