// Operators as Python callables: one vectorcall path for all of them, driven by the registry's tables.
#pragma once

#include <memory>
#include <vector>

#include "python/bindings/args.h"
#include "python/bindings/common.h"

namespace tessera::python {

// One overload of a callable; the plan is compiled at the first call that gets to it.
class Overload {
 public:
  explicit Overload(const OpInfo* info) : info_(info) {}
  const OpInfo& info() const { return *info_; }
  const ParsePlan& plan() {
    if (!plan_) plan_ = std::make_unique<ParsePlan>(*info_);
    return *plan_;
  }
  PyTypeObject* result_type();  // the named tuple of several named results, or null

 private:
  const OpInfo* info_;
  std::unique_ptr<ParsePlan> plan_;
  PyTypeObject* result_type_ = nullptr;
};

struct OpFunction {
  PyObject_HEAD vectorcallfunc vectorcall;
  PyObject* name;    // str: "add"
  PyObject* module;  // str: "torch", "torch._C._nn", or null for methods
  bool is_method;
  bool ordered;  // the overloads are in the order of order_overloads (at the first call)
  std::vector<std::unique_ptr<Overload>>* overloads;
  PyObject* dict;
};
extern PyTypeObject OpFunctionType;  // functions: do not bind
extern PyTypeObject OpMethodType;    // method descriptors of Tensor

// A new callable; overloads in the order they are tried.
PyObject* make_op_function(const char* name, const char* module, bool is_method, std::vector<const OpInfo*> overloads);
// Calls with ready values; converts the results. plan may be of any overload.
PyObject* call_overload(Overload& overload, Value* values, bool requires_grad);
// Results (already boxed) as Python objects.
PyObject* results_to_python(Overload& overload, Value* rets, size_t count);

// Fills the modules and the Tensor type with a callable for each op of the registries; makes `return_types`.
void init_operators(PyObject* module);
// nb_add and the others: the same path, by the name of the method.
void add_number_slots(std::vector<PyType_Slot>& slots);
// Whether it is the type of an operator's several results.
bool is_result_type(PyTypeObject* type);
// All ops of all linked registries.
const std::vector<const OpInfo*>& all_ops();
const OpInfo* find_op(std::string_view qualified_name);  // "aten::add.Tensor"

}  // namespace tessera::python
