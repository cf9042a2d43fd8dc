#include "optim/optimizers/optimizer.h"

#include <algorithm>
#include <cstring>

#include "tensor/ops/create_ops.h"

namespace tessera::optim {

void check_at_least_zero(double value, const char* name) {
  TESSERA_CHECK_VALUE(value >= 0, "Invalid ", name, ": ", value);
}

void Optimizer::add_params(std::vector<Tensor> params) {
  TESSERA_CHECK_VALUE(!params.empty(), "optimizer got an empty parameter list");
  std::vector<const TensorImpl*> all;
  for (const Group& g : groups_)
    for (const Tensor& p : g.params) all.push_back(p.impl());
  for (const Tensor& p : params) {
    TESSERA_CHECK_TYPE(p.defined(), "optimizer can only optimize Tensors, but one of the params is undefined");
    TESSERA_CHECK_VALUE(p.is_leaf(), "can't optimize a non-leaf Tensor");
    all.push_back(p.impl());
  }
  std::sort(all.begin(), all.end());
  TESSERA_CHECK_VALUE(std::adjacent_find(all.begin(), all.end()) == all.end(),
                      "some parameters appear in more than one parameter group, or twice in one");
  std::vector<State> state(params.size());
  groups_.push_back({std::move(params), std::move(state)});
}

Optimizer::Active Optimizer::active(size_t group) const {
  Active result;
  const std::vector<Tensor>& params = groups_[group].params;
  for (size_t i = 0; i < params.size(); ++i) {
    if (!params[i].grad().defined()) continue;
    result.params.push_back(params[i]);
    result.grads.push_back(params[i].grad());
    result.numbers.push_back(i);
  }
  return result;
}

void Optimizer::zero_grad(bool set_to_none) {
  NoGradGuard no_grad;
  for (const Group& g : groups_) {
    for (const Tensor& p : g.params) {
      if (!p.grad().defined()) continue;
      if (set_to_none)
        p.set_grad(Tensor());
      else
        zero_(p.grad());
    }
  }
}

NamedTensors Optimizer::state_dict() const {
  NamedTensors result;
  size_t number = 0;
  for (const Group& g : groups_)
    for (const State& s : g.state) {
      for (int k = 0; k < kMaxState; ++k)
        if (s[k].defined()) result.emplace_back(std::to_string(number) + "." + names_[k], s[k]);
      ++number;
    }
  return result;
}

void Optimizer::load_state_dict(const NamedTensors& state) {
  std::vector<std::pair<Tensor, State*>> params;
  std::vector<std::vector<State>> loaded;
  for (Group& g : groups_) loaded.emplace_back(g.params.size());
  for (size_t i = 0; i < groups_.size(); ++i)
    for (size_t j = 0; j < groups_[i].params.size(); ++j) params.emplace_back(groups_[i].params[j], &loaded[i][j]);
  NoGradGuard no_grad;
  for (const auto& [name, t] : state) {
    const size_t dot = name.find('.');
    size_t number = params.size();
    if (dot > 0 && dot < 10 && name.find_first_not_of("0123456789") == dot)
      number = static_cast<size_t>(std::stoul(name.substr(0, dot)));
    int k = 0;
    while (k < kMaxState &&
           !(names_[k] && dot != std::string::npos && name.compare(dot + 1, std::string::npos, names_[k]) == 0))
      ++k;
    TESSERA_CHECK(number < params.size() && k < kMaxState, "the state '", name,
                  "' belongs to no parameter of this optimizer");
    const bool counter = std::strcmp(names_[k], "step") == 0;
    const Tensor& param = params[number].first;
    const IntList expected = counter ? IntList() : param.sizes();
    TESSERA_CHECK(t.defined() && std::equal(t.sizes().begin(), t.sizes().end(), expected.begin(), expected.end()),
                  "the state '", name, "' should have shape ", shape_string(expected));
    const Tensor own = empty_tensor(expected, counter ? IntVector{} : preserved_strides(param),
                                    counter ? DType::kFloat32 : param.dtype(), Device());
    copy_(own, t);
    (*params[number].second)[k] = own;
  }
  for (size_t i = 0; i < groups_.size(); ++i) groups_[i].state = std::move(loaded[i]);
}

}  // namespace tessera::optim
