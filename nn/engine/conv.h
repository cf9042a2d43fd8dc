// Convolution, sliding blocks: which functions serve a device.
#pragma once

#include "nn/cpu/conv/conv.h"
#include "tensor/engine/engine.h"

#define TESSERA_NN_CONV_ENGINES(F) \
  F(conv_channels_last)            \
  F(conv_forward)                  \
  F(conv_backward_input)           \
  F(conv_backward_weight)          \
  F(im2col)                        \
  F(col2im)

namespace tessera::nn {

struct ConvEngines : EngineTable<ConvEngines> {
  TESSERA_NN_CONV_ENGINES(TESSERA_ENGINE_MEMBER)
  // y = max(0, convolution + bias + alpha z) in one step; bias and z may be null. False: not of such sizes, and nothing
  // was done. Null: a device has no such step.
  bool (*conv_relu)(DType dtype, const cpu::ConvGeometry& g, const void* x, const void* w, const void* bias,
                    const void* z, double alpha, void* y) = nullptr;
};

}  // namespace tessera::nn

namespace tessera::engine_entries {
#define TESSERA_ENTRY(name) inline constexpr auto name = &nn::ConvEngines::name;
TESSERA_NN_CONV_ENGINES(TESSERA_ENTRY)
#undef TESSERA_ENTRY
}  // namespace tessera::engine_entries
