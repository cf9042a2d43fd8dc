// Normalisation of layers, batches and groups, below the Tensor. All arrays are contiguous.
#pragma once

#include <cstdint>

#include "tensor/core/dtype.h"

namespace tessera::cpu {

// Rows of n elements: y = (x - mean) * rstd * weight + bias; mean and rstd (one per row, float32 for reduced floats,
// else dtype) are written. weight/bias may be null.
void layer_norm_forward(DType dtype, int64_t rows, int64_t n, double eps, const void* x, const void* weight,
                        const void* bias, void* y, void* mean, void* rstd);
// dx, dweight, dbias may each be null.
void layer_norm_backward(DType dtype, int64_t rows, int64_t n, const void* dy, const void* x, const void* mean,
                         const void* rstd, const void* weight, void* dx, void* dweight, void* dbias);
// x is (batch, channels, inner). weight/bias may be null. param_dtype: dtype of weight, bias and the running statistics
// (float32 with reduced x, else x's).
void batch_norm_stats(DType dtype, int64_t batch, int64_t channels, int64_t inner, const void* x, double* mean,
                      double* var_biased);
void batch_norm_apply(DType dtype, DType param_dtype, int64_t batch, int64_t channels, int64_t inner, const void* x,
                      const double* mean, const double* invstd, const void* weight, const void* bias, void* y);
// train: gradients flow through the batch statistics. dx, dweight, dbias may be null.
void batch_norm_backward(DType dtype, DType param_dtype, int64_t batch, int64_t channels, int64_t inner, bool train,
                         const void* dy, const void* x, const double* mean, const double* invstd, const void* weight,
                         void* dx, void* dweight, void* dbias);
// x is (batch, channels, inner), `groups` groups; mean, rstd: batch * groups (float32 for reduced floats, else dtype).
void group_norm_forward(DType dtype, int64_t batch, int64_t channels, int64_t inner, int64_t groups, double eps,
                        const void* x, const void* weight, const void* bias, void* y, void* mean, void* rstd);
void group_norm_backward(DType dtype, int64_t batch, int64_t channels, int64_t inner, int64_t groups, const void* dy,
                         const void* x, const void* mean, const void* rstd, const void* weight, void* dx, void* dweight,
                         void* dbias);

}  // namespace tessera::cpu
