// What generated derivative code calls. Everything here is out of line or tiny: hundreds of kernels are made of these
// calls.
//
// A generated kernel, for `mul.Tensor` (grad * other.conj(), grad * self.conj()):
//
//   Tensor mul_Tensor(CallContext ctx, const Tensor& self, const Tensor& other) {
//     if (!any_requires_grad(self, other)) return op::mul_Tensor.redispatch(below_autograd(ctx.keys), self, other);
//     auto node_ = make_node<MulBackward0>();
//     collect_next_edges(*node_, {&self, &other});
//     if (node_->should_compute(1)) node_->self_ = SavedVariable(self, false);
//     if (node_->should_compute(0)) node_->other_ = SavedVariable(other, false);
//     Tensor result_ = [&]() -> Tensor {
//       AutogradGuard guard_;
//       return op::mul_Tensor.redispatch(below_autograd(ctx.keys), self, other);
//     }();
//     set_history(result_, node_);
//     return result_;
//   }
//
// and its node:
//
//   struct MulBackward0 final : Node {
//     variable_list apply(variable_list&& grads) override;
//     const char* name() const override { return "MulBackward0"; }
//     void release_variables() override;
//     void visit_saved(SavedVisitor& v) override;
//     SavedVariable self_, other_;
//   };
//
// Contract with the engine: grads[k] is the gradient of output k of the op (lists count their elements), undefined if
// none arrived; apply gives one gradient for each edge, in the order in which collect_next_edges saw the tensors,
// undefined where there is none. The engine brings a gradient to the shape, dtype and device of the tensor that it is
// for: sums what was broadcast, takes the real part for a real tensor, casts. It calls apply once per backward, then
// release_variables() unless the graph is retained.
#pragma once

#include <array>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "autograd/node.h"            // Node, Edge, variable_list
#include "autograd/saved_variable.h"  // SavedVariable(const Tensor&, bool is_output), unpack(Node* owner), reset()
#include "tensor/dispatch/op.h"
#include "tensor/dispatch/value.h"

namespace tessera::autograd {

// --- Before the call.

inline bool needs_grad(const Tensor& t) { return t.defined() && t.requires_grad(); }
inline bool needs_grad(TensorList l) {
  for (const Tensor& t : l)
    if (needs_grad(t)) return true;
  return false;
}
inline bool needs_grad(const std::optional<TensorList>& l) { return l && needs_grad(*l); }
// False, too, when grad mode is off.
template <class... T>
inline bool any_requires_grad(const T&... inputs) {
  return thread_state.grad_enabled && !thread_state.inference_mode && (... || needs_grad(inputs));
}

inline DispatchKeySet below_autograd(DispatchKeySet keys) {
  return keys & DispatchKeySet::below(DispatchKey::kAutogradOther);
}
// While the kernel below runs: operators that it calls record nothing.
class AutogradGuard : ExcludeKeys {
 public:
  AutogradGuard() : ExcludeKeys(kAutogradKeys) {}
};

template <class N>
IntrusivePtr<N> make_node() {
  return IntrusivePtr<N>::adopt(new N());
}

// Appends an edge for each tensor: to its grad_fn, to the accumulator of a leaf that requires grad, or none.
void collect_next_edges(Node& node, std::initializer_list<const Tensor*> inputs);
void collect_next_edges(Node& node, TensorList inputs);
void collect_next_edges(Node& node, const std::optional<TensorList>& inputs);
// True if an edge in [first, first + count) leads somewhere.
bool should_compute_any(const Node& node, size_t first, size_t count);

// In-place forms. Error "a leaf Variable that requires grad is being used in an in-place operation.", "a view of a leaf
// Variable that requires grad is being used in an in-place operation.", and those about views made without grad, by
// functions with several outputs, or in inference mode.
void check_inplace(const Tensor& self);
void check_inplace(TensorList self);
// A copy of what an in-place form is about to overwrite, without history.
Tensor clone_original(const Tensor& self);
// Error "add(): functions with out=... arguments don't support automatic differentiation, but one of the arguments
// requires grad."
[[noreturn]] void throw_out_requires_grad(const char* name);

// --- Saving.

std::vector<SavedVariable> save_list(TensorList l);
std::vector<SavedVariable> save_list(const std::optional<TensorList>& l);
std::vector<Tensor> unpack_list(const std::vector<SavedVariable>& l, Node* owner);
inline void reset_list(std::vector<SavedVariable>& l) {
  for (SavedVariable& v : l) v.reset();
}

inline IntVector to_saved(IntList l) { return {l.begin(), l.end()}; }
inline std::vector<SymInt> to_saved(SymIntList l) { return {l.begin(), l.end()}; }
inline std::vector<double> to_saved(std::span<const double> l) { return {l.begin(), l.end()}; }
inline std::vector<Scalar> to_saved(std::span<const Scalar> l) { return {l.begin(), l.end()}; }
inline std::string to_saved(std::string_view s) { return std::string(s); }
// std::vector<bool> has no elements to point to.
class SavedBools {
 public:
  SavedBools() = default;
  SavedBools(std::span<const bool> l) : bits_(l.begin(), l.end()) {}
  bool operator[](size_t i) const { return bits_[i] != 0; }
  size_t size() const { return bits_.size(); }
  operator std::span<const bool>() const { return {reinterpret_cast<const bool*>(bits_.data()), bits_.size()}; }

 private:
  std::vector<unsigned char> bits_;
};
inline SavedBools to_saved(std::span<const bool> l) { return SavedBools(l); }
template <class T>
auto to_saved(const std::optional<T>& v) {
  using S = std::remove_cvref_t<decltype(to_saved(*v))>;
  return v ? std::optional<S>(to_saved(*v)) : std::optional<S>();
}

// Lists what a node saved, for grad_fn._saved_self and so on. Node::visit_saved calls it once for each value.
class SavedVisitor {
 public:
  virtual ~SavedVisitor() = default;
  virtual void tensor(const char* name, const SavedVariable& v) = 0;
  virtual void tensor_list(const char* name, const std::vector<SavedVariable>& v) = 0;
  virtual void value(const char* name, const Value& v) = 0;

  void operator()(const char* name, const SavedVariable& v) { tensor(name, v); }
  void operator()(const char* name, const std::vector<SavedVariable>& v) { tensor_list(name, v); }
  void operator()(const char* name, IntList v) { value(name, Value::borrow(v)); }
  void operator()(const char* name, const IntVector& v) { value(name, Value::borrow(IntList(v))); }
  void operator()(const char* name, const std::vector<SymInt>& v) { value(name, Value::borrow(SymIntList(v).ints())); }
  void operator()(const char* name, const std::vector<double>& v) {
    value(name, Value::borrow(std::span<const double>(v)));
  }
  void operator()(const char* name, const std::vector<Scalar>& v) {
    value(name, Value::borrow(std::span<const Scalar>(v)));
  }
  void operator()(const char* name, const SavedBools& v) {
    value(name, Value::borrow(static_cast<std::span<const bool>>(v)));
  }
  void operator()(const char* name, const std::string& v) { value(name, Value::borrow(std::string_view(v))); }
  void operator()(const char* name, const Generator& v) { value(name, Value::borrow(v)); }
  void operator()(const char* name, const Scalar& v) { value(name, Value::of(v)); }
  void operator()(const char* name, SymInt v) { value(name, Value::of(v.guard_int())); }
  void operator()(const char* name, Device v) { value(name, Value::of(v)); }
  template <class T>
  requires(std::is_same_v<T, bool> || std::is_same_v<T, int64_t> || std::is_same_v<T, double> || std::is_enum_v<T>) void
  operator()(const char* name, T v) {
    value(name, Value::of(v));
  }
  template <class T>
  void operator()(const char* name, const std::optional<T>& v) {
    v ? (*this)(name, *v) : value(name, Value::none());
  }
};

// --- After the call.

// Makes node the history of an output (the next one of its outputs). Integer and bool tensors count as outputs but get
// no history; undefined ones, too.
void set_history(const Tensor& output, const IntrusivePtr<Node>& node);
void set_history(const std::vector<Tensor>& outputs, const IntrusivePtr<Node>& node);
// An output that is not differentiable by the table.
void skip_history(Node& node);
// self was overwritten: node becomes its history and, for a view, part of its base's.
void rebase_history(const Tensor& self, const IntrusivePtr<Node>& node);
void rebase_history(TensorList self, const IntrusivePtr<Node>& node);
// The same for operators without a derivative (comparisons, random numbers): the gradient of what was overwritten is
// zero.
void rebase_history_zero(const Tensor& self, const char* node_name);
void rebase_history_zero(TensorList self, const char* node_name);

// --- In a node's apply.

bool any_defined(const variable_list& grads);
// Error "Trying to backward through the graph a second time ..." once release_variables() has run.
void check_not_released(const Node& node);
// Puts the gradients of a list argument at [first, first + values.size()).
void put_list(variable_list& out, size_t first, std::vector<Tensor>&& values);

}  // namespace tessera::autograd
