// Initial values of parameters: each function works in place, without gradients, and returns its tensor. The numbers
// drawn for a seed are those of the Python functions.
#pragma once

#include <string_view>
#include <utility>

#include "tensor/core/tensor.h"

namespace tessera::nn::init {

enum class FanMode { kFanIn, kFanOut };

// The recommended gain of a nonlinearity ("linear", "conv2d", "sigmoid", "tanh", "relu", "leaky_relu", "selu" ...);
// param: the slope of leaky_relu. ValueError for an unknown name.
double calculate_gain(std::string_view nonlinearity, double param = 0.01);
// ValueError below two dimensions.
std::pair<int64_t, int64_t> fan_in_and_fan_out(const Tensor& tensor);

Tensor uniform_(const Tensor& tensor, double a = 0, double b = 1, const Generator& generator = {});
Tensor normal_(const Tensor& tensor, double mean = 0, double std = 1, const Generator& generator = {});
Tensor constant_(const Tensor& tensor, double value);
Tensor ones_(const Tensor& tensor);
Tensor zeros_(const Tensor& tensor);
// Glorot and Bengio 2010.
Tensor xavier_uniform_(const Tensor& tensor, double gain = 1, const Generator& generator = {});
Tensor xavier_normal_(const Tensor& tensor, double gain = 1, const Generator& generator = {});
// He et al. 2015.
Tensor kaiming_uniform_(const Tensor& tensor, double a = 0, FanMode mode = FanMode::kFanIn,
                        std::string_view nonlinearity = "leaky_relu", const Generator& generator = {});
Tensor kaiming_normal_(const Tensor& tensor, double a = 0, FanMode mode = FanMode::kFanIn,
                       std::string_view nonlinearity = "leaky_relu", const Generator& generator = {});

// N(mean, std^2) restricted to [a, b]: uniform numbers between the bounds' quantiles, through the inverse of the
// distribution function.
Tensor trunc_normal_(const Tensor& tensor, double mean = 0, double std = 1, double a = -2, double b = 2,
                     const Generator& generator = {});
// The identity matrix; ValueError unless the tensor is 2-D.
Tensor eye_(const Tensor& tensor);
// Convolution weights (3-D to 5-D) that pass their input channels on, in each group as many as possible. ValueError if
// groups does not divide dim 0.
Tensor dirac_(const Tensor& tensor, int64_t groups = 1);
// N(0, std^2) with a share `sparsity` of each column zero (Martens 2010); ValueError unless 2-D.
Tensor sparse_(const Tensor& tensor, double sparsity, double std = 0.01, const Generator& generator = {});

// What Linear and convolutions start from: the weight uniform in +-1 / sqrt(fan_in), then the bias (may be undefined)
// in the same bounds.
void linear_defaults_(const Tensor& weight, const Tensor& bias);

}  // namespace tessera::nn::init
