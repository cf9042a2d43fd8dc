// Function transforms over C++ callables.
//
//   Tensor g = func::grad([](const Tensor& x) { return x.sin().sum(); })(x);
//   Tensor d = func::vmap([](const Tensor& a, const Tensor& b) { return dot(a, b); })(xs, ys);
//
// They nest, with each other and with ordinary autograd around them: what the functions capture is constant to the
// transform, and has its own history outside of it.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <utility>

#include "func/levels.h"
#include "func/wrapper.h"

namespace tessera::func {

// --- what the transforms are made of; the binding uses the same ---

// The last step inside of a level of grad: outputs that are views of what was written since get the history of the
// write (it is made by running view operators on tensors of the level). True if one of the level's values has a history
// outside of it.
bool settle_histories(TensorList outputs, int64_t level);
// The size of dimension `dim` (negative: from the end). ValueError "... dim out of range".
int64_t batch_size_of(const Tensor& t, int64_t dim);
// The tensor as the level sees it: without dimension `dim`.
Tensor add_batch_dim(const Tensor& t, int64_t dim, int64_t level);
// Back, with the batch at `dim`; expanded if the function's result did not depend on the batch.
Tensor remove_batch_dim(const Tensor& t, int64_t dim, int64_t level, int64_t batch_size);
// A tensor that the level of a grad watches.
Tensor watched(const Tensor& t, int64_t level);
// A tensor of the level of a jvp with its tangent. Errors: those of forward_ad::make_dual.
Tensor dual(const Tensor& t, const Tensor& tangent, int64_t level);
// (value, tangent) of what the level made, outside of it; the tangent is undefined if there is none. Before it ends.
std::pair<Tensor, Tensor> split_dual(const Tensor& t, int64_t level);
// What the level made of a value, outside of it.
Tensor outside_of(const Tensor& t, int64_t level);
// The gradients of sum(output * cotangent) for the watched inputs, outside of their level, which has ended. An input
// that no output depends on: undefined. history: record the pass for what is outside (Level::history_outside).
std::vector<Tensor> pull_back(TensorList outputs, TensorList cotangents, TensorList inputs, bool retain_graph,
                              bool history);
// Error unless t is a scalar that has a derivative: what grad() wants of its function's result.
void check_scalar_output(const Tensor& t);

Tensor zeros_of(const Tensor& t);
// The function from the only input of the level's tape to `output`. Error if what it computes with was written to.
std::function<Tensor(const Tensor&)> linear_function(const Tensor& output, int64_t level);
// The rows of a Jacobian, each by one cotangent, all of them in one vmap.
Tensor jacobian_of(const Tensor& value, const Tensor& x, const std::function<Tensor(const Tensor&)>& pull);
// Its columns, each by one tangent of x.
Tensor jacobian_by_columns(const Tensor& x, const std::function<Tensor(const Tensor&)>& push);

inline constexpr int64_t kNotMapped = INT64_MIN;  // in_dims: the same for the whole batch

// f over dimension in_dims[k] (all: 0) of its arguments; the batch of the result at out_dim. f: Tensor(const
// Tensor&...). ValueError for sizes that differ and if nothing is mapped.
template <class F>
auto vmap(F f, std::vector<int64_t> in_dims = {}, int64_t out_dim = 0, Randomness randomness = Randomness::kError) {
  return [f = std::move(f), in_dims = std::move(in_dims), out_dim, randomness](const auto&... args) -> Tensor {
    const std::array<Tensor, sizeof...(args)> given{args...};
    TESSERA_CHECK_VALUE(in_dims.empty() || in_dims.size() == given.size(), "vmap: in_dims has ", in_dims.size(),
                        " entries for ", given.size(), " arguments");
    int64_t batch = -1;
    const auto dim = [&](size_t i) { return in_dims.empty() ? 0 : in_dims[i]; };
    for (size_t i = 0; i < given.size(); ++i) {
      if (dim(i) == kNotMapped) continue;
      const int64_t n = batch_size_of(given[i], dim(i));
      TESSERA_CHECK_VALUE(batch < 0 || n == batch,
                          "vmap: Expected all tensors to have the same size in the mapped "
                          "dimension, got sizes ",
                          batch, " and ", n);
      batch = n;
    }
    TESSERA_CHECK_VALUE(batch >= 0, "vmap: at least one argument must be mapped over");
    const LevelScope level(push_vmap(batch, randomness));
    std::array<Tensor, sizeof...(args)> seen;
    for (size_t i = 0; i < given.size(); ++i)
      seen[i] = dim(i) == kNotMapped ? given[i] : add_batch_dim(given[i], dim(i), level.id());
    const Tensor out = std::apply(f, seen);
    return remove_batch_dim(out, out_dim, level.id(), batch);
  };
}

// (gradient with respect to the first argument, value) of a function with a scalar result.
template <class F>
auto grad_and_value(F f) {
  return [f = std::move(f)](const Tensor& first, const auto&... rest) -> std::pair<Tensor, Tensor> {
    LevelScope level(push_grad());
    const Tensor x = watched(first, level.id());
    const Tensor out = f(x, rest...);
    check_scalar_output(out);
    const bool history = settle_histories({&out, 1}, level.id());
    const int64_t id = level.id();
    level.close();
    const Tensor value = outside_of(out, id);
    const Tensor found = pull_back({&out, 1}, {}, {&x, 1}, false, history)[0];
    return {found.defined() ? found : zeros_of(first), value};
  };
}
template <class F>
auto grad(F f) {
  return [g = grad_and_value(std::move(f))](const auto&... args) -> Tensor { return g(args...).first; };
}

// (value, function from a cotangent of the value to that of x).
template <class F>
std::pair<Tensor, std::function<Tensor(const Tensor&)>> vjp(F f, const Tensor& x) {
  LevelScope level(push_grad());
  const Tensor watch = watched(x, level.id());
  const Tensor out = f(watch);
  const int64_t id = level.id();
  settle_histories({&out, 1}, id);
  level.close();
  auto pull = [out, watch, x](const Tensor& cotangent) {
    const Tensor g = pull_back({&out, 1}, {&cotangent, 1}, {&watch, 1}, true, true)[0];
    return g.defined() ? g : zeros_of(x);
  };
  return {outside_of(out, id), pull};
}

// The Jacobian, of shape out.shape + x.shape, row by row in reverse mode.
template <class F>
auto jacrev(F f) {
  return [f = std::move(f)](const Tensor& x) -> Tensor {
    auto [value, pull] = vjp(f, x);
    return jacobian_of(value, x, pull);
  };
}

// (value, its derivative along the tangent v of x). Programs link the *_forward libraries of the operators that f
// calls.
template <class F>
std::pair<Tensor, Tensor> jvp(F f, const Tensor& x, const Tensor& v) {
  const LevelScope level(push_jvp());
  auto [value, tangent] = split_dual(f(dual(x, v, level.id())), level.id());
  return {value, tangent.defined() ? tangent : zeros_of(value)};
}

// The Jacobian, of shape out.shape + x.shape, column by column in forward mode.
template <class F>
auto jacfwd(F f) {
  return [f = std::move(f)](const Tensor& x) -> Tensor {
    return jacobian_by_columns(x, [&](const Tensor& v) { return jvp(f, x, v).second; });
  };
}

// The second derivatives, of shape out.shape + x.shape + x.shape.
template <class F>
auto hessian(F f) {
  return jacfwd(jacrev(std::move(f)));
}

// (value, function from a tangent of x to that of the value): f runs once, its derivative is kept to be run again. The
// function's errors: x or what f captured was written to since.
template <class F>
std::pair<Tensor, std::function<Tensor(const Tensor&)>> linearize(F f, const Tensor& x) {
  const LevelScope level(push_tape());
  const auto [value, tangent] = jvp(f, x, on_tape(zeros_of(x), level.id()));
  return {value, linear_function(tangent, level.id())};
}

}  // namespace tessera::func
