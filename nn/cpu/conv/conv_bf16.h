// Convolution of bfloat16 on the CPU's dot products, beside direct_conv of conv_direct.h.
#pragma once

#include "nn/cpu/conv/conv.h"

namespace tessera::cpu::internal {

// Whether this machine has such instructions; the functions here, and direct_conv of uint16_t, need them.
bool has_bf16_conv();

// The gradient of the weights of all groups. Tensors as g.channels_last says.
void bf16_backward_weight(const ConvGeometry& g, const uint16_t* dy, const uint16_t* x, uint16_t* dw);

}  // namespace tessera::cpu::internal
