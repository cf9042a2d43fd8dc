// Optimizers in C++: the same steps (optim/ops.textproto), defaults and checks as in Python.
//
//   optim::Adam adam(model.parameters(), {.lr = 1e-3});
//   adam.zero_grad(); loss.backward(); adam.step();
#pragma once

#include <array>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tensor/core/tensor.h"

namespace tessera::optim {

using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

// Parameters in groups, each with its own options. A subclass defines one step.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  // Updates every parameter that has a gradient.
  virtual void step() = 0;
  // Undefined gradients, or zeros.
  void zero_grad(bool set_to_none = true);

  size_t num_groups() const { return groups_.size(); }
  std::span<const Tensor> params(size_t group) const { return groups_.at(group).params; }
  virtual double lr(size_t group = 0) const = 0;
  virtual void set_lr(double lr, size_t group = 0) = 0;

  // What has been gathered so far, by parameter number: "0.exp_avg", "0.step", ... Restoring throws Error, and changes
  // nothing, if a name or shape fits no parameter.
  NamedTensors state_dict() const;
  void load_state_dict(const NamedTensors& state);

 protected:
  static constexpr int kMaxState = 4;
  using State = std::array<Tensor, kMaxState>;
  struct Group {
    std::vector<Tensor> params;
    std::vector<State> state;
  };
  // The parameters of a group that have a gradient now, with their gradients and numbers.
  struct Active {
    std::vector<Tensor> params, grads;
    std::vector<size_t> numbers;
  };

  // names: of the tensors in a State, in order; null where unused. "step" is a number.
  explicit Optimizer(std::array<const char*, kMaxState> names) : names_(names) {}
  // ValueError: no parameters, one that is no leaf, or one that is in a group already.
  void add_params(std::vector<Tensor> params);
  Group& group(size_t i) { return groups_[i]; }
  Active active(size_t group) const;

 private:
  std::array<const char*, kMaxState> names_;
  std::vector<Group> groups_;
};

// The value, or ValueError "Invalid lr: -1.0".
void check_at_least_zero(double value, const char* name);

}  // namespace tessera::optim
