// cpu_kernel(iter, [](float a, float b) { return a + b; }): a function of elements over a TensorIterator.
#pragma once

#include <tuple>
#include <utility>

#include "ATen/TensorIterator.h"

namespace at::native {

namespace loops_detail {
template <class F>
struct Signature : Signature<decltype(&F::operator())> {};
template <class R, class... A>
struct Signature<R (*)(A...)> {
  using Result = R;
  using Arguments = std::tuple<std::remove_cvref_t<A>...>;
};
template <class C, class R, class... A>
struct Signature<R (C::*)(A...)> : Signature<R (*)(A...)> {};
template <class C, class R, class... A>
struct Signature<R (C::*)(A...) const> : Signature<R (*)(A...)> {};

template <class T>
void check_type(const TensorIteratorBase& iter, int i) {
  constexpr ScalarType wanted = c10::CppTypeToScalarType<T>::value;
  TORCH_INTERNAL_ASSERT(iter.dtype(i) == wanted, "operand ", i, " is of type ", iter.dtype(i),
                        ", but the function takes ", wanted);
}
// One call of op for each element; Outs: the types of the results, in a tuple if there are several.
template <class F, class... Out, class... In, size_t... O, size_t... I>
void run(TensorIteratorBase& iter, const F& op, int64_t grain, std::tuple<Out...>*, std::tuple<In...>*,
         std::index_sequence<O...>, std::index_sequence<I...>) {
  constexpr size_t outs = sizeof...(Out);
  TORCH_INTERNAL_ASSERT(iter.noutputs() == static_cast<int>(outs) && iter.ninputs() == static_cast<int>(sizeof...(In)),
                        "the function takes ", sizeof...(In), " and gives ", outs, " elements, but the iterator has ",
                        iter.ninputs(), " inputs and ", iter.noutputs(), " outputs");
  (check_type<Out>(iter, static_cast<int>(O)), ...);
  (check_type<In>(iter, static_cast<int>(outs + I)), ...);
  const auto loop = [&](char** data, const int64_t* steps, int64_t n) {
    for (int64_t k = 0; k < n; ++k) {
      const auto call = [&] { return op(*reinterpret_cast<In*>(data[outs + I] + k * steps[outs + I])...); };
      if constexpr (outs == 0) {
        call();
      } else if constexpr (outs == 1) {
        ((*reinterpret_cast<Out*>(data[O] + k * steps[O]) = call()), ...);
      } else {
        const auto results = call();
        ((*reinterpret_cast<Out*>(data[O] + k * steps[O]) = std::get<O>(results)), ...);
      }
    }
  };
  if (grain > 0)
    iter.for_each(loop, grain);
  else if (iter.numel())
    iter.serial_for_each(loop, {0, iter.numel()});
  iter.cast_outputs();
}
template <class R>
struct Outs {
  using type = std::tuple<R>;
};
template <>
struct Outs<void> {
  using type = std::tuple<>;
};
template <class... T>
struct Outs<std::tuple<T...>> {
  using type = std::tuple<T...>;
};
template <class F>
void run(TensorIteratorBase& iter, const F& op, int64_t grain) {
  using S = Signature<std::decay_t<F>>;
  using O = typename Outs<typename S::Result>::type;
  using I = typename S::Arguments;
  run(iter, op, grain, static_cast<O*>(nullptr), static_cast<I*>(nullptr),
      std::make_index_sequence<std::tuple_size_v<O>>(), std::make_index_sequence<std::tuple_size_v<I>>());
}
}  // namespace loops_detail

template <class F>
void cpu_kernel(TensorIteratorBase& iter, F&& op, int64_t grain = at::internal::GRAIN_SIZE) {
  loops_detail::run(iter, op, grain);
}
template <class F>
void cpu_kernel_multiple_outputs(TensorIteratorBase& iter, F&& op, int64_t grain = at::internal::GRAIN_SIZE) {
  loops_detail::run(iter, op, grain);
}
// On the caller's thread, in order.
template <class F>
void cpu_serial_kernel(TensorIteratorBase& iter, F&& op) {
  loops_detail::run(iter, op, 0);
}

}  // namespace at::native
