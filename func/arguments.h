// The tensors among boxed arguments.
#pragma once

#include <vector>

#include "tensor/dispatch/value.h"

namespace tessera::func {

// f(tensor, argument, element of the list) -> bool for every tensor, until it is true.
template <class F>
bool any_tensor_at(const Value* args, size_t n, F f) {
  for (size_t i = 0; i < n; ++i) {
    if (args[i].is_tensor()) {
      if (args[i].tensor().defined() && f(args[i].tensor(), i, size_t{0})) return true;
    } else if (args[i].is_tensor_list()) {
      const TensorList list = args[i].tensor_list();
      for (size_t k = 0; k < list.size(); ++k)
        if (list[k].defined() && f(list[k], i, k)) return true;
    }
  }
  return false;
}
// f(tensor) -> bool for every tensor, until it is true.
template <class F>
bool any_tensor(const Value* args, size_t n, F f) {
  return any_tensor_at(args, n, [&](const Tensor& t, size_t, size_t) { return f(t); });
}
template <class F>
void each_tensor(const Value* args, size_t n, F f) {
  any_tensor_at(args, n, [&](const Tensor& t, size_t i, size_t k) {
    f(t, i, k);
    return false;
  });
}

// The value with every tensor of it replaced by f(tensor); undefined ones stay.
template <class F>
Value map_tensors(const Value& v, F f) {
  if (v.is_tensor()) return v.tensor().defined() ? Value::of(Tensor(f(v.tensor()))) : v;
  if (!v.is_tensor_list()) return v;
  std::vector<Tensor> list;
  for (const Tensor& t : v.tensor_list()) list.push_back(t.defined() ? Tensor(f(t)) : Tensor());
  return Value::of(std::move(list));
}
template <class F>
std::vector<Value> map_tensors(const Value* args, size_t n, F f) {
  std::vector<Value> out;
  out.reserve(n);
  for (size_t i = 0; i < n; ++i) out.push_back(map_tensors(args[i], f));
  return out;
}

inline Tensor tensor_at(const Value& v, size_t element) {
  return v.is_tensor_list() ? v.tensor_list()[element] : v.tensor();
}
inline void put_tensor(Value& v, size_t element, const Tensor& t) {
  if (!v.is_tensor_list()) {
    v = Value::of(Tensor(t));
    return;
  }
  std::vector<Tensor> list(v.tensor_list().begin(), v.tensor_list().end());
  list[element] = t;
  v = Value::of(std::move(list));
}

}  // namespace tessera::func
