// A view operator with its arguments, to be called again on another tensor.
#pragma once

#include <vector>

#include "tensor/dispatch/registry.h"

// Symbols are Python's: numbers that are not known, beside the plain ones that stand for them. Defined by the binding,
// null in programs without it.
namespace tessera::internal {
// What the call of `op` under way was given as symbols, {position: symbol}; null if there are none.
[[gnu::weak]] IntrusivePtr<RefCounted> symbols_of(const OpHeader& op);
// The same for the next call of `op`, with positions from 1 on moved by `shift`.
[[gnu::weak]] void give_symbols(const OpHeader& op, const RefCounted& symbols, int64_t shift);
// The next call of `op` has the sizes of a tensor as its argument 1: where these are symbols, they are.
[[gnu::weak]] void give_sizes(const OpHeader& op, const Tensor& like);
}  // namespace tessera::internal

namespace tessera::func {

using Symbols = IntrusivePtr<RefCounted>;
inline Symbols symbols_of(const OpHeader& op) { return &internal::symbols_of ? internal::symbols_of(op) : Symbols(); }
inline void give_symbols(const OpHeader& op, const Symbols& symbols, int64_t shift = 0) {
  if (symbols) internal::give_symbols(op, *symbols, shift);
}

struct ViewCall {
  const OpHeader* op;
  std::vector<Value> args;  // the first one is the tensor that is viewed: not kept
  size_t num_rets;
  size_t output = 0;  // which of the results, or which element of the list
  bool is_list = false;
  Symbols symbols;  // among the arguments

  ViewCall(const OpHeader& op, const Value* args, size_t n, size_t num_rets) : op(&op), num_rets(num_rets) {
    for (size_t i = 0; i < n; ++i) this->args.push_back(i == 0 ? Value() : args[i]);  // copies own what they name
  }
  Tensor again(const Tensor& of) const {
    std::vector<Value> given = args, rets(num_rets);
    given[0] = Value::of(Tensor(of));
    give_symbols(*op, symbols);
    op->info->adapter->call(*op, nullptr, given.data(), rets.data());
    return is_list ? rets[0].tensor_list()[output] : rets[output].tensor();
  }
};

}  // namespace tessera::func
