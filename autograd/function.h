// Differentiable functions of one's own, in C++:
//
//   struct Swish : Function<Swish> {
//     static Tensor forward(AutogradContext* ctx, const Tensor& x, double rate) {
//       ctx->save_for_backward({x});
//       ctx->saved_data["rate"] = Value::of(rate);
//       return x * sigmoid(x * rate);
//     }
//     static variable_list backward(AutogradContext* ctx, variable_list grads) {
//       const Tensor x = ctx->get_saved_variables()[0];
//       const double rate = ctx->saved_data["rate"].number();
//       const Tensor s = sigmoid(x * rate);
//       return {grads[0] * (s + x * rate * s * (1 - s)), Tensor()};
//     }
//   };
//   Tensor y = Swish::apply(x, 1.5);
//
// forward returns a Tensor or a list of them and runs without recording; backward gets one gradient for each output and
// returns one for each argument of forward (each element of a list of tensors counts), undefined where there is none.
// For forward mode a function has `static variable_list jvp(AutogradContext* ctx, variable_list tangents)`, too: from
// one tangent for each argument (zeros, or undefined with set_materialize_grads(false), where there is none)
// to one for each output. There get_saved_variables() gives what save_for_forward kept. Without it arguments with
// tangents are refused.
//
// Inside of function transforms (//func) backward and jvp are those of the level that calls apply; levels further out
// differentiate what forward's operators did. In vmap, which differentiates nothing, an argument with a history outside
// is an Error.
#pragma once

#include <optional>
#include <string>
#include <type_traits>
#include <typeinfo>
#include <unordered_map>
#include <vector>

#include "autograd/node.h"
#include "autograd/saved_variable.h"
#include "autograd/tangent.h"
#include "tensor/dispatch/value.h"

namespace tessera::autograd {

// Makes a node the history of what a custom function returned, in C++ or in Python.
class OutputConnector {
 public:
  // node: null if nothing is recorded. The tensors that the call got, changed in place, and gave no derivative to.
  OutputConnector(IntrusivePtr<Node> node, std::vector<TensorImpl*> inputs, std::vector<TensorImpl*> dirty,
                  std::vector<TensorImpl*> constant);
  // Error unless everything that was changed is among the outputs.
  void check_dirty(TensorList outputs) const;
  // The tensor to hand out for an output: itself, or an alias where it is an input. Errors: an input that must not be
  // changed in place was.
  Tensor connect(Tensor t, size_t num_outputs);
  // After the last one.
  void finish();

 private:
  IntrusivePtr<Node> node_;
  std::vector<TensorImpl*> inputs_, dirty_, constant_;
  std::vector<Tensor> views_;
  int num_differentiable_ = 0;
};

// Forward mode of a custom function, in C++ or in Python: the tangents of a call's arguments. From begin() on, while it
// lives, nothing else looks at tangents: the function computes with plain values.
class FunctionTangents {
 public:
  // The arguments in order; undefined: no tensor.
  void add_input(const Tensor& t);
  void begin();
  bool any() const { return static_cast<bool>(level_); }
  // What jvp gets for argument i, `value`: zeros for a missing tangent of a floating tensor, if materialize.
  Tensor input(size_t i, const Tensor& value, bool materialize) const;
  // Gives output i the tangent that jvp of `name` returned for it; undefined: zero. Errors: another size or dtype.
  void put(const Tensor& output, const Tensor& tangent, size_t i, const char* name, bool dirty) const;

 private:
  std::vector<Tensor> tangents_;  // as far as there are any
  size_t num_inputs_ = 0;
  IntrusivePtr<TangentLevel> level_;
  std::optional<ExcludeKeys> off_;
};

// What a gradient for an output looks like, to make zeros of where none arrived.
struct OutputForm {
  bool is_tensor = false;
  IntVector sizes;
  DType dtype = DType::kFloat32;
  Device device;
};
OutputForm form_of(const Tensor& t);

class CustomNode;

class AutogradContext {
 public:
  explicit AutogradContext(CustomNode* node) : node_(node) {}
  AutogradContext(const AutogradContext&) = delete;

  // Keeps tensors (inputs, outputs, any other) for backward, safe from reference cycles and in-place changes.
  void save_for_backward(variable_list tensors) { to_save_ = std::move(tensors); }
  // Keeps tensors for jvp.
  void save_for_forward(variable_list tensors) { saved_for_forward_ = std::move(tensors); }
  // In backward and jvp. Errors: changed in place since, freed.
  variable_list get_saved_variables() const;
  // Inputs that forward changed in place; it has to return them.
  void mark_dirty(const variable_list& tensors);
  void mark_non_differentiable(const variable_list& outputs);
  // False: gradients that did not arrive are undefined in backward, instead of zeros.
  void set_materialize_grads(bool on) { materialize_grads_ = on; }
  // Whether argument i of forward, counted as backward's results are, wants a gradient.
  bool needs_input_grad(size_t i) const;

  // Values for backward that are no tensors (Value::of ...; borrowed ones must outlive the graph).
  std::unordered_map<std::string, Value> saved_data;

 private:
  friend class CustomNode;
  CustomNode* node_;
  variable_list to_save_, saved_for_forward_;
  std::vector<TensorImpl*> dirty_, constant_;
  bool in_jvp_ = false;
  bool materialize_grads_ = true;
};

// The node of one call. Functions use it through Function<T>::apply.
class CustomNode final : public Node {
 public:
  using Backward = variable_list (*)(AutogradContext*, variable_list);
  // jvp: null if the function has none.
  CustomNode(std::string name, Backward backward, Backward jvp)
      : context_(this), name_(std::move(name)), backward_(backward), jvp_(jvp) {}

  // An argument of forward.
  void add_input(const Tensor& t);
  void add_input_without_gradient();
  // Between the inputs and forward: from here on the call is recorded, if an input wants a gradient and recording is
  // on.
  void begin();
  // The outputs of forward as apply hands them out.
  variable_list finish(variable_list&& outputs);
  AutogradContext& context() { return context_; }

  variable_list apply(variable_list&& grads) override;
  const char* name() const override { return name_.c_str(); }
  void release_variables() override;
  void visit_saved(SavedVisitor& v) override;
  bool runs_without_gradients() const override { return true; }

 private:
  friend class AutogradContext;
  void run_jvp(const variable_list& outputs, const std::vector<TensorImpl*>& dirty,
               const std::vector<TensorImpl*>& constant);

  AutogradContext context_;
  std::string name_;
  Backward backward_, jvp_;
  variable_list inputs_;                                     // during forward
  std::optional<FunctionTangents> tangents_{std::in_place};  // until forward has returned
  std::vector<int> edge_of_input_;                           // -1: no tensor
  std::vector<OutputForm> forms_;
  std::vector<SavedVariable> saved_;
  bool recorded_ = false;
};

std::string readable_name(const std::type_info& type);

template <class T>
class Function {
 public:
  template <class... A>
  static auto apply(A&&... args) {
    CustomNode::Backward jvp = nullptr;
    if constexpr (requires { &T::jvp; }) jvp = &T::jvp;
    auto node = make_intrusive<CustomNode>(readable_name(typeid(T)), &T::backward, jvp);
    (add_input(*node, args), ...);
    node->begin();
    auto outputs = [&] {
      NoGradGuard no_grad;
      return T::forward(&node->context(), std::forward<A>(args)...);
    }();
    if constexpr (std::is_same_v<decltype(outputs), Tensor>)
      return node->finish({std::move(outputs)})[0];
    else
      return node->finish(std::move(outputs));
  }

 private:
  template <class A>
  static void add_input(CustomNode& node, const A& arg) {
    if constexpr (std::is_convertible_v<const A&, const Tensor&>) {
      node.add_input(arg);
    } else if constexpr (std::is_same_v<A, std::optional<Tensor>>) {
      node.add_input(arg.value_or(Tensor()));
    } else if constexpr (std::is_convertible_v<const A&, TensorList>) {
      for (const Tensor& t : TensorList(arg)) node.add_input(t);
    } else {
      node.add_input_without_gradient();
    }
  }
};

}  // namespace tessera::autograd
