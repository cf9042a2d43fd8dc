// Modules that hold others, and parameters.
#pragma once

#include <torch/nn/modules/any.h>

namespace torch::nn {

class NamedAnyModule {
 public:
  template <class M>
  NamedAnyModule(std::string name, M&& module) : name_(std::move(name)), module_(std::forward<M>(module)) {}
  NamedAnyModule(std::string name, AnyModule module) : name_(std::move(name)), module_(std::move(module)) {}
  const std::string& name() const noexcept { return name_; }
  AnyModule& module() noexcept { return module_; }
  const AnyModule& module() const noexcept { return module_; }

 private:
  std::string name_;
  AnyModule module_;
};

namespace detail {
template <class M>
inline constexpr bool is_some_module =
    std::is_base_of_v<Module, std::remove_cvref_t<M>> || torch::detail::is_module_holder_v<std::remove_cvref_t<M>> ||
    std::is_convertible_v<M, std::shared_ptr<Module>> || std::is_same_v<AnyModule, std::remove_cvref_t<M>>;
template <class M>
std::shared_ptr<Module> module_pointer(M&& m) {
  using T = std::remove_cvref_t<M>;
  if constexpr (std::is_base_of_v<Module, T>)
    return std::make_shared<T>(std::forward<M>(m));
  else if constexpr (torch::detail::is_module_holder_v<T> || std::is_same_v<T, AnyModule>)
    return m.ptr();
  else
    return m;
}
template <class M, class List>
M& module_at(const List& list, size_t i) {
  TORCH_CHECK(i < list.size(), "Index out of range");
  M* found = list[i]->template as<M>();
  TORCH_CHECK(found, "Unable to cast module[", i, "] to ", detail::type_name(typeid(M)));
  return *found;
}
}  // namespace detail

// One module after the other: the first takes forward's arguments, each other the result of the one before.
class SequentialImpl : public Cloneable<SequentialImpl> {
 public:
  using Iterator = std::vector<AnyModule>::iterator;
  using ConstIterator = std::vector<AnyModule>::const_iterator;

  SequentialImpl() = default;
  template <class... M>
  requires(sizeof...(M) > 0 && (detail::is_some_module<M> && ...) &&
           !(std::is_base_of_v<SequentialImpl, std::remove_cvref_t<M>> ||
             ...)) explicit SequentialImpl(M&&... modules) {
    (push_back(std::forward<M>(modules)), ...);
  }
  explicit SequentialImpl(const OrderedDict<std::string, AnyModule>& modules) {
    for (const auto& m : modules) push_back(m.key(), m.value());
  }
  explicit SequentialImpl(std::initializer_list<NamedAnyModule> modules) {
    for (const auto& m : modules) push_back(m.name(), m.module());
  }

  std::shared_ptr<Module> clone(const std::optional<at::Device>& device = std::nullopt) const override {
    auto copy = std::make_shared<SequentialImpl>();
    for (size_t i = 0; i < modules_.size(); ++i) copy->push_back(children_[i].key(), modules_[i].clone(device));
    return copy;
  }
  void reset() override {}
  void pretty_print(std::ostream& stream) const override { stream << "torch::nn::Sequential"; }

  template <class R = Tensor, class... A>
  R forward(A&&... arguments) {
    TORCH_CHECK(!is_empty(), "Cannot call forward() on an empty Sequential");
    auto at = modules_.begin();
    AnyValue value = at->any_forward(std::forward<A>(arguments)...);
    for (++at; at != modules_.end(); ++at) value = at->any_forward(std::move(value));
    R* result = value.try_get<R>();
    TORCH_CHECK(result, "The type of the return value is ", detail::type_name(value.type_info()),
                ", but you asked for type ", detail::type_name(typeid(R)));
    return std::move(*result);
  }

  void push_back(std::string name, AnyModule module) {
    register_module(std::move(name), module.ptr());
    modules_.push_back(std::move(module));
  }
  template <class M>
  requires detail::is_some_module<M>
  void push_back(std::string name, M&& module) { push_back(std::move(name), AnyModule(std::forward<M>(module))); }
  template <class M>
  requires detail::is_some_module<M>
  void push_back(M&& module) { push_back(std::to_string(size()), AnyModule(std::forward<M>(module))); }
  void push_back(const NamedAnyModule& module) { push_back(module.name(), module.module()); }
  template <class Container>
  void extend(const Container& container) {
    for (const auto& m : container) push_back(m);
  }

  Iterator begin() { return modules_.begin(); }
  ConstIterator begin() const { return modules_.begin(); }
  Iterator end() { return modules_.end(); }
  ConstIterator end() const { return modules_.end(); }
  template <class M>
  M& at(size_t i) const {
    TORCH_CHECK(i < size(), "Index out of range");
    return modules_[i].template get<M>();
  }
  std::shared_ptr<Module> ptr(size_t i) const {
    TORCH_CHECK(i < size(), "Index out of range");
    return modules_[i].ptr();
  }
  template <class M>
  std::shared_ptr<M> ptr(size_t i) const {
    TORCH_CHECK(i < size(), "Index out of range");
    return modules_[i].template ptr<M>();
  }
  std::shared_ptr<Module> operator[](size_t i) const { return ptr(i); }
  size_t size() const noexcept { return modules_.size(); }
  bool is_empty() const noexcept { return modules_.empty(); }

 private:
  std::vector<AnyModule> modules_;
};

class Sequential : public ModuleHolder<SequentialImpl> {
 public:
  using ModuleHolder<SequentialImpl>::ModuleHolder;
  Sequential() = default;
  Sequential(std::initializer_list<NamedAnyModule> modules)
      : ModuleHolder<SequentialImpl>(std::make_shared<SequentialImpl>(modules)) {}
};

// Modules in a list, without a forward of its own.
class ModuleListImpl : public Cloneable<ModuleListImpl> {
 public:
  using Iterator = std::vector<std::shared_ptr<Module>>::iterator;
  using ConstIterator = std::vector<std::shared_ptr<Module>>::const_iterator;

  ModuleListImpl() = default;
  template <class... M>
  requires(sizeof...(M) > 0 && (detail::is_some_module<M> && ...) &&
           !(std::is_base_of_v<ModuleListImpl, std::remove_cvref_t<M>> ||
             ...)) explicit ModuleListImpl(M&&... modules) {
    (push_back(std::forward<M>(modules)), ...);
  }

  std::shared_ptr<Module> clone(const std::optional<at::Device>& device = std::nullopt) const override {
    auto copy = std::make_shared<ModuleListImpl>();
    for (const auto& m : modules_) copy->push_back(m->clone(device));
    return copy;
  }
  void reset() override {}
  void pretty_print(std::ostream& stream) const override { stream << "torch::nn::ModuleList"; }

  template <class M>
  requires detail::is_some_module<M>
  void push_back(M&& module) {
    modules_.push_back(detail::module_pointer(std::forward<M>(module)));
    register_module(std::to_string(size() - 1), modules_.back());
  }
  template <class Container>
  void extend(const Container& container) {
    for (const auto& m : container) push_back(m);
  }
  template <class M>
  requires detail::is_some_module<M>
  void insert(size_t i, M&& module) {
    TORCH_CHECK(i <= size(), "Index out of range");
    modules_.insert(modules_.begin() + static_cast<std::ptrdiff_t>(i), detail::module_pointer(std::forward<M>(module)));
    for (; i + 1 < size(); ++i) replace_module(std::to_string(i), modules_[i]);
    register_module(std::to_string(i), modules_.back());
  }

  Iterator begin() { return modules_.begin(); }
  ConstIterator begin() const { return modules_.begin(); }
  Iterator end() { return modules_.end(); }
  ConstIterator end() const { return modules_.end(); }
  template <class M>
  M& at(size_t i) const {
    return detail::module_at<M>(modules_, i);
  }
  std::shared_ptr<Module> ptr(size_t i) const {
    TORCH_CHECK(i < size(), "Index out of range");
    return modules_[i];
  }
  template <class M>
  std::shared_ptr<M> ptr(size_t i) const {
    at<M>(i);
    return std::static_pointer_cast<M>(modules_[i]);
  }
  std::shared_ptr<Module> operator[](size_t i) const { return ptr(i); }
  size_t size() const noexcept { return modules_.size(); }
  bool is_empty() const noexcept { return modules_.empty(); }

 private:
  std::vector<std::shared_ptr<Module>> modules_;
};
TORCH_MODULE(ModuleList);

// Modules under names, without a forward of its own.
class ModuleDictImpl : public Cloneable<ModuleDictImpl> {
 public:
  using Item = OrderedDict<std::string, std::shared_ptr<Module>>::Item;

  ModuleDictImpl() = default;
  explicit ModuleDictImpl(const std::vector<std::pair<std::string, std::shared_ptr<Module>>>& modules) {
    update(modules);
  }
  explicit ModuleDictImpl(const OrderedDict<std::string, std::shared_ptr<Module>>& modules) { update(modules.pairs()); }

  std::shared_ptr<Module> clone(const std::optional<at::Device>& device = std::nullopt) const override {
    auto copy = std::make_shared<ModuleDictImpl>();
    for (const auto& m : children_) copy->insert(m.key(), m.value()->clone(device));
    return copy;
  }
  void reset() override {}
  void pretty_print(std::ostream& stream) const override { stream << "torch::nn::ModuleDict"; }

  std::vector<std::pair<std::string, std::shared_ptr<Module>>> items() const { return children_.pairs(); }
  std::vector<std::string> keys() const { return children_.keys(); }
  std::vector<std::shared_ptr<Module>> values() const { return children_.values(); }
  auto begin() { return children_.begin(); }
  auto begin() const { return children_.begin(); }
  auto end() { return children_.end(); }
  auto end() const { return children_.end(); }
  size_t size() const noexcept { return children_.size(); }
  bool empty() const noexcept { return children_.is_empty(); }
  bool contains(const std::string& key) const noexcept { return children_.contains(key); }
  void clear() { children_.clear(); }
  // The new value takes the place of one of the same name.
  template <class M>
  requires detail::is_some_module<M>
  void insert(const std::string& key, M&& module) {
    auto pointer = detail::module_pointer(std::forward<M>(module));
    contains(key) ? replace_module(key, pointer) : register_module(key, pointer);
  }
  std::shared_ptr<Module> pop(const std::string& key) {
    auto module = children_[key];
    unregister_module(key);
    return module;
  }
  void update(const std::vector<std::pair<std::string, std::shared_ptr<Module>>>& modules) {
    for (const auto& [key, module] : modules) insert(key, module);
  }
  template <class Container>
  void update(const Container& container) {
    for (const auto& m : container) insert(m.key(), m.value());
  }
  std::shared_ptr<Module> operator[](const std::string& key) const { return children_[key]; }
  template <class M>
  M& at(const std::string& key) const {
    M* found = children_[key]->as<M>();
    TORCH_CHECK(found, "Unable to cast module[", key, "] to ", detail::type_name(typeid(M)));
    return *found;
  }
  template <class M>
  std::shared_ptr<M> ptr(const std::string& key) const {
    at<M>(key);
    return std::static_pointer_cast<M>(children_[key]);
  }
  std::shared_ptr<Module> ptr(const std::string& key) const { return children_[key]; }
};
TORCH_MODULE(ModuleDict);

namespace detail {
inline void print_parameters(std::ostream& stream, const char* name, const OrderedDict<std::string, Tensor>& list) {
  stream << "torch::nn::" << name << "(\n";
  for (const auto& p : list)
    stream << '(' << p.key() << "): Parameter containing: [" << p->scalar_type() << " of size " << p->sizes() << "]\n";
  stream << ')';
}
}  // namespace detail

class ParameterListImpl : public Cloneable<ParameterListImpl> {
 public:
  ParameterListImpl() = default;
  template <class... T>
  requires(sizeof...(T) > 0 && (std::is_convertible_v<T, Tensor> && ...)) explicit ParameterListImpl(T&&... tensors) {
    (append(Tensor(std::forward<T>(tensors))), ...);
  }
  void reset() override {}
  void pretty_print(std::ostream& stream) const override {
    detail::print_parameters(stream, "ParameterList", parameters_);
  }
  std::shared_ptr<Module> clone(const std::optional<at::Device>& device = std::nullopt) const override;

  void append(Tensor parameter) {
    const bool grad = parameter.requires_grad();
    register_parameter(std::to_string(size()), std::move(parameter), grad);
  }
  void append(const OrderedDict<std::string, Tensor>::Item& pair) {
    register_parameter(pair.key(), pair.value(), pair->requires_grad());
  }
  // Adds parameters, or those of another list, under the numbers that follow.
  template <class Container>
  void extend(const Container& container) {
    if constexpr (requires { container.begin()->value(); })
      for (const auto& p : container) append(p.value());
    else
      for (const auto& p : container) append(p);
  }
  ParameterListImpl& operator+=(const ParameterListImpl& other) {
    extend(other);
    return *this;
  }
  auto begin() { return parameters_.begin(); }
  auto begin() const { return parameters_.begin(); }
  auto end() { return parameters_.end(); }
  auto end() const { return parameters_.end(); }
  Tensor& at(size_t i) {
    TORCH_CHECK(i < size(), "Index out of range: ", i, " of ", size(), " parameters");
    return parameters_[i].value();
  }
  const Tensor& at(size_t i) const { return const_cast<ParameterListImpl*>(this)->at(i); }
  Tensor& operator[](size_t i) { return at(i); }
  const Tensor& operator[](size_t i) const { return at(i); }
  size_t size() const noexcept { return parameters_.size(); }
  bool is_empty() const noexcept { return parameters_.is_empty(); }
};
TORCH_MODULE(ParameterList);

class ParameterDictImpl : public Cloneable<ParameterDictImpl> {
 public:
  using Item = OrderedDict<std::string, Tensor>::Item;

  ParameterDictImpl() = default;
  explicit ParameterDictImpl(const OrderedDict<std::string, Tensor>& parameters) {
    for (const auto& p : parameters) insert(p.key(), p.value());
  }
  void reset() override {}
  void pretty_print(std::ostream& stream) const override {
    detail::print_parameters(stream, "ParameterDict", parameters_);
  }
  std::shared_ptr<Module> clone(const std::optional<at::Device>& device = std::nullopt) const override;

  Tensor& insert(std::string key, Tensor parameter) {
    const bool grad = parameter.requires_grad();
    return register_parameter(std::move(key), std::move(parameter), grad);
  }
  Tensor pop(const std::string& key) {
    Tensor parameter = parameters_[key];
    parameters_.erase(key);
    return parameter;
  }
  std::vector<std::string> keys() const { return parameters_.keys(); }
  std::vector<Tensor> values() const { return parameters_.values(); }
  std::vector<std::pair<std::string, Tensor>> items() const { return parameters_.pairs(); }
  auto begin() { return parameters_.begin(); }
  auto begin() const { return parameters_.begin(); }
  auto end() { return parameters_.end(); }
  auto end() const { return parameters_.end(); }
  size_t size() const noexcept { return parameters_.size(); }
  bool empty() const noexcept { return parameters_.is_empty(); }
  bool contains(const std::string& key) const noexcept { return parameters_.contains(key); }
  void clear() { parameters_.clear(); }
  // New values in the places of those of the same names; Error for a name that is not there.
  template <class Container>
  void update(const Container& container) {
    for (const auto& p : container) parameters_[p.key()] = p.value();
  }
  const Tensor& get(const std::string& key) const { return parameters_[key]; }
  Tensor& get(const std::string& key) { return parameters_[key]; }
  const Tensor& operator[](const std::string& key) const { return get(key); }
  Tensor& operator[](const std::string& key) { return get(key); }
};
TORCH_MODULE(ParameterDict);

namespace detail {
template <class List>
std::shared_ptr<Module> copied_parameters(const List& list, const std::optional<at::Device>& device) {
  at::NoGradGuard no_grad;
  auto copy = std::make_shared<List>();
  for (const auto& p : list) {
    Tensor value = device ? p->to(*device, p->scalar_type()).clone() : p->clone();
    copy->register_parameter(p.key(), value, p->requires_grad());
  }
  return copy;
}
}  // namespace detail
inline std::shared_ptr<Module> ParameterListImpl::clone(const std::optional<at::Device>& device) const {
  return detail::copied_parameters(*this, device);
}
inline std::shared_ptr<Module> ParameterDictImpl::clone(const std::optional<at::Device>& device) const {
  return detail::copied_parameters(*this, device);
}

// A function of one tensor as a module, with what it takes besides: Functional(torch::leaky_relu, 0.1).
class FunctionalImpl : public Cloneable<FunctionalImpl> {
 public:
  using Function = std::function<Tensor(Tensor)>;

  explicit FunctionalImpl(Function function) : function_(std::move(function)) {}
  template <class F, class... A>
  requires(sizeof...(A) > 0) explicit FunctionalImpl(F function, A... arguments)
      : function_([function, arguments...](Tensor input) -> Tensor { return function(input, arguments...); }) {}
  void reset() override {}
  void pretty_print(std::ostream& stream) const override { stream << "torch::nn::Functional()"; }
  Tensor forward(Tensor input) { return function_(std::move(input)); }
  Tensor operator()(Tensor input) { return function_(std::move(input)); }
  bool is_serializable() const override { return false; }

 private:
  Function function_;
};
TORCH_MODULE(Functional);

}  // namespace torch::nn
