// The base of modules: a tree of named parameters, buffers and child modules.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <typeinfo>
#include <vector>

#include <torch/nn/any_value.h>
#include <torch/nn/pimpl.h>
#include <torch/ordered_dict.h>
#include <torch/serialize/archive.h>

namespace torch::nn {

using at::Tensor;

class Module : public std::enable_shared_from_this<Module> {
 public:
  using ModuleApplyFunction = std::function<void(Module&)>;
  using ConstModuleApplyFunction = std::function<void(const Module&)>;
  using NamedModuleApplyFunction = std::function<void(const std::string&, Module&)>;
  using ConstNamedModuleApplyFunction = std::function<void(const std::string&, const Module&)>;
  using ModulePointerApplyFunction = std::function<void(const std::shared_ptr<Module>&)>;
  using NamedModulePointerApplyFunction = std::function<void(const std::string&, const std::shared_ptr<Module>&)>;
  using Pointer = std::shared_ptr<Module>;

  explicit Module(std::string name) : Module() { name_ = std::move(name); }
  Module() : parameters_("Parameter"), buffers_("Buffer"), children_("Submodule") {}
  Module(const Module&) = default;
  Module& operator=(const Module&) = default;
  Module(Module&&) noexcept = default;
  Module& operator=(Module&&) noexcept = default;
  virtual ~Module() = default;

  // The name that the constructor was given, else the class's with its namespaces.
  const std::string& name() const noexcept {
    if (!name_) { name_ = detail::type_name(typeid(*this)); }
    return *name_;
  }

  // A deep copy; classes that derive from Cloneable have one.
  virtual Pointer clone(const std::optional<at::Device>& = std::nullopt) const {
    TORCH_CHECK_NOT_IMPLEMENTED(false, "clone() has not been implemented for ", name(),
                                ". Subclass torch::nn::Cloneable<", name(),
                                "> instead of torch::nn::Module to inherit the ability to clone.");
    return nullptr;
  }

  // f for this module and all below it, a module before its children.
  void apply(const ModuleApplyFunction& f) {
    f(*this);
    for (auto& c : children_) c.value()->apply(f);
  }
  void apply(const ConstModuleApplyFunction& f) const {
    f(*this);
    for (const auto& c : children_) std::as_const(*c.value()).apply(f);
  }
  void apply(const NamedModuleApplyFunction& f, const std::string& name_prefix = "") {
    f(name_prefix, *this);
    for (auto& c : children_) c.value()->apply(f, join(name_prefix, c.key()));
  }
  void apply(const ConstNamedModuleApplyFunction& f, const std::string& name_prefix = "") const {
    f(name_prefix, *this);
    for (const auto& c : children_) std::as_const(*c.value()).apply(f, join(name_prefix, c.key()));
  }
  void apply(const ModulePointerApplyFunction& f) const {
    for (const auto& m : modules()) f(m);
  }
  void apply(const NamedModulePointerApplyFunction& f, const std::string& name_prefix = "") const {
    for (const auto& m : named_modules(name_prefix)) f(m.key(), m.value());
  }

  std::vector<Tensor> parameters(bool recurse = true) const { return named_parameters(recurse).values(); }
  OrderedDict<std::string, Tensor> named_parameters(bool recurse = true) const {
    return collect(&Module::parameters_, recurse);
  }
  std::vector<Tensor> buffers(bool recurse = true) const { return named_buffers(recurse).values(); }
  OrderedDict<std::string, Tensor> named_buffers(bool recurse = true) const {
    return collect(&Module::buffers_, recurse);
  }
  // Error with include_self for a module that no shared_ptr owns.
  std::vector<Pointer> modules(bool include_self = true) const { return named_modules("", include_self).values(); }
  OrderedDict<std::string, Pointer> named_modules(const std::string& name_prefix = "", bool include_self = true) const {
    OrderedDict<std::string, Pointer> list;
    if (include_self) list.insert(name_prefix, self());
    list_below(name_prefix, &list);
    return list;
  }
  std::vector<Pointer> children() const { return children_.values(); }
  OrderedDict<std::string, Pointer> named_children() const { return children_; }

  virtual void train(bool on = true) {
    for (auto& c : children_) c.value()->train(on);
    is_training_ = on;
  }
  void eval() { train(false); }
  virtual bool is_training() const noexcept { return is_training_; }

  // Parameters and buffers converted; each stays the tensor that it is.
  virtual void to(at::Device device, at::ScalarType dtype, bool non_blocking = false) {
    convert([&](const Tensor& t) { return t.to(device, dtype, non_blocking); });
  }
  virtual void to(at::ScalarType dtype, bool non_blocking = false) {
    convert([&](const Tensor& t) { return t.to(dtype, non_blocking); });
  }
  virtual void to(at::Device device, bool non_blocking = false) {
    convert([&](const Tensor& t) { return t.to(device, t.scalar_type(), non_blocking); });
  }

  virtual void zero_grad(bool set_to_none = true) {
    for (auto& c : children_) c.value()->zero_grad(set_to_none);
    at::NoGradGuard no_grad;
    for (auto& p : parameters_) {
      if (!p->defined() || !p->grad().defined()) continue;
      if (set_to_none)
        p->set_grad(Tensor());
      else
        p->set_grad(p->grad().detach().zero_());
    }
  }

  virtual void save(serialize::OutputArchive& archive) const {
    for (const auto& t : named_parameters(false)) archive.write(t.key(), *t);
    for (const auto& t : named_buffers(false)) archive.write(t.key(), *t, true);
    for (const auto& c : children_) {
      if (!c.value()->is_serializable()) continue;
      serialize::OutputArchive nested(archive.compilation_unit());
      c.value()->save(nested);
      archive.write(c.key(), nested);
    }
  }
  virtual void load(serialize::InputArchive& archive) {
    for (auto& t : named_parameters(false)) archive.read(t.key(), *t);
    for (auto& t : named_buffers(false)) archive.read(t.key(), *t, true);
    for (const auto& c : children_) {
      if (!c.value()->is_serializable()) continue;
      serialize::InputArchive nested;
      archive.read(c.key(), nested);
      c.value()->load(nested);
    }
  }
  // Whether save and load have anything to do.
  virtual bool is_serializable() const { return true; }

  virtual void pretty_print(std::ostream& stream) const { stream << name(); }

  // This module as one of its classes, or null: as<LinearImpl>(), as<Linear>().
  template <class M>
  auto* as() noexcept {
    return dynamic_cast<typename detail::ContainedOf<M>::type*>(this);
  }
  template <class M>
  const auto* as() const noexcept {
    return dynamic_cast<const typename detail::ContainedOf<M>::type*>(this);
  }

  // Names must not be empty, hold a dot or be taken: Error. Each returns what it has registered.
  Tensor& register_parameter(std::string name, Tensor tensor, bool requires_grad = true) {
    check_name("Parameter", name);
    if (tensor.defined())
      tensor.requires_grad_(requires_grad);
    else if (requires_grad)
      TORCH_WARN("An undefined tensor cannot require grad. Ignoring the `requires_grad=true` function parameter.");
    return parameters_.insert(std::move(name), std::move(tensor));
  }
  Tensor& register_buffer(std::string name, Tensor tensor) {
    check_name("Buffer", name);
    return buffers_.insert(std::move(name), std::move(tensor));
  }
  template <class M>
  std::shared_ptr<M> register_module(std::string name, std::shared_ptr<M> module) {
    check_name("Submodule", name);
    return std::static_pointer_cast<M>(children_.insert(std::move(name), Pointer(module)));
  }
  template <class M>
  std::shared_ptr<M> register_module(std::string name, ModuleHolder<M> holder) {
    return register_module(std::move(name), holder.ptr());
  }
  template <class M>
  std::shared_ptr<M> register_module(std::string name, std::unique_ptr<M> module) {
    return register_module(std::move(name), std::shared_ptr<M>(std::move(module)));
  }
  template <class M>
  std::shared_ptr<M> replace_module(const std::string& name, std::shared_ptr<M> module) {
    children_[name] = module;
    return module;
  }
  template <class M>
  std::shared_ptr<M> replace_module(const std::string& name, ModuleHolder<M> holder) {
    return replace_module(name, holder.ptr());
  }
  void unregister_module(const std::string& name) {
    TORCH_CHECK(children_.contains(name), "No Module with name `", name, "` is registered");
    children_.erase(name);
  }

 protected:
  OrderedDict<std::string, Tensor> parameters_;

 private:
  template <class Derived>
  friend class Cloneable;
  template <class M, class R, class... A>
  friend struct AnyModuleHolder;
  friend std::ostream& operator<<(std::ostream& stream, const Module& module) {
    module.print_tree(stream, "");
    return stream;
  }

  static std::string join(const std::string& prefix, const std::string& name) {
    return prefix.empty() ? name : prefix + "." + name;
  }
  static void check_name(const char* what, const std::string& name) {
    TORCH_CHECK(!name.empty(), what, " name must not be empty");
    TORCH_CHECK(name.find('.') == std::string::npos, what, " name must not contain a dot (got '", name, "')");
  }
  Pointer self() const {
    Pointer p = std::const_pointer_cast<Module>(weak_from_this().lock());
    TORCH_CHECK(p,
                "It looks like you attempted to retrieve your top-level module as a shared_ptr, but it is not "
                "stored in a shared_ptr. Use std::make_shared<",
                name(),
                "> instead of creating your module on the "
                "stack, or alternatively do not try to access your top-level module at all by passing "
                "/*include_self=*/false to modules() or named_modules()");
    return p;
  }
  OrderedDict<std::string, Tensor> collect(OrderedDict<std::string, Tensor> Module::*own, bool recurse) const {
    OrderedDict<std::string, Tensor> list;
    const ConstNamedModuleApplyFunction add = [&](const std::string& prefix, const Module& m) {
      for (const auto& t : m.*own)
        if (t->defined()) list.insert(join(prefix, t.key()), *t);
    };
    recurse ? apply(add) : add("", *this);
    return list;
  }
  void list_below(const std::string& prefix, OrderedDict<std::string, Pointer>* list) const {
    for (const auto& c : children_) {
      const std::string name = join(prefix, c.key());
      list->insert(name, c.value());
      c.value()->list_below(name, list);
    }
  }
  template <class F>
  void convert(const F& f) {
    for (auto& c : children_) c.value()->convert(f);
    at::NoGradGuard no_grad;
    for (auto* own : {&parameters_, &buffers_})
      for (auto& t : *own)
        if (t->defined()) t->set_data(f(*t));
  }
  void print_tree(std::ostream& stream, const std::string& indent) const {
    pretty_print(stream);
    if (children_.is_empty()) return;
    stream << "(\n";
    for (const auto& c : children_) {
      stream << indent << "  (" << c.key() << "): ";
      c.value()->print_tree(stream, indent + "  ");
      stream << '\n';
    }
    stream << indent << ')';
  }
  // Defaults of forward's last arguments, by their places: FORWARD_HAS_DEFAULT_ARGS.
  virtual std::vector<std::pair<unsigned int, AnyValue>> _forward_defaults() { return {}; }
  virtual void clone_(Module&, const std::optional<at::Device>&) {}

  OrderedDict<std::string, Tensor> buffers_;

 protected:
  OrderedDict<std::string, Pointer> children_;

 private:
  mutable std::optional<std::string> name_;
  bool is_training_ = true;
};

}  // namespace torch::nn
