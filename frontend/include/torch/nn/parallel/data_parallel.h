// Modules on several devices.
#pragma once

#include <torch/nn/module.h>

namespace torch::nn::parallel {

// The module's result on the device, brought to output_device. Error for more than one device.
template <class M>
Tensor data_parallel(M module, Tensor input, std::optional<std::vector<at::Device>> devices = std::nullopt,
                     std::optional<at::Device> output_device = std::nullopt, int64_t dim = 0) {
  TORCH_CHECK(devices && !devices->empty(), "Expected at least one device: give them as the third argument");
  TORCH_CHECK_NOT_IMPLEMENTED(devices->size() == 1, "data_parallel over ", devices->size(), " devices (along dim ", dim,
                              ") is not supported: give one");
  const at::Device device = devices->front();
  module->to(device);
  Tensor output = module->forward(input.to(device, input.scalar_type()));
  return output.to(output_device.value_or(device), output.scalar_type());
}

}  // namespace torch::nn::parallel
