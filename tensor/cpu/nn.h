// Neural-network kernels below the Tensor: convolution, pooling, normalisation, embedding, losses. Tensors here are contiguous (the caller makes them so)
// unless strides are given, in NCHW order, batch first; 1-d and 3-d problems are given as 2-d/3-d with leading sizes of 1.
#pragma once

#include <cstdint>

#include "tensor/core/dtype.h"

namespace tessera::cpu {

// Spatial problem of up to 3 dimensions (depth, height, width); unused leading dimensions have size 1, kernel 1, stride 1, padding 0, dilation 1.
struct ConvGeometry {
  int64_t batch, in_channels, out_channels, groups;
  int64_t in_size[3], kernel[3], stride[3], padding[3], dilation[3], out_size[3];
  // All tensors have their channels last in memory: x and y (batch, ..., channels), the weights (out_channels, ..., in_channels / groups).
  // Only where the device's conv_channels_last says so.
  bool channels_last = false;
};
// Whether the convolutions of the CPU take these with channels last.
bool conv_channels_last(DType dtype, const ConvGeometry& g);

// y[n,o,...] = bias[o] + sum w[o,i,...] x[n,i,...]; weight is (out_channels, in_channels / groups, *kernel); bias may be null. float32, float64, complex64/128, integers;
// float16/bfloat16 with float32 accumulation. Deterministic at any thread count.
void conv_forward(DType dtype, const ConvGeometry& g, const void* x, const void* w, const void* bias, void* y);
// Gradient with respect to the input: also the transposed convolution's forward.
void conv_backward_input(DType dtype, const ConvGeometry& g, const void* dy, const void* w, void* dx);
void conv_backward_weight(DType dtype, const ConvGeometry& g, const void* dy, const void* x, void* dw);

struct PoolGeometry {
  int64_t planes;  // batch * channels
  int64_t in_size[3], kernel[3], stride[3], padding[3], dilation[3], out_size[3];
};
// NaN propagates; indices (int64, may be null) are flat in the input plane, the first maximum wins.
void max_pool_forward(DType dtype, const PoolGeometry& g, const void* x, void* y, int64_t* indices);
// dx (zeroed here) += dy at indices.
void max_pool_backward(DType dtype, int64_t planes, int64_t in_plane, int64_t out_plane, const void* dy, const int64_t* indices, void* dx);
// divisor_override 0: none.
void avg_pool_forward(DType dtype, const PoolGeometry& g, bool count_include_pad, int64_t divisor_override, const void* x, void* y);
void avg_pool_backward(DType dtype, const PoolGeometry& g, bool count_include_pad, int64_t divisor_override, const void* dy, void* dx);
void adaptive_avg_pool_forward(DType dtype, int64_t planes, const int64_t in[3], const int64_t out[3], const void* x, void* y);
void adaptive_avg_pool_backward(DType dtype, int64_t planes, const int64_t in[3], const int64_t out[3], const void* dy, void* dx);
void adaptive_max_pool_forward(DType dtype, int64_t planes, const int64_t in[3], const int64_t out[3], const void* x, void* y, int64_t* indices);

// Sliding blocks: cols is (batch, channels * kernel, out positions).
void im2col(DType dtype, const ConvGeometry& g, const void* x, void* cols);
// The adjoint; x is zeroed first.
void col2im(DType dtype, const ConvGeometry& g, const void* cols, void* x);

// Rows of n elements: y = (x - mean) * rstd * weight + bias; mean and rstd (one per row, float32 for reduced floats, else dtype) are written. weight/bias may be null.
void layer_norm_forward(DType dtype, int64_t rows, int64_t n, double eps, const void* x, const void* weight, const void* bias, void* y, void* mean, void* rstd);
// dx, dweight, dbias may each be null.
void layer_norm_backward(DType dtype, int64_t rows, int64_t n, const void* dy, const void* x, const void* mean, const void* rstd, const void* weight, void* dx, void* dweight, void* dbias);
// x is (batch, channels, inner). weight/bias may be null. param_dtype: dtype of weight, bias and the running statistics (float32 with reduced x, else x's).
void batch_norm_stats(DType dtype, int64_t batch, int64_t channels, int64_t inner, const void* x, double* mean, double* var_biased);
void batch_norm_apply(DType dtype, DType param_dtype, int64_t batch, int64_t channels, int64_t inner, const void* x, const double* mean, const double* invstd, const void* weight,
                      const void* bias, void* y);
// train: gradients flow through the batch statistics. dx, dweight, dbias may be null.
void batch_norm_backward(DType dtype, DType param_dtype, int64_t batch, int64_t channels, int64_t inner, bool train, const void* dy, const void* x, const double* mean,
                         const double* invstd, const void* weight, void* dx, void* dweight, void* dbias);
// x is (batch, channels, inner), `groups` groups; mean, rstd: batch * groups (float32 for reduced floats, else dtype).
void group_norm_forward(DType dtype, int64_t batch, int64_t channels, int64_t inner, int64_t groups, double eps, const void* x, const void* weight, const void* bias, void* y,
                        void* mean, void* rstd);
void group_norm_backward(DType dtype, int64_t batch, int64_t channels, int64_t inner, int64_t groups, const void* dy, const void* x, const void* mean, const void* rstd,
                         const void* weight, void* dx, void* dweight, void* dbias);

// dweight (rows_total x dim, zeroed here) += dy rows at index; rows equal to padding_idx (>= 0) get nothing; scale_by_freq divides by the row's count.
void embedding_backward(DType dtype, const void* dy, const int64_t* index, int64_t n, int64_t dim, int64_t rows_total, int64_t padding_idx, bool scale_by_freq, void* dweight);

enum class LossReduction : int64_t { kNone = 0, kMean = 1, kSum = 2 };
// x: (batch, classes, inner) log-probabilities, target int64 (batch, inner), weight (classes) or null. out: batch*inner elements for kNone, else 1; total_weight: 1 element.
// A target outside [0, classes) other than ignore_index: IndexError "Target 7 is out of bounds." before anything is written.
void nll_loss_forward(DType dtype, int64_t batch, int64_t classes, int64_t inner, const void* x, const int64_t* target, const void* weight, LossReduction reduction, int64_t ignore_index,
                      void* out, void* total_weight);
void nll_loss_backward(DType dtype, int64_t batch, int64_t classes, int64_t inner, const void* dy, const int64_t* target, const void* weight, LossReduction reduction,
                       int64_t ignore_index, const void* total_weight, void* dx);

// One optimizer step over one parameter of n elements, all arrays contiguous of dtype, arithmetic as documented for each optimizer; null state means "not kept".
struct SgdStep { double lr, momentum, dampening, weight_decay; bool nesterov, maximize, first_step; };
void sgd_step(DType dtype, int64_t n, const SgdStep& s, void* param, const void* grad, void* momentum_buffer);
struct AdamStep { double lr, beta1, beta2, eps, weight_decay; bool decoupled_decay, amsgrad, maximize; double step; };
void adam_step(DType dtype, int64_t n, const AdamStep& s, void* param, const void* grad, void* exp_avg, void* exp_avg_sq, void* max_exp_avg_sq);

}  // namespace tessera::cpu
