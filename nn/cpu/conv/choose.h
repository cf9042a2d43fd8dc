// Which way a convolution takes. All of the choice is here, and it depends on the sizes, the dtype and the machine's
// instructions alone.
#pragma once

#include "nn/cpu/conv/conv.h"
#include "nn/cpu/conv/conv_direct.h"

namespace tessera::cpu::internal {

enum class ConvDirection { kForward, kInput, kWeight };  // the result, or the gradient that is computed

enum class ConvWay {
  kPanels,     // bfloat16 on dot products (conv_bf16.h, direct_forward of uint16_t)
  kWidened,    // all in float32 (complex64) by the way of that dtype, rounded once
  kDepthwise,  // sums of shifted rows (conv_depthwise.h)
  kDirect,     // vectors of channels over the image where it lies (conv_direct.h); then see DirectWay
  kProduct,    // the image is a matrix (conv_product.h); then see suits_strips
  kImplicit,   // one product whose columns are packed from the images (conv_implicit.h)
  kColumns,    // products over blocks of columns in memory (conv_columns.h)
};

// What the machine brings to the choice.
struct ConvMachine {
  int64_t lanes;  // floats of a vector: 4, 8 or 16
  bool bf16;      // dot products of bfloat16
};
// This one, as TESSERA_SIMD lowers it. Asked for bfloat16 only where that is the dtype: the answer may cost a request
// to the system.
ConvMachine conv_machine(DType dtype);

ConvWay choose_way(ConvDirection direction, DType dtype, const ConvGeometry& g, const ConvMachine& m);

// Whether the ways with vectors of channels take a convolution whose channels come last (g.channels_last).
bool suits_channels_last(DType dtype, const ConvGeometry& g, const ConvMachine& m);

// How the sums of a direct convolution of float32 (of a group, and of a phase of a strided one) are computed.
enum class DirectWay {
  kNarrow,    // vectors of positions (conv_narrow.cc)
  kWinograd,  // fewer multiplications in tiles of 2 x 2 results (conv_winograd.cc); kTiles where not all are finite
  kTiles,     // conv_direct.cc, conv_direct_weight.cc
};
DirectWay choose_direct(const DirectConv<float>& c, const ConvMachine& m);
DirectWay choose_direct(const DirectWeight& c, const ConvMachine& m);

// Whether a product with images reads them where they lie (conv_pointwise.cc) rather than packed by the general one.
bool suits_strips(const PointwiseConv& c, const ConvMachine& m);

}  // namespace tessera::cpu::internal
