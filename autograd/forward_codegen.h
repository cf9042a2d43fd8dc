// What generated kernels of the key Forward call. Everything here is out of line or tiny: hundreds of kernels are made
// of these calls.
//
// A generated kernel, for `mul.Tensor` (gradients grad * other.conj(), grad * self.conj()):
//
//   Tensor mul_Tensor(CallContext ctx, const Tensor& self, const Tensor& other) {
//     forward::Scope fw_;
//     const Tensor self_t = fw_.tangent(self);
//     const Tensor other_t = fw_.tangent(other);
//     Tensor result_ = op::mul_Tensor.redispatch(forward::below(ctx.keys), self, other);
//     if (fw_.any()) {
//       Tensor sum_;
//       if (self_t.defined()) {
//         const Tensor grad = conj_of(self_t);
//         forward::add(sum_, conj_of(grad * conj_of(other)));
//       }
//       ...
//       fw_.put(result_, sum_);
//     }
//     return result_;
//   }
//
// Rules run with the key Forward excluded and everything else as it was: they see plain values, and are recorded for
// backward if those are. An undefined tangent is zero.
#pragma once

#include <array>
#include <functional>
#include <initializer_list>
#include <tuple>
#include <vector>

#include "autograd/tangent.h"
#include "tensor/dispatch/op.h"

namespace tessera::autograd::forward {

inline DispatchKeySet below(DispatchKeySet keys) { return keys & DispatchKeySet::below(DispatchKey::kForward); }

// False in inference mode and after _set_fwd_grad_enabled(False): tangents are not looked at.
inline bool enabled() { return thread_state.forward_grad_enabled && !thread_state.inference_mode; }

inline bool has_tangent(const Tensor& t) { return tangent_of(t).defined(); }
bool has_tangent(TensorList l);
inline bool has_tangent(const std::optional<TensorList>& l) { return l && has_tangent(*l); }
template <class... T>
bool any(const T&... inputs) {
  return enabled() && (... || has_tangent(inputs));
}
// Error "Trying to use forward AD with add_out that does not support it because it is an out= function".
[[noreturn]] void throw_out(const char* name);
template <class... T>
void refuse_out(const char* name, const T&... arguments) {
  if (any(arguments...)) throw_out(name);
}

// One call of a kernel: keeps Forward out of what it calls, and gathers the inputs' tangents.
class Scope : ExcludeKeys {
 public:
  Scope() : ExcludeKeys(DispatchKey::kForward) {}
  Tensor tangent(const Tensor& t);
  // The same of what an in-place form overwrites, its tangent with it: safe to be saved for backward.
  Tensor overwritten_tangent(const Tensor& t);
  std::vector<Tensor> tangents(TensorList l);  // empty if none has one
  std::vector<Tensor> tangents(const std::optional<TensorList>& l);
  // For view functions: memory that stands for the tangent of t's memory.
  Tensor view_tangent(const Tensor& t);
  bool any() const { return static_cast<bool>(level_); }

  // The tangent of a result: brought to its shape and dtype. Integer results have none.
  void put(const Tensor& result, const Tensor& tangent) const;
  void put_view(const Tensor& view, const Tensor& tangent) const;
  void put_view(const std::vector<Tensor>& views, const std::vector<Tensor>& tangents) const;
  // For in-place forms: of what was overwritten; and of what got another shape over the same memory.
  void write(const Tensor& self, const Tensor& tangent) const;
  void write(TensorList self, const Tensor& tangent) const;
  void replace(const Tensor& self, const Tensor& tangent) const;

 private:
  Tensor own(const Tensor& tangent) const;  // a copy if it lies in memory that an input's tangent is written in

  IntrusivePtr<TangentLevel> level_;
  std::vector<Tensor> followed_;
};

// What an in-place form is about to overwrite, with its history.
Tensor original(const Tensor& self);

// sum += term; undefined is zero.
void add(Tensor& sum, const Tensor& term);
template <size_t N>
void add(std::array<Tensor, N>& sums, const Tensor& term) {
  add(sums[0], term);
}
template <size_t N, class Terms>
requires requires { std::tuple_size<Terms>::value; }
void add(std::array<Tensor, N>& sums, const Terms& terms) {
  [&]<size_t... I>(std::index_sequence<I...>) { (add(sums[I], std::get<I>(terms)), ...); }
  (std::make_index_sequence<std::tuple_size_v<Terms>>());
}
void add(std::vector<Tensor>& sums, const std::vector<Tensor>& terms);

inline bool any_defined(const std::vector<Tensor>& l) { return !l.empty(); }
inline bool any_defined(const Tensor& t) { return t.defined(); }
// The tangent, or zeros that take no memory where it is missing.
Tensor or_zeros(const Tensor& tangent, const Tensor& like);
std::vector<Tensor> or_zeros(const std::vector<Tensor>& tangents, TensorList like);

// The product of the Jacobian with the tangents for operators without a rule: the gradient for a gradient v that comes
// in is linear in v, so its derivative along the tangents is it. f: the operator, over the inputs. Gives one tangent
// per result.
std::vector<Tensor> twice_backward(std::vector<Tensor> inputs, const std::vector<Tensor>& tangents,
                                   const std::function<std::vector<Tensor>(const std::vector<Tensor>&)>& f);
inline std::vector<Tensor> results(Tensor&& t) { return {std::move(t)}; }
template <class... T>
std::vector<Tensor> results(std::tuple<T...>&& t) {
  return std::apply([](auto&&... e) { return std::vector<Tensor>{std::move(e)...}; }, std::move(t));
}

}  // namespace tessera::autograd::forward
