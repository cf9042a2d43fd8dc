// The linear part of a computation, to be run again with other numbers (linearize). At a level of kind kTape operators
// on the tape's tensors are noted down; all else is a constant to them.
#pragma once

#include <vector>

#include "tensor/core/tensor.h"
#include "tensor/dispatch/op.h"
#include "tensor/dispatch/value.h"

namespace tessera::func {

class Tape final : public RefCounted {
 public:
  // Tensors of the tape have numbers, in the order in which they are made; inputs come first.
  int64_t new_tensor() { return num_tensors_++; }

  // One argument that is a tensor of the tape, or one element of a list of tensors.
  struct Place {
    size_t argument;
    size_t element;  // 0 for a tensor
    int64_t tensor;
  };
  struct Call {
    const OpHeader* op;
    std::vector<Value> args;  // the constants
    std::vector<Place> places;
    std::vector<std::vector<int64_t>> results;  // for each result its tensor, or those of a list; -1: undefined
  };
  // A tensor that calls use as it is now.
  void keep_constant(const Tensor& t);
  void note(Call call) { calls_.push_back(std::move(call)); }

  // A constant was written to since: the calls would give something else.
  bool is_stale() const;
  // The tensors `wanted` for these inputs. Error if stale.
  std::vector<Tensor> replay(std::vector<Tensor> inputs, const std::vector<int64_t>& wanted) const;

 private:
  struct Constant {
    Tensor tensor;
    uint32_t version;
  };
  std::vector<Call> calls_;
  std::vector<Constant> constants_;
  int64_t num_tensors_ = 0;
};

// A new input of the tape of this level, with a value in the same form.
Tensor on_tape(const Tensor& value, int64_t level);
// The innermost level is a tape and takes this call.
void run_on_tape(const OpHeader& op, const Value* args, size_t n, Value* rets, size_t num_rets);

}  // namespace tessera::func
