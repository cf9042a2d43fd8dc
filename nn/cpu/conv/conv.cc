// Convolution: each direction by the way that choose.h says.
#include "nn/cpu/conv/conv.h"

#include <complex>
#include <type_traits>

#include "tensor/core/parallel.h"
#include "nn/cpu/conv/choose.h"
#include "nn/cpu/conv/conv_bf16.h"
#include "nn/cpu/conv/conv_columns.h"
#include "nn/cpu/conv/conv_depthwise.h"
#include "nn/cpu/conv/conv_direct.h"
#include "nn/cpu/conv/conv_implicit.h"
#include "nn/cpu/conv/conv_product.h"
#include "nn/cpu/conv/conv_sizes.h"
#include "tensor/cpu/pointwise/pointwise.h"
#include "tensor/cpu/support/types.h"
#include "tensor/cpu/support/scratch.h"

namespace tessera::cpu {
namespace {

using namespace internal;  // NOLINT: helpers of these kernels

constexpr const char* kName = "slow_conv2d_cpu";  // the name that the documented messages use

// ---- Reduced floats: all in float32, rounded once ----

constexpr int64_t kConvertGrain = 16384;

template <class T>
class WideCopy {
 public:
  WideCopy(const void* from, int64_t n) : data_(n) {
    const T* const in = static_cast<const T*>(from);
    if (!in) return;
    parallel_for(n, kConvertGrain, [&](int64_t b, int64_t e) {
      convert(DTypeOf<Acc<T>>::value, data_.get() + b, DTypeOf<T>::value, in + b, e - b);
    });
  }
  Acc<T>* get() const { return data_.get(); }

 private:
  ScratchArray<Acc<T>> data_;
};
template <class T>
void narrow(const Acc<T>* from, void* to, int64_t n) {
  parallel_for(n, kConvertGrain, [&](int64_t b, int64_t e) {
    convert(DTypeOf<T>::value, static_cast<T*>(to) + b, DTypeOf<Acc<T>>::value, from + b, e - b);
  });
}

const uint16_t* bits(const void* p) { return static_cast<const uint16_t*>(p); }

// ---- The convolutions of float and double ----

template <class T>
void forward_real(ConvWay way, const ConvGeometry& g, const T* x, const T* w, const T* bias, T* y) {
  if (way == ConvWay::kDepthwise) return depthwise_forward(g, x, w, bias, y);
  if constexpr (std::is_same_v<T, float>) {
    if (way == ConvWay::kDirect) return direct_forward<float>(g, g.channels_last, x, w, bias, y);
  }
  if (way == ConvWay::kProduct) return pointwise_product(g, false, x, w, bias, y);
  implicit_forward(g, x, w, bias, y);
}

template <class T>
void backward_input_real(ConvWay way, const ConvGeometry& g, const T* dy, const T* w, T* dx) {
  if (way == ConvWay::kDepthwise) return depthwise_backward_input(g, dy, w, dx);
  if constexpr (std::is_same_v<T, float>) {
    if (way == ConvWay::kDirect) return direct_backward_input<float>(g, g.channels_last, dy, w, dx);
  }
  if (way == ConvWay::kProduct) return pointwise_product<T>(g, true, dy, w, nullptr, dx);
  implicit_backward_input(g, dy, w, dx);
}

template <class T>
void backward_weight_real(ConvWay way, const ConvGeometry& g, const T* dy, const T* x, T* dw) {
  if constexpr (std::is_same_v<T, float>) {
    if (way == ConvWay::kDirect) return direct_backward_weight(g, g.channels_last, dy, x, dw);
  }
  depthwise_backward_weight(g, dy, x, dw);
}

template <class T>
inline constexpr bool kIsReal = std::is_same_v<T, float> || std::is_same_v<T, double>;

// fn(T{}, the way) for the type that dtype's sums are kept in.
template <class F>
void visit_way(ConvDirection direction, DType dtype, const ConvGeometry& g, F&& fn) {
  visit_addable(kName, dtype, [&](auto tag) { fn(tag, choose_way(direction, dtype, g, conv_machine(dtype))); });
}

}  // namespace

bool conv_channels_last(DType dtype, const ConvGeometry& g) {
  ConvGeometry last = g;
  last.channels_last = true;
  return suits_channels_last(dtype, last, conv_machine(dtype));
}

void conv_forward(DType dtype, const ConvGeometry& g, const void* x, const void* w, const void* bias, void* y) {
  visit_way(ConvDirection::kForward, dtype, g, [&](auto tag, ConvWay way) {
    using T = decltype(tag);
    if constexpr (kIsReduced<T>) {
      if (way == ConvWay::kPanels)
        return direct_forward<uint16_t>(g, g.channels_last, bits(x), bits(w), bits(bias), static_cast<uint16_t*>(y));
      if (way == ConvWay::kDirect)
        return direct_forward<float>(g, g.channels_last, {dtype, x}, {dtype, w}, {dtype, bias}, {dtype, y});
      const ConvElements n(g);
      WideCopy<T> wide_x(x, n.x), wide_w(w, n.w), wide_bias(bias, bias ? g.out_channels : 0), wide_y(nullptr, n.y);
      conv_forward(DTypeOf<Acc<T>>::value, g, wide_x.get(), wide_w.get(), bias ? wide_bias.get() : nullptr,
                   wide_y.get());
      return narrow<T>(wide_y.get(), y, n.y);
    } else {
      if constexpr (kIsReal<T>) {
        if (way != ConvWay::kColumns)
          return forward_real(way, g, static_cast<const T*>(x), static_cast<const T*>(w), static_cast<const T*>(bias),
                              static_cast<T*>(y));
      }
      columns_forward(dtype, g, x, w, bias, y);
    }
  });
}

void conv_backward_input(DType dtype, const ConvGeometry& g, const void* dy, const void* w, void* dx) {
  visit_way(ConvDirection::kInput, dtype, g, [&](auto tag, ConvWay way) {
    using T = decltype(tag);
    if constexpr (kIsReduced<T>) {
      if (way == ConvWay::kPanels)
        return direct_backward_input<uint16_t>(g, g.channels_last, bits(dy), bits(w), static_cast<uint16_t*>(dx));
      if (way == ConvWay::kDirect)
        return direct_backward_input<float>(g, g.channels_last, {dtype, dy}, {dtype, w}, {dtype, dx});
      const ConvElements n(g);
      WideCopy<T> wide_dy(dy, n.y), wide_w(w, n.w), wide_dx(nullptr, n.x);
      conv_backward_input(DTypeOf<Acc<T>>::value, g, wide_dy.get(), wide_w.get(), wide_dx.get());
      return narrow<T>(wide_dx.get(), dx, n.x);
    } else {
      if constexpr (kIsReal<T>) {
        if (way != ConvWay::kColumns)
          return backward_input_real(way, g, static_cast<const T*>(dy), static_cast<const T*>(w), static_cast<T*>(dx));
      }
      columns_backward_input<T>(dtype, g, dy, w, dx);
    }
  });
}

void conv_backward_weight(DType dtype, const ConvGeometry& g, const void* dy, const void* x, void* dw) {
  visit_way(ConvDirection::kWeight, dtype, g, [&](auto tag, ConvWay way) {
    using T = decltype(tag);
    if constexpr (kIsReduced<T>) {
      if (way == ConvWay::kPanels) return bf16_backward_weight(g, bits(dy), bits(x), static_cast<uint16_t*>(dw));
      if (way == ConvWay::kDirect)
        return direct_backward_weight(g, g.channels_last, {dtype, dy}, {dtype, x}, {dtype, dw});
      const ConvElements n(g);
      WideCopy<T> wide_dy(dy, n.y), wide_x(x, n.x), wide_dw(nullptr, n.w);
      conv_backward_weight(DTypeOf<Acc<T>>::value, g, wide_dy.get(), wide_x.get(), wide_dw.get());
      return narrow<T>(wide_dw.get(), dw, n.w);
    } else {
      if constexpr (kIsReal<T>) {
        if (way != ConvWay::kColumns)
          return backward_weight_real(way, g, static_cast<const T*>(dy), static_cast<const T*>(x), static_cast<T*>(dw));
      }
      columns_backward_weight<T>(dtype, g, dy, x, dw);
    }
  });
}

}  // namespace tessera::cpu
