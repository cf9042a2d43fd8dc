// The base of neural network modules: a tree of named parameters, buffers and child modules.
//
//   struct Net : nn::Module {
//     Net()
//         : hidden(register_module("hidden", std::make_shared<nn::Linear>(64, 128))),
//           out(register_module("out", std::make_shared<nn::Linear>(128, 10))) {}
//     Tensor forward(const Tensor& x) override { return (*out)(relu((*hidden)(x))); }
//     std::shared_ptr<nn::Linear> hidden, out;
//   };
//
// Names, defaults, order of random draws and messages are those of the Python modules: the same seed gives the same
// weights, and a state dict of one loads into the other.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tensor/core/tensor.h"

namespace tessera::nn {

using NamedTensors = std::vector<std::pair<std::string, Tensor>>;
class Module;
using NamedModules = std::vector<std::pair<std::string, std::shared_ptr<Module>>>;

class Module {
 public:
  Module() = default;
  virtual ~Module() = default;
  // The same parameters must not hang in two trees by accident.
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  // NotImplementedError if the class has no forward of one tensor.
  virtual Tensor forward(const Tensor& input);
  Tensor operator()(const Tensor& input) { return forward(input); }

  // Each returns what it has registered. Names must not be empty, hold a dot, or be taken: ValueError. A parameter must
  // be a leaf of floating or complex dtype; undefined tensors stand for absent ones ("bias" without a bias) and are not
  // listed.
  Tensor register_parameter(std::string name, const Tensor& parameter, bool requires_grad = true);
  Tensor register_buffer(std::string name, const Tensor& buffer, bool persistent = true);
  template <class M>
  std::shared_ptr<M> register_module(std::string name, std::shared_ptr<M> module) {
    add_child(std::move(name), module);
    return module;
  }

  // In the order of registration, this module's own before its children's, with names such as "hidden.weight"; a tensor
  // that is there twice is listed once.
  NamedTensors named_parameters(bool recurse = true) const;
  NamedTensors named_buffers(bool recurse = true) const;
  std::vector<Tensor> parameters(bool recurse = true) const;
  std::vector<Tensor> buffers(bool recurse = true) const;
  const NamedModules& named_children() const { return children_; }

  // Parameters and persistent buffers, detached: they share memory with the module.
  NamedTensors state_dict() const;
  // Copies values (of any dtype) into the module. strict: all names must be there, and no others. Error lists every
  // missing and unexpected name and wrong shape; then nothing is changed.
  void load_state_dict(const NamedTensors& state, bool strict = true);

  // Each works on the whole tree.
  Module& train(bool on = true);
  Module& eval() { return train(false); }
  bool is_training() const { return training_; }
  Module& to(DType dtype);  // floating parameters and buffers; TypeError if dtype is no floating or complex dtype
  void zero_grad(bool set_to_none = true);
  Module& requires_grad_(bool on = true);
  template <class F>
  Module& apply(F&& f) {  // f(Module&), children first
    for (const auto& [name, child] : children_) child->apply(f);
    f(*this);
    return *this;
  }

  // "Linear", and "in_features=64, out_features=10, bias=True": what repr is made of.
  virtual const char* name() const { return "Module"; }
  virtual std::string extra_repr() const { return {}; }
  std::string repr() const;

 private:
  struct Buffer {
    std::string name;
    Tensor tensor;
    bool persistent;
  };
  void add_child(std::string name, std::shared_ptr<Module> module);
  void check_name(const std::string& name, const char* what) const;
  void collect(const std::string& prefix, bool parameters, bool persistent_buffers, bool all_buffers, bool recurse,
               NamedTensors* out) const;
  static NamedTensors without_duplicates(NamedTensors list);

  NamedTensors parameters_;
  std::vector<Buffer> buffers_;
  NamedModules children_;
  bool training_ = true;
};

namespace internal {
std::string repr(bool b);        // "True"
std::string repr(double d);      // "0.1", "1e-05", "1.0"
std::string repr(IntList list);  // "(3, 3)"
}  // namespace internal

}  // namespace tessera::nn
