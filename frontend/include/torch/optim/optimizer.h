// What all optimizers have: groups of parameters with options of their own, a state for each parameter, and how both
// are written to archives. A class of options or of state is a list of fields (TESSERA_OPTIM_FIELDS); all else follows.
#pragma once

#include <torch/arg.h>
#include <torch/serialize/archive.h>
#include <torch/types.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

namespace torch::optim {

using LossClosure = std::function<Tensor()>;

namespace detail {

template <class D>
concept HasFields = requires(D& d) {
  d.fields([](auto&&...) {});
};

// A field as an entry of an archive; tensors that are not there have none.
template <class T>
void write_field(serialize::OutputArchive& archive, const char* name, const T& value) {
  if constexpr (std::is_same_v<T, Tensor>) {
    if (value.defined()) archive.write(name, IValue(value));
  } else if constexpr (requires { value.begin()->defined(); }) {
    archive.write(name, IValue(std::vector<Tensor>(value.begin(), value.end())));
  } else if constexpr (requires { value->begin()->defined(); }) {
    if (value) archive.write(name, IValue(*value));
  } else if constexpr (requires { value.has_value(); }) {
    archive.write(name, value ? IValue(*value) : IValue());
  } else {
    archive.write(name, IValue(value));
  }
}
// False: the archive has no such entry.
template <class T>
bool read_field(serialize::InputArchive& archive, const char* name, T& value) {
  IValue found;
  if (!archive.try_read(name, found)) return false;
  if constexpr (std::is_same_v<T, Tensor>) {
    if (!found.isTensor()) return false;
    value = found.toTensor();
  } else if constexpr (requires { value.begin()->defined(); }) {
    const std::vector<Tensor> list = found.toTensorVector();
    value.assign(list.begin(), list.end());
  } else if constexpr (requires { value->begin()->defined(); }) {
    value = found.toTensorVector();
  } else if constexpr (std::is_same_v<T, std::tuple<double, double>>) {
    const auto items = found.toTuple()->elements();
    value = {items[0].toDouble(), items[1].toDouble()};
  } else if constexpr (std::is_same_v<T, std::tuple<double, double, double>>) {
    const auto items = found.toTuple()->elements();
    value = {items[0].toDouble(), items[1].toDouble(), items[2].toDouble()};
  } else if constexpr (requires { value.has_value(); }) {
    if (found.isNone())
      value = std::nullopt;
    else
      value = found.template to<typename T::value_type>();
  } else {
    value = found.template to<T>();
  }
  return true;
}

template <class T>
bool same_field(const T& a, const T& b) {
  if constexpr (std::is_same_v<T, Tensor>)
    return a.defined() == b.defined() && (!a.defined() || a.equal(b));
  else if constexpr (requires { a.begin()->defined(); })
    return std::ranges::equal(a, b, same_field<Tensor>);
  else if constexpr (requires { a->begin()->defined(); })
    return a.has_value() == b.has_value() && (!a || same_field(*a, *b));
  else
    return a == b;
}
template <class D>
bool same_fields(const D& a, const D& b) {
  std::vector<const void*> of_a;
  const_cast<D&>(a).fields([&](const char*, const auto& value, bool) { of_a.push_back(&value); });
  bool same = true;
  size_t i = 0;
  const_cast<D&>(b).fields([&](const char*, const auto& value, bool) {
    using T = std::remove_cvref_t<decltype(value)>;
    same = same && same_field(*static_cast<const T*>(of_a[i++]), value);
  });
  return same;
}

// Documented fields must be in an archive; what else there is may be missing, and so may tensors (not all of them).
struct FieldReader {
  serialize::InputArchive& archive;
  int tensors = 0, read = 0;
  template <class T>
  void operator()(const char* name, T& value, bool required) {
    const bool found = read_field(archive, name, value);
    if constexpr (std::is_same_v<T, Tensor>)
      ++tensors, read += found;
    else
      TORCH_CHECK(found || !required, "No such serialized option or state '", name, "'");
  }
  void finish() const { TORCH_CHECK(!tensors || read, "the archive has no state of this kind of optimizer"); }
};

template <class D, class Base>
struct Cloneable : Base {
  std::unique_ptr<Base> clone() const override { return std::make_unique<D>(static_cast<const D&>(*this)); }
  void serialize(serialize::OutputArchive& archive) const override {
    if constexpr (HasFields<D>)
      const_cast<D&>(static_cast<const D&>(*this)).fields([&](const char* name, const auto& value, bool) {
        write_field(archive, name, value);
      });
    else
      Base::serialize(archive);
  }
  void serialize(serialize::InputArchive& archive) override {
    if constexpr (HasFields<D>) {
      FieldReader reader{archive};
      static_cast<D&>(*this).fields(reader);
      reader.finish();
    } else {
      Base::serialize(archive);
    }
  }
};

[[noreturn]] inline void not_overridden(const char* what) {
  TORCH_CHECK(false, what, " is not implemented for this class: override it");
  std::abort();
}

}  // namespace detail

class OptimizerParamState {
 public:
  OptimizerParamState() = default;
  OptimizerParamState(const OptimizerParamState&) = default;
  OptimizerParamState& operator=(const OptimizerParamState&) = default;
  virtual ~OptimizerParamState() = default;
  virtual std::unique_ptr<OptimizerParamState> clone() const { detail::not_overridden("OptimizerParamState::clone"); }
  virtual void serialize(serialize::InputArchive&) { detail::not_overridden("OptimizerParamState::serialize"); }
  virtual void serialize(serialize::OutputArchive&) const { detail::not_overridden("OptimizerParamState::serialize"); }
};
template <class D>
class OptimizerCloneableParamState : public detail::Cloneable<D, OptimizerParamState> {
  friend bool operator==(const D& a, const D& b) requires detail::HasFields<D> { return detail::same_fields(a, b); }
};

class OptimizerOptions {
 public:
  OptimizerOptions() = default;
  OptimizerOptions(const OptimizerOptions&) = default;
  OptimizerOptions& operator=(const OptimizerOptions&) = default;
  virtual ~OptimizerOptions() = default;
  virtual std::unique_ptr<OptimizerOptions> clone() const { detail::not_overridden("OptimizerOptions::clone"); }
  virtual void serialize(serialize::InputArchive&) { detail::not_overridden("OptimizerOptions::serialize"); }
  virtual void serialize(serialize::OutputArchive&) const { detail::not_overridden("OptimizerOptions::serialize"); }
  virtual double get_lr() const { detail::not_overridden("OptimizerOptions::get_lr"); }
  virtual void set_lr(const double) { detail::not_overridden("OptimizerOptions::set_lr"); }
  // What schedules move against the rate: the momentum, or the first of the betas; null where there is neither.
  virtual double* momentum_or_beta() { return nullptr; }
  // The rate before any schedule changed it.
  std::optional<double> initial_lr;
  // Error for values that the documents exclude.
  virtual void check() const {}
};
template <class D>
class OptimizerCloneableOptions : public detail::Cloneable<D, OptimizerOptions> {
  D& self() { return static_cast<D&>(*this); }

 public:
  double get_lr() const override {
    if constexpr (requires(const D& d) { d.lr(); })
      return static_cast<const D&>(*this).lr();
    else
      return OptimizerOptions::get_lr();
  }
  void set_lr(const double lr) override {
    if constexpr (requires(D & d) { d.lr(1.0); })
      self().lr(lr);
    else
      OptimizerOptions::set_lr(lr);
  }
  double* momentum_or_beta() override {
    if constexpr (requires(D & d) { std::get<0>(d.betas()); })
      return &std::get<0>(self().betas());
    else if constexpr (requires(D & d) { d.momentum(); })
      return &self().momentum();
    else
      return nullptr;
  }
};

// LIST(X, E): X(type, name, default) is a documented field, E one that Python has besides.
#define TESSERA_OPTIM_ARG(T, name, ...) TORCH_ARG(T, name) = __VA_ARGS__;
#define TESSERA_OPTIM_FIELD(T, name, ...) f(#name, name##_, true);
#define TESSERA_OPTIM_EXTRA(T, name, ...) f(#name, name##_, false);
#define TESSERA_OPTIM_FIELDS(LIST)                 \
  LIST(TESSERA_OPTIM_ARG, TESSERA_OPTIM_ARG)       \
 public:                                           \
  template <class F>                               \
  void fields(F&& f) {                             \
    LIST(TESSERA_OPTIM_FIELD, TESSERA_OPTIM_EXTRA) \
  }

class OptimizerParamGroup {
 public:
  OptimizerParamGroup(const OptimizerParamGroup& o)
      : params_(o.params_), options_(o.options_ ? o.options_->clone() : nullptr) {}
  OptimizerParamGroup(OptimizerParamGroup&&) = default;
  OptimizerParamGroup(std::vector<Tensor> params) : params_(std::move(params)) {}
  OptimizerParamGroup(std::vector<Tensor> params, std::unique_ptr<OptimizerOptions> options)
      : params_(std::move(params)), options_(std::move(options)) {}
  OptimizerParamGroup& operator=(const OptimizerParamGroup& o) { return *this = OptimizerParamGroup(o); }
  OptimizerParamGroup& operator=(OptimizerParamGroup&&) = default;

  bool has_options() const { return options_ != nullptr; }
  OptimizerOptions& options() {
    TORCH_CHECK(has_options(), "the parameter group has no options");
    return *options_;
  }
  const OptimizerOptions& options() const { return const_cast<OptimizerParamGroup*>(this)->options(); }
  void set_options(std::unique_ptr<OptimizerOptions> options) { options_ = std::move(options); }
  std::vector<Tensor>& params() { return params_; }
  const std::vector<Tensor>& params() const { return params_; }

 protected:
  std::vector<Tensor> params_;
  std::unique_ptr<OptimizerOptions> options_;
};

class Optimizer {
 public:
  using StateMap = std::unordered_map<void*, std::unique_ptr<OptimizerParamState>>;
  Optimizer(const Optimizer&) = delete;
  Optimizer(Optimizer&&) = default;
  // Groups without options take the defaults.
  explicit Optimizer(const std::vector<OptimizerParamGroup>& groups, std::unique_ptr<OptimizerOptions> defaults)
      : defaults_(std::move(defaults)) {
    if (defaults_) defaults_->check();
    for (const OptimizerParamGroup& group : groups) Optimizer::add_param_group(group);
  }
  explicit Optimizer(std::vector<Tensor> parameters, std::unique_ptr<OptimizerOptions> defaults)
      : Optimizer(std::vector<OptimizerParamGroup>{OptimizerParamGroup(std::move(parameters))}, std::move(defaults)) {}
  virtual ~Optimizer() = default;

  // Error for parameters that are no leaves, or in another group.
  void add_param_group(const OptimizerParamGroup& added) {
    OptimizerParamGroup group(added);
    if (!group.has_options()) {
      TORCH_CHECK(defaults_, "a parameter group without options in an optimizer without defaults");
      group.set_options(defaults_->clone());
    }
    group.options().check();
    for (const Tensor& p : group.params()) {
      TORCH_CHECK(p.defined(), "can't optimize an undefined Tensor");
      TORCH_CHECK(p.is_leaf(), "can't optimize a non-leaf Tensor");
      for (const OptimizerParamGroup& other : param_groups_)
        for (const Tensor& q : other.params())
          TORCH_CHECK(!p.is_same(q), "some parameters appear in more than one parameter group");
    }
    param_groups_.push_back(std::move(group));
  }

  // Some optimizers evaluate the closure, which computes the loss and its gradients, several times.
  virtual Tensor step(LossClosure closure = nullptr) = 0;

  void add_parameters(const std::vector<Tensor>& parameters) {
    std::vector<Tensor>& first = param_groups_.at(0).params();
    first.insert(first.end(), parameters.begin(), parameters.end());
  }
  void zero_grad(bool set_to_none = true) {
    const tessera::NoGradGuard no_grad;
    for (const OptimizerParamGroup& group : param_groups_)
      for (const Tensor& p : group.params()) {
        if (!p.grad().defined()) continue;
        p.mutable_grad() = set_to_none ? Tensor() : at::zeros_like(p.grad().detach());
      }
  }

  // Of the first group.
  const std::vector<Tensor>& parameters() const { return param_groups_.at(0).params(); }
  std::vector<Tensor>& parameters() { return param_groups_.at(0).params(); }
  // The number of parameters of all groups.
  size_t size() const noexcept {
    size_t n = 0;
    for (const OptimizerParamGroup& group : param_groups_) n += group.params().size();
    return n;
  }

  OptimizerOptions& defaults() noexcept { return *defaults_; }
  const OptimizerOptions& defaults() const noexcept { return *defaults_; }
  std::vector<OptimizerParamGroup>& param_groups() noexcept { return param_groups_; }
  const std::vector<OptimizerParamGroup>& param_groups() const noexcept { return param_groups_; }
  // By the address of the parameter's TensorImpl.
  StateMap& state() noexcept { return state_; }
  const StateMap& state() const noexcept { return state_; }

  virtual void save(serialize::OutputArchive&) const {}
  virtual void load(serialize::InputArchive&) {}

 protected:
  std::vector<OptimizerParamGroup> param_groups_;
  StateMap state_;
  std::unique_ptr<OptimizerOptions> defaults_;
};

inline serialize::OutputArchive& operator<<(serialize::OutputArchive& archive, const Optimizer& optimizer) {
  optimizer.save(archive);
  return archive;
}
inline serialize::InputArchive& operator>>(serialize::InputArchive& archive, Optimizer& optimizer) {
  optimizer.load(archive);
  return archive;
}

// Parameters go by names that are unique within the archive.
inline void serialize(serialize::OutputArchive& archive, const Optimizer& optimizer) {
  const auto key = [](const Tensor& p) { return std::to_string(reinterpret_cast<uintptr_t>(p.impl())); };
  const auto count = [](size_t n) { return Tensor(tessera::scalar_to_tensor(int64_t(n), tessera::DType::kInt64)); };
  archive.write("pytorch_version", IValue(std::string("1.5.0")));
  torch::serialize::OutputArchive state(archive.compilation_unit()), groups(archive.compilation_unit());
  const auto& all = optimizer.param_groups();
  groups.write("param_groups/size", count(all.size()));
  for (size_t i = 0; i < all.size(); ++i) {
    torch::serialize::OutputArchive group(archive.compilation_unit()), options(archive.compilation_unit());
    const std::vector<Tensor>& params = all[i].params();
    group.write("params/size", count(params.size()));
    for (size_t k = 0; k < params.size(); ++k) {
      group.write("params/" + std::to_string(k), IValue(key(params[k])));
      const auto found = optimizer.state().find(params[k].impl());
      if (found == optimizer.state().end()) continue;
      torch::serialize::OutputArchive one(archive.compilation_unit());
      found->second->serialize(one);
      state.write(key(params[k]), one);
    }
    all[i].options().serialize(options);
    group.write("options", options);
    groups.write("param_groups/" + std::to_string(i), group);
  }
  archive.write("state", state);
  archive.write("param_groups", groups);
}

// Nothing is changed if the archive does not fit.
template <class State>
void serialize(serialize::InputArchive& archive, Optimizer& optimizer) {
  IValue version;
  TORCH_CHECK(archive.try_read("pytorch_version", version), "the archive has no optimizer's state");
  torch::serialize::InputArchive states, groups;
  archive.read("state", states);
  archive.read("param_groups", groups);
  const auto count = [](torch::serialize::InputArchive& from, const std::string& name) {
    Tensor n;
    from.read(name, n);
    return static_cast<size_t>(n.item<int64_t>());
  };
  auto& all = optimizer.param_groups();
  TORCH_CHECK(count(groups, "param_groups/size") == all.size(),
              "loaded state dict has a different number of parameter groups");
  std::vector<std::unique_ptr<OptimizerOptions>> options;
  Optimizer::StateMap read;
  for (size_t i = 0; i < all.size(); ++i) {
    torch::serialize::InputArchive group, saved;
    groups.read("param_groups/" + std::to_string(i), group);
    TORCH_CHECK(count(group, "params/size") == all[i].params().size(),
                "loaded state dict contains a parameter group that has a different size than the optimizer's parameter "
                "group");
    for (size_t k = 0; k < all[i].params().size(); ++k) {
      IValue key;
      torch::serialize::InputArchive one;
      group.read("params/" + std::to_string(k), key);
      if (!states.try_read(std::string(key.toStringRef()), one)) continue;
      auto state = std::make_unique<State>();
      state->serialize(one);
      read[all[i].params()[k].impl()] = std::move(state);
    }
    group.read("options", saved);
    options.push_back(all[i].options().clone());
    options.back()->serialize(saved);
  }
  for (size_t i = 0; i < all.size(); ++i) all[i].set_options(std::move(options[i]));
  optimizer.state() = std::move(read);
}

namespace detail {

inline Tensor loss_of(const LossClosure& closure) {
  if (!closure) return {};
  const tessera::NoGradGuard with_gradients(true);
  return closure();
}
inline double number(const Tensor& t) { return t.item<double>(); }
inline Tensor real_view(const Tensor& t) { return t.defined() && t.is_complex() ? at::view_as_real(t) : t; }
inline bool is_dense(const Tensor& t) { return t.layout() == kStrided; }
inline void at_least_zero(const char* what, double value) { TORCH_CHECK(value >= 0, "Invalid ", what, ": ", value); }
inline void check_betas(const std::tuple<double, double>& betas) {
  const double both[] = {std::get<0>(betas), std::get<1>(betas)};
  for (int i = 0; i < 2; ++i)
    TORCH_CHECK(0 <= both[i] && both[i] < 1, "Invalid beta parameter at index ", i, ": ", both[i]);
}

// An optimizer of class D. Its step asks `D::update(p, grad, state, options)` for each parameter with a gradient, or
// D does step_group() itself.
template <class D, class O, class S>
class Typed : public Optimizer {
 public:
  explicit Typed(const std::vector<OptimizerParamGroup>& groups, O defaults = {})
      : Optimizer(groups, std::make_unique<O>(std::move(defaults))) {
    begin();
  }
  explicit Typed(std::vector<Tensor> params, O defaults = {})
      : Optimizer(std::move(params), std::make_unique<O>(std::move(defaults))) {
    begin();
  }
  Tensor step(LossClosure closure = nullptr) override {
    const tessera::NoGradGuard no_grad;
    Tensor loss = loss_of(closure);
    for (OptimizerParamGroup& group : param_groups_)
      static_cast<D*>(this)->step_group(group, static_cast<O&>(group.options()));
    return loss;
  }
  void save(serialize::OutputArchive& archive) const override { optim::serialize(archive, *this); }
  void load(serialize::InputArchive& archive) override { optim::serialize<S>(archive, *this); }

 protected:
  // The state of a parameter; a new one is made by `make` (and kept).
  template <class F>
  S& state_of(const Tensor& p, F make) {
    std::unique_ptr<OptimizerParamState>& kept = state_[p.impl()];
    if (!kept) {
      auto made = std::make_unique<S>();
      make(*made);
      kept = std::move(made);
    }
    return static_cast<S&>(*kept);
  }
  void step_group(OptimizerParamGroup& group, const O& o) {
    for (const Tensor& p : group.params()) {
      Tensor grad = p.grad();
      if (!grad.defined()) continue;
      if constexpr (!requires { D::kSparse; })
        TORCH_CHECK(is_dense(grad), "the optimizer does not support sparse gradients");
      S& s = state_of(p, [&](S& made) { D::start(p, made, o); });
      s.step(s.step() + 1);
      bool coupled = true;
      if constexpr (requires { o.decoupled_weight_decay(); }) coupled = !o.decoupled_weight_decay();
      if (o.maximize()) grad = grad.neg();
      if constexpr (
          requires { o.weight_decay(); } && !requires { D::kOwnDecay; }) {
        if (o.weight_decay() != 0 && coupled) grad = grad.add(p, o.weight_decay());
        if (o.weight_decay() != 0 && !coupled) p.mul_(1 - o.lr() * o.weight_decay());
      }
      D::update(p, grad, s, o);
    }
  }

 private:
  friend D;
  void begin() {
    if constexpr (requires { D::prepare(*this); }) D::prepare(*this);
  }
};

}  // namespace detail
}  // namespace torch::optim
