// A view operator with its arguments, to be called again on another tensor.
#pragma once

#include <vector>

#include "tensor/dispatch/registry.h"

namespace tessera::func {

struct ViewCall {
  const OpHeader* op;
  std::vector<Value> args;  // the first one is the tensor that is viewed: not kept
  size_t num_rets;
  size_t output = 0;  // which of the results, or which element of the list
  bool is_list = false;

  ViewCall(const OpHeader& op, const Value* args, size_t n, size_t num_rets) : op(&op), num_rets(num_rets) {
    for (size_t i = 0; i < n; ++i) this->args.push_back(i == 0 ? Value() : args[i]);  // copies own what they name
  }
  Tensor again(const Tensor& of) const {
    std::vector<Value> given = args, rets(num_rets);
    given[0] = Value::of(Tensor(of));
    op->info->adapter->call(*op, nullptr, given.data(), rets.data());
    return is_list ? rets[0].tensor_list()[output] : rets[output].tensor();
  }
};

}  // namespace tessera::func
