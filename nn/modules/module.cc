#include "nn/modules/module.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <unordered_map>
#include <unordered_set>

#include "tensor/ops/create_ops.h"

namespace tessera::nn {

Tensor Module::forward(const Tensor&) {
  tessera::internal::raise<NotImplementedError>("Module [", name(), "] is missing the required \"forward\" function");
}

void Module::check_name(const std::string& name, const char* what) const {
  TESSERA_CHECK_VALUE(!name.empty(), what, " name can't be empty string \"\"");
  TESSERA_CHECK_VALUE(name.find('.') == std::string::npos, what, " name can't contain \".\", got: ", name);
  const auto taken = [&](const auto& list, auto key) {
    return std::any_of(list.begin(), list.end(), [&](const auto& e) { return key(e) == name; });
  };
  const auto first = [](const auto& e) -> const std::string& { return e.first; };
  TESSERA_CHECK_VALUE(!taken(parameters_, first) && !taken(children_, first) &&
                          !taken(buffers_, [](const Buffer& b) -> const std::string& { return b.name; }),
                      "attribute '", name, "' already exists");
}

Tensor Module::register_parameter(std::string name, const Tensor& parameter, bool requires_grad) {
  check_name(name, "parameter");
  if (parameter.defined()) {
    TESSERA_CHECK_VALUE(parameter.is_leaf(), "Cannot assign non-leaf Tensor to parameter '", name,
                        "'. Model parameters must be created explicitly.");
    parameter.requires_grad_(requires_grad);
  }
  parameters_.emplace_back(std::move(name), parameter);
  return parameter;
}

Tensor Module::register_buffer(std::string name, const Tensor& buffer, bool persistent) {
  check_name(name, "buffer");
  buffers_.push_back({std::move(name), buffer, persistent});
  return buffer;
}

void Module::add_child(std::string name, std::shared_ptr<Module> module) {
  TESSERA_CHECK_TYPE(module, "module '", name, "' is null");
  check_name(name, "module");
  bool cycle = false;
  module->apply([&](Module& m) { cycle |= &m == this; });
  TESSERA_CHECK_VALUE(!cycle, "module '", name, "' contains the module that it is registered in");
  children_.emplace_back(std::move(name), std::move(module));
}

void Module::collect(const std::string& prefix, bool parameters, bool persistent_buffers, bool all_buffers,
                     bool recurse, NamedTensors* out) const {
  if (parameters)
    for (const auto& [name, t] : parameters_)
      if (t.defined()) out->emplace_back(prefix + name, t);
  for (const Buffer& b : buffers_)
    if (b.tensor.defined() && (all_buffers || (persistent_buffers && b.persistent)))
      out->emplace_back(prefix + b.name, b.tensor);
  if (recurse)
    for (const auto& [name, child] : children_)
      child->collect(prefix + name + ".", parameters, persistent_buffers, all_buffers, true, out);
}

NamedTensors Module::without_duplicates(NamedTensors list) {
  std::unordered_set<const TensorImpl*> seen;
  std::erase_if(list, [&](const auto& entry) { return !seen.insert(entry.second.impl()).second; });
  return list;
}

NamedTensors Module::named_parameters(bool recurse) const {
  NamedTensors list;
  collect("", true, false, false, recurse, &list);
  return without_duplicates(std::move(list));
}

NamedTensors Module::named_buffers(bool recurse) const {
  NamedTensors list;
  collect("", false, false, true, recurse, &list);
  return without_duplicates(std::move(list));
}

std::vector<Tensor> Module::parameters(bool recurse) const {
  std::vector<Tensor> list;
  for (auto& entry : named_parameters(recurse)) list.push_back(std::move(entry.second));
  return list;
}

std::vector<Tensor> Module::buffers(bool recurse) const {
  std::vector<Tensor> list;
  for (auto& entry : named_buffers(recurse)) list.push_back(std::move(entry.second));
  return list;
}

NamedTensors Module::state_dict() const {
  NamedTensors list;
  collect("", true, true, false, true, &list);
  for (auto& [name, t] : list) t = Tensor(t.impl()->shallow_copy(true));
  return list;
}

void Module::load_state_dict(const NamedTensors& state, bool strict) {
  NamedTensors own;
  collect("", true, true, false, true, &own);
  std::unordered_map<std::string_view, const Tensor*> given;
  for (const auto& [name, t] : state) given[name] = &t;
  std::string missing, unexpected, wrong;
  const auto mention = [](std::string* list, std::string_view name) {
    *list += (list->empty() ? "\"" : ", \"") + std::string(name) + "\"";
  };
  std::vector<std::pair<Tensor, Tensor>> copies;
  for (const auto& [name, target] : own) {
    const auto found = given.find(name);
    if (found == given.end()) {
      if (!name.ends_with("num_batches_tracked")) mention(&missing, name);  // old checkpoints have no such count
      continue;
    }
    const Tensor source = *found->second;
    given.erase(found);
    // A scalar of old checkpoints may have one dimension of size 1.
    const bool scalar = target.dim() == 0 && source.defined() && source.dim() == 1 && source.size(0) == 1;
    if (!source.defined() || (!scalar && !std::equal(source.sizes().begin(), source.sizes().end(),
                                                     target.sizes().begin(), target.sizes().end())))
      wrong += "\n\tsize mismatch for " + name + ": copying a param with shape torch.Size(" +
               (source.defined() ? shape_string(source.sizes()) : "undefined") +
               ") from checkpoint, the shape in current model is torch.Size(" + shape_string(target.sizes()) + ").";
    else
      copies.emplace_back(target,
                          scalar ? make_view(source, IntVector{}, IntVector{}, source.storage_offset()) : source);
  }
  for (const auto& [name, t] : state)
    if (given.count(name)) mention(&unexpected, name);
  std::string errors;
  if (strict && !missing.empty()) errors += "\n\tMissing key(s) in state_dict: " + missing + ". ";
  if (strict && !unexpected.empty()) errors += "\n\tUnexpected key(s) in state_dict: " + unexpected + ". ";
  errors += wrong;
  TESSERA_CHECK(errors.empty(), "Error(s) in loading state_dict for ", name(), ":", errors);
  NoGradGuard no_grad;
  for (const auto& [target, source] : copies) copy_(target, source);
}

Module& Module::train(bool on) {
  return apply([on](Module& m) { m.training_ = on; });
}

Module& Module::to(DType dtype) {
  TESSERA_CHECK_TYPE(is_floating_point(dtype) || tessera::is_complex(dtype),
                     "nn.Module.to only accepts floating point or complex dtypes, but got desired dtype=torch.",
                     name_of(dtype));
  NamedTensors own;
  collect("", true, false, true, true, &own);
  NoGradGuard no_grad;
  for (const auto& [name, t] : without_duplicates(std::move(own))) {
    if ((!t.is_floating_point() && !t.is_complex()) || t.dtype() == dtype) continue;
    const Tensor converted = empty_kernel(t.sizes(), dtype);
    copy_(converted, t);
    const Tensor grad = t.grad();
    if (grad.defined()) {
      const Tensor converted_grad = empty_kernel(grad.sizes(), dtype);
      copy_(converted_grad, grad);
      t.set_grad(converted_grad);
    }
    // The tensor keeps its identity: members of modules and lists of optimizers go on naming it.
    t.impl()->take_contents_of(*converted.impl());
  }
  return *this;
}

void Module::zero_grad(bool set_to_none) {
  NoGradGuard no_grad;
  for (const Tensor& p : parameters()) {
    if (!p.grad().defined()) continue;
    if (set_to_none)
      p.set_grad(Tensor());
    else
      zero_(p.grad());
  }
}

Module& Module::requires_grad_(bool on) {
  for (const Tensor& p : parameters()) p.requires_grad_(on);
  return *this;
}

std::string Module::repr() const {
  const std::string extra = extra_repr();
  std::string s = name();
  if (children_.empty()) return s + "(" + extra + ")";
  s += "(\n";
  if (!extra.empty()) s += "  " + extra + "\n";
  for (const auto& [child_name, child] : children_) {
    s += "  (" + child_name + "): ";
    for (char c : child->repr()) {
      s += c;
      if (c == '\n') s += "  ";
    }
    s += "\n";
  }
  return s + ")";
}

namespace internal {

std::string repr(bool b) { return b ? "True" : "False"; }

std::string repr(double d) {
  // The fewest digits that read back as the same number.
  char text[40];
  for (int digits = 1; digits <= 17; ++digits) {
    std::snprintf(text, sizeof text, "%.*g", digits, d);
    if (std::strtod(text, nullptr) == d) break;
  }
  std::string s = text;
  if (s.find_first_not_of("-0123456789") == std::string::npos) s += ".0";
  return s;
}

std::string repr(IntList list) {
  std::string s = "(";
  for (size_t i = 0; i < list.size(); ++i) s += (i ? ", " : "") + std::to_string(list[i]);
  return s + (list.size() == 1 ? ",)" : ")");
}

}  // namespace internal

}  // namespace tessera::nn
