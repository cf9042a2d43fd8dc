// What the callees and expressions of activation.textproto refer to.
#pragma once

#include <string_view>

#include "tensor/core/tensor.h"

namespace tessera::kernels {

inline constexpr double kSeluAlpha = 1.6732632423543772848170429916717, kSeluScale = 1.0507009873554804934193349852946;

// "tanh" or "none"; Error otherwise.
bool is_tanh(std::string_view approximate);

}  // namespace tessera::kernels
