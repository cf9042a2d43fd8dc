// Deep copies of modules.
#pragma once

#include <torch/nn/module.h>

namespace torch::nn {

// What a class derives from, itself being `Derived`, to have clone(). Its reset() registers all parameters, buffers and
// submodules; a clone is a copy of the object that is reset, and then given the values.
template <class Derived>
class Cloneable : public Module {
 public:
  using Module::Module;

  virtual void reset() = 0;

  // On `device`, if given. Error if reset() does not register what this module has.
  std::shared_ptr<Module> clone(const std::optional<at::Device>& device = std::nullopt) const override {
    at::NoGradGuard no_grad;
    auto copy = std::make_shared<Derived>(static_cast<const Derived&>(*this));
    copy->parameters_.clear();
    copy->buffers_.clear();
    copy->children_.clear();
    copy->reset();
    give(parameters_, &copy->parameters_, "parameters", device);
    give(buffers_, &copy->buffers_, "buffers", device);
    check(children_.size() == copy->children_.size(), "child modules");
    for (const auto& child : children_) copy->children_[child.key()]->clone_(*child.value(), device);
    return copy;
  }

 private:
  void check(bool same, const char* what) const {
    TORCH_CHECK(same, "The cloned module does not have the same number of ", what,
                " as the original module after calling reset(). Are you sure you called register_",
                what[0] == 'p'   ? "parameter"
                : what[0] == 'b' ? "buffer"
                                 : "module",
                "() inside reset() and not the constructor?");
  }
  void give(const OrderedDict<std::string, Tensor>& from, OrderedDict<std::string, Tensor>* to, const char* what,
            const std::optional<at::Device>& device) const {
    check(from.size() == to->size(), what);
    for (const auto& t : from) {
      if (!t->defined()) continue;
      Tensor& target = (*to)[t.key()];
      const Tensor value = device ? t->to(*device, t->scalar_type()).clone() : t->clone();
      target.defined() ? target.set_data(value) : void(target = value);
    }
  }
  void clone_(Module& other, const std::optional<at::Device>& device) final {
    // `other` is what this module was made after, so of the same class, unless a class overrides clone() oddly.
    auto copy = std::dynamic_pointer_cast<Derived>(other.clone(device));
    TORCH_CHECK(copy,
                "Attempted to clone submodule, but it is of a different type than the submodule it was to be "
                "cloned into");
    static_cast<Derived&>(*this) = *copy;
  }
};

}  // namespace torch::nn
