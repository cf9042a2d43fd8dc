// vmap: what a call with batched arguments becomes. The families of rules, and what written rules are made of.
#pragma once

#include <vector>

#include "func/rules/plan.h"
#include "func/wrapper.h"

namespace tessera::func {

// The innermost level is a vmap and takes this call.
void run_batched(const OpHeader& op, const Plan& plan, std::span<const Value> args, Value* rets, size_t num_rets);

// An argument without its wrapper: the value, and where the batch is in it (-1: nowhere).
struct Part {
  Tensor value;
  int64_t batch_dim = -1;
  bool defined() const { return value.defined(); }
  bool batched() const { return batch_dim >= 0; }
  int64_t rank() const { return value.dim() - batched(); }  // as the function sees it
};
Part part_of(const Tensor& t, int64_t level);
inline Part part(const BatchCall& c, size_t i) { return part_of(c.args[i].tensor(), c.level); }
bool has_batch(const Value& v, int64_t level);

// With the batch in front: moved there (a view), or expanded if there is none.
Tensor in_front(const Part& p, int64_t batch);
// The same with dimensions of size one behind the batch up to `rank` dimensions; without a batch as it is.
Tensor in_front_padded(const Part& p, int64_t rank);
// Batch and dimension `dim` as one, the batch outside: (..., batch * size, ...). unfolded() gives (..., batch, size,
// ...).
Tensor folded(const Part& p, int64_t batch, int64_t dim = 0);
Tensor unfolded(const Tensor& t, int64_t batch, int64_t dim = 0);

// Calls the operator itself with other arguments, outside of the level.
void call_outside(const BatchCall& c, const std::vector<Value>& args, Value* rets);
inline std::vector<Value> copy_args(const BatchCall& c) { return {c.args.begin(), c.args.end()}; }
inline void put(const BatchCall& c, size_t i, const Tensor& value, int64_t batch_dim) {
  c.rets[i] = Value::of(value.defined() ? make_batched(value, batch_dim, c.level) : value);
}
// All results have their batch in front.
void wrap_results(const BatchCall& c);
// An in-place form gives back the argument that it wrote.
bool return_written(const BatchCall& c);
// Rules from elsewhere, asked for operators that are not the library's own before their schema is: false if there is
// none. Runs inside of the level; from any thread.
using ForeignRule = bool (*)(const BatchCall&);
void set_foreign_rules(ForeignRule rules);
// One call for each element of the batch.
void run_loop(const BatchCall& c);

}  // namespace tessera::func
