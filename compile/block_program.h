// Elementwise operators one after the other over blocks that stay in the first-level cache.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "tensor/core/tensor.h"

namespace tessera {
struct PointwiseOp;  // tensor/cpu/pointwise/pointwise.h
}

namespace tessera::compile {

// What a call of an operator is to the elementwise engine.
struct PointwiseCall {
  const PointwiseOp* op;
  std::vector<int> inputs;  // which tensor of the call; ~k: numbers[k]
  std::vector<Scalar> numbers, params;
};
// The call that an operator makes of so many tensors of the same floating dtype and shape: `run` gets such tensors on
// Meta. Nothing where it makes another number of calls, returns something else or raises.
std::optional<PointwiseCall> observe(const std::function<Tensor(std::span<const Tensor>)>& run, size_t tensors);

// A program over tensors of one dtype, float32 or float64, and shape. Results have the bits that the operators give one
// by one.
class BlockProgram {
 public:
  // Values are numbered as they are added. Tensor k of the call; of `parts` equal pieces of its last dimension the
  // one numbered `part`. A tensor without dimensions beside others with some is a number.
  int input(int tensor, int part = 0, int parts = 1);
  int number(const Scalar& s);
  int call(const PointwiseCall& call, std::span<const int> tensors);
  void output(int value) { outputs_.push_back(value); }
  // After the last value: where values lie.
  void finish();

  size_t calls() const { return calls_; }
  // False: the tensors, or the modes of this thread, are of another kind, and nothing was done. `results` has a tensor
  // for each output.
  bool run(std::span<const Tensor* const> tensors, Tensor* results) const;

 private:
  struct Value {
    const PointwiseOp* op = nullptr;  // null: an input or a number
    int tensor = -1, part = 0, parts = 1;
    double constant = 0;
    std::vector<int> inputs;
    std::vector<double> params;
    int slot = -1;    // of scratch memory
    int result = -1;  // or the output that it is
  };
  struct Call;
  bool prepare(std::span<const Tensor* const> tensors, Call* c) const;

  std::vector<Value> values_;
  std::vector<int> outputs_;
  int slots_ = 0;
  size_t calls_ = 0;
};

}  // namespace tessera::compile
