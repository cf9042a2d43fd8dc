// Fake tensors: the metadata of a tensor of any device over no memory. What an operator does to them is told by its
// Meta kernel.
#pragma once

#include <functional>
#include <optional>

#include "python/bindings/common.h"
#include "tensor/dispatch/registry.h"

namespace tessera::python {

// Handles a call at the Python key if it is one of fake tensors alone. `top` is the innermost __torch_dispatch__ mode
// or null; `symbols` (null: none) the arguments that were given as symbols, by position. False: somebody else has to
// (other modes, other subclasses).
bool fake_dispatch(PyObject* top, const OpHeader& op, const Value* args, size_t num_args, Value* rets, size_t num_rets,
                   PyObject* symbols);
// A composite operator of symbols or of tensors with symbolic sizes: below it only plain numbers would be seen, so the
// fake mode takes it as a whole. False: it is none.
bool symbolic_composite(PyObject* top, const OpHeader& op, const Value* args, size_t num_args, Value* rets,
                        size_t num_rets, PyObject* symbols);
// The symbols that the call under way was given for this operator, {position: object}; taken by the first who asks.
Ref take_symbols(const OpHeader& op);

// The error of a kernel that wanted to read the values of a fake tensor; refuse_values throws what says so in Python's
// terms: DataDependentOutputException.
bool reads_fake_tensors(const Error& e);
[[noreturn]] void refuse_values(const OpHeader& op);

// The Python type of the object of a tensor that has none yet: FakeTensor for fake ones, null for others.
PyTypeObject* fake_type_of(const TensorImpl& impl);
// make(device), a tensor of a program's data; under a FakeTensorMode its fake twin, which knows the values. A mode that
// has a method `_lifted` is told of it.
Tensor lifted(std::optional<Device> device, const std::function<Tensor(std::optional<Device>)>& make);

// The number of a tensor of one element as a program asks for it: modes of __torch_dispatch__ see the question, but for
// those of fake tensors, which look after their own.
bool modes_see_values();
Scalar value_of(const Tensor& t);

// Sizes with symbols: the object that a fake tensor carries for them (borrowed), or null.
PyObject* symbolic_shape_of(const TensorImpl& impl);
// Its method `name`, with an argument or without (null).
PyObject* ask_symbolic_shape(PyObject* shape, const char* name, PyObject* argument);
// A fake tensor of a mode with symbols: indices are read in Python.
bool indexed_in_python(const TensorImpl& impl);
PyObject* index_in_python(const char* function, PyObject* self, PyObject* index, PyObject* value);

// The operator that the program called last: the numbers that another one is given were made in C++.
extern thread_local constinit const OpHeader* called_operator TESSERA_TLS;

// SymInt, SymFloat, SymBool.
bool is_symbolic_number(PyObject* o);
// A number that a handler returned for `op` as a symbol: the plain one. The symbol is kept for who wants it.
Ref plain_result(const OpHeader& op, PyObject* symbol);
// While this lives, the symbol that stands for the result of `op` is kept, and taken by take().
class WantSymbol {
 public:
  explicit WantSymbol(const OpHeader* op);
  ~WantSymbol();
  WantSymbol(const WantSymbol&) = delete;
  Ref take();

 private:
  const OpHeader* outer_;
  Ref kept_;
};

void init_fake(PyObject* module);

}  // namespace tessera::python
