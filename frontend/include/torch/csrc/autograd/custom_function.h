// Functions with a backward of their own: struct F : torch::autograd::Function<F> { forward, backward }.
#pragma once

#include "ATen/core/ivalue.h"
#include "autograd/function.h"
#include "torch/csrc/autograd/variable.h"

namespace torch::autograd {

// What forward keeps for backward. It lives as long as the node.
class AutogradContext : public tessera::RefCounted {
 public:
  void save_for_backward(const variable_list& tensors) {
    context_->save_for_backward({tensors.begin(), tensors.end()});
  }
  variable_list get_saved_variables() const { return at::fe::out(context_->get_saved_variables()); }
  void mark_dirty(const variable_list& tensors) { context_->mark_dirty({tensors.begin(), tensors.end()}); }
  void mark_non_differentiable(const variable_list& outputs) {
    context_->mark_non_differentiable({outputs.begin(), outputs.end()});
  }
  void set_materialize_grads(bool on) { context_->set_materialize_grads(on); }
  // Whether argument i of forward, or one of ranges of them, wants a gradient.
  bool needs_input_grad(size_t i) const { return context_->needs_input_grad(i); }
  bool needs_input_grad(std::initializer_list<std::pair<size_t, size_t>> ranges) const {
    for (const auto& [from, to] : ranges)
      for (size_t i = from; i < to; ++i)
        if (needs_input_grad(i)) return true;
    return false;
  }

  // Values for backward that are no tensors.
  std::unordered_map<std::string, at::IValue> saved_data;

 private:
  template <class>
  friend class Function;
  tessera::autograd::AutogradContext* context_ = nullptr;
};

template <class T>
class Function {
 public:
  // forward's results, with backward as their derivative. Tensors, optional tensors and the elements of TensorLists
  // among the arguments are inputs; backward returns one gradient for each, and an undefined one for any other argument
  // (of which a std::vector of tensors is one).
  template <class X = T, class... A>
  static auto apply(A&&... args) -> std::enable_if_t<std::is_same_v<X, T>, decltype(X::forward(nullptr, args...))> {
    using Result = decltype(X::forward(nullptr, args...));
    auto node = tessera::make_intrusive<tessera::autograd::CustomNode>(tessera::autograd::readable_name(typeid(T)),
                                                                       &Function::call_backward, nullptr);
    (add_input(*node, args), ...);
    auto context = tessera::make_intrusive<AutogradContext>();
    context->context_ = &node->context();
    context->context_->saved_data[kContext] = tessera::Value::object(context);
    node->begin();
    auto outputs = [&] {
      at::AutoGradMode off(false);
      return T::forward(context.get(), std::forward<A>(args)...);
    }();
    if constexpr (std::is_same_v<Result, variable_list>) {
      return at::fe::out(
          node->finish({std::make_move_iterator(outputs.begin()), std::make_move_iterator(outputs.end())}));
    } else {
      std::vector<tessera::Tensor> one;
      one.push_back(std::move(outputs));
      return Result(node->finish(std::move(one))[0]);
    }
  }

 private:
  static constexpr const char* kContext = "";
  static std::vector<tessera::Tensor> call_backward(tessera::autograd::AutogradContext* node,
                                                    std::vector<tessera::Tensor> grads) {
    auto* context = static_cast<AutogradContext*>(node->saved_data.at(kContext).object());
    context->context_ = node;
    variable_list results = T::backward(context, at::fe::out(std::move(grads)));
    return {std::make_move_iterator(results.begin()), std::make_move_iterator(results.end())};
  }
  template <class A>
  static void add_input(tessera::autograd::CustomNode& node, const A& arg) {
    if constexpr (std::is_convertible_v<const A&, const tessera::Tensor&>) {
      node.add_input(arg);
    } else if constexpr (std::is_same_v<A, std::optional<at::Tensor>>) {
      node.add_input(at::fe::in(arg));
    } else if constexpr (std::is_same_v<A, at::TensorList>) {
      for (const at::Tensor& t : arg) node.add_input(t);
    } else {
      node.add_input_without_gradient();
    }
  }
};

}  // namespace torch::autograd
