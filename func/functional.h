// functionalize: functions that change tensors in place, run on operators that do not. At a level of kind kFunctional a
// tensor is a value and the memory that it stands for; a write makes a new value of that memory, which the tensors that
// share it take over when they are next asked. The same below autograd, where no transform is: tensors of to_functional
// have the key Functionalize, whose kernel for all operators does it.
#pragma once

#include <set>
#include <string_view>
#include <vector>

#include "func/levels.h"
#include "func/wrapper.h"
#include "tensor/dispatch/op.h"

namespace tessera::func {

// The arguments of a function as the level sees them: the same tensor given twice is one there.
std::vector<Tensor> functional_arguments(TensorList given, int64_t level);
// What a tensor of the level holds now, outside of it. While the level is the innermost one.
Tensor functional_value(const Tensor& t, int64_t level);
// Writes to the arguments what the function wrote to `seen`, the tensors that stood for them. After the level. Errors,
// before anything is written: another shape, memory that several arguments share.
void write_back(TensorList given, TensorList seen);

// The innermost level is one of functionalize and takes this call.
void run_functional(const OpHeader& op, const Value* args, size_t n, Value* rets, size_t num_rets);

// --- below autograd ---

void register_at_key();
// The tensor as a functional one; functional_value(t, kAtKey) is what it holds. Error if it is one.
Tensor to_functional(const Tensor& t);
// Of a functional tensor: how often its memory was written to, and how many views lie between the two.
struct Functional {
  int64_t writes;
  size_t views;
};
Functional functional_state(const Tensor& t);
// A functional tensor in the shape that it had when only `count` views lay between it and its memory, by operators on
// the tensor itself.
Tensor before_reshapes(const Tensor& t, size_t count);
// Writes `value` to it, and so to what shares its memory.
void replace_functional(const Tensor& t, const Tensor& value);
// From now on this thread's operators without tensors, too, make functional ones. Returns whether it was so.
bool include_functional(bool on, bool removes_views);

// Composite operators that layers on this thread (this one, and __torch_dispatch__) get as one call, as long as nobody
// wants a derivative. Null: none. Returns what it was; the set is the caller's.
const std::set<const OpHeader*>* keep_whole(const std::set<const OpHeader*>* ops);
bool stays_whole(const OpHeader& op, const Value* args, size_t n);

}  // namespace tessera::func
