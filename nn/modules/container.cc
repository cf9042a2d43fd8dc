#include "nn/modules/layers.h"
#include "tensor/ops/view_ops.h"

namespace tessera::nn {

Tensor Flatten::forward(const Tensor& input) { return flatten(input, start_dim, end_dim); }

std::string Flatten::extra_repr() const {
  return "start_dim=" + std::to_string(start_dim) + ", end_dim=" + std::to_string(end_dim);
}

Sequential& Sequential::append(std::shared_ptr<Module> module) {
  register_module(std::to_string(size()), std::move(module));
  return *this;
}

Module& Sequential::operator[](size_t i) const {
  TESSERA_CHECK_INDEX(i < size(), "index ", i, " is out of range");
  return *named_children()[i].second;
}

Tensor Sequential::forward(const Tensor& input) {
  Tensor x = input;
  for (const auto& [name, module] : named_children()) x = module->forward(x);
  return x;
}

}  // namespace tessera::nn
