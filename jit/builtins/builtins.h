// The operators of this library, in parts.
#pragma once

#include <span>

#include "jit/operator.h"

namespace tessera::jit {

// On two numbers of any kinds. result: 'p' the wider kind, 'b' a bool, 'f' at least a float.
struct ArithmeticEntry {
  const char* name;
  Builtin function;
  char result;
  bool complex;
};
std::span<const ArithmeticEntry> arithmetic_entries();
bool needs_conversion(const OpArg& a);

// Shapes and numbers of nested lists as a tensor: aten::tensor.
Tensor tensor_from(const Value& data, const Value& dtype, const Value& device, bool requires_grad);
int64_t wrap_index(int64_t i, size_t n, const char* what);

#define TESSERA_BUILTIN(...)                                   \
  [](const Value* a, size_t n, Value* r, const Operator& op) { \
    (void)a, (void)n, (void)r, (void)op;                       \
    __VA_ARGS__;                                               \
  }

}  // namespace tessera::jit
