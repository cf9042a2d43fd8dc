// Operators on lists of tensors. One mechanism: on a device whose library takes whole lists, plain floating tensors go
// there in one call; all others go through the operator of the same name, one by one, with everything that brings
// (derivatives, promotion, broadcasting, errors).
#pragma once

#include <initializer_list>
#include <span>
#include <vector>

#include "foreach/engine/engines.h"
#include "tensor/core/error.h"
#include "tensor/ops/api.h"

namespace tessera::kernels {

using foreach::ListOp;

// What goes with a list besides tensors: a number for all, one for each, or a tensor of one element.
struct ListNumbers {
  ListNumbers() = default;
  ListNumbers(const Scalar& s) : one(s) {}
  ListNumbers(std::span<const Scalar> s) : each(s), is_each(true) {}
  ListNumbers(const Tensor& t) : tensor(&t) {}
  Scalar one = Scalar(0.0);
  std::span<const Scalar> each;
  bool is_each = false;
  const Tensor* tensor = nullptr;
};

// Throws unless all lists have the first one's length, and as many numbers.
void check_lists(std::initializer_list<TensorList> lists, const ListNumbers& numbers);

// Runs op for the whole of lists[0] (and the operands after it) on a device. False: these tensors are to be taken one
// by one. results: null for in-place forms, which write lists[0].
bool run_list(ListOp op, std::initializer_list<TensorList> lists, const ListNumbers& numbers,
              std::vector<Tensor>* results);
// The same for norms of whole tensors.
bool run_list_norms(TensorList self, const Scalar& ord, std::optional<DType> dtype, std::vector<Tensor>* results);

// Numbers of a packed one-dimensional tensor.
std::vector<Scalar> unpacked(const Tensor& scalars, size_t count);

template <class F>
std::vector<Tensor> list_results(ListOp op, std::initializer_list<TensorList> lists, const ListNumbers& numbers,
                                 F each) {
  check_lists(lists, numbers);
  std::vector<Tensor> results;
  if (run_list(op, lists, numbers, &results)) return results;
  const size_t n = lists.begin()->size();
  results.reserve(n);
  for (size_t i = 0; i < n; ++i) results.push_back(each(i));
  return results;
}
template <class F>
void list_in_place(ListOp op, std::initializer_list<TensorList> lists, const ListNumbers& numbers, F each) {
  check_lists(lists, numbers);
  if (run_list(op, lists, numbers, nullptr)) return;
  for (size_t i = 0; i < lists.begin()->size(); ++i) each(i);
}

template <class F>
std::vector<Tensor> list_each(TensorList self, F f) {
  check_lists({self}, {});
  std::vector<Tensor> results;
  for (const Tensor& t : self) results.push_back(f(t));
  return results;
}
std::vector<Tensor> list_norms(TensorList self, const Scalar& ord, std::optional<DType> dtype);
std::vector<Tensor> list_power_sums(TensorList self, const Scalar& ord, std::optional<DType> dtype);
std::vector<Tensor> list_products(TensorList self, TensorList mat2);
std::vector<Scalar> negated(std::span<const Scalar> scalars);

}  // namespace tessera::kernels
