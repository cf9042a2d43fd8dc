// Normalisation: which functions serve a device.
#pragma once

#include "nn/cpu/norm.h"
#include "tensor/engine/engine.h"

#define TESSERA_NN_NORM_ENGINES(F) \
  F(layer_norm_forward)            \
  F(layer_norm_backward)           \
  F(batch_norm_stats)              \
  F(batch_norm_apply)              \
  F(batch_norm_backward)           \
  F(group_norm_forward)            \
  F(group_norm_backward)

namespace tessera::nn {

// Numbers of the channels in device memory, of any floating dtype; none where `data` is null.
struct ChannelNumbers {
  void* data = nullptr;
  DType dtype = DType::kFloat32;
};
// A whole batch normalisation: x (batch, channels, inner), of dtype. training: with the statistics of the batch, which
// are brought into the running ones and given to save_mean and save_invstd; else with the running ones.
struct BatchNormCall {
  DType dtype;
  int64_t batch, channels, inner;
  bool training;
  double momentum, eps;
  const void* x;
  void* y;
  ChannelNumbers weight, bias, running_mean, running_var, save_mean, save_invstd;
};
// Its gradient. invstd of training is given; in evaluation `var` is the running variance. Null results: not wanted.
struct BatchNormGradientCall {
  DType dtype;
  int64_t batch, channels, inner;
  bool training;
  double eps;
  const void *dy, *x;
  void* dx;
  ChannelNumbers weight, mean, invstd_or_var, dweight, dbias;
};
// Rows of n elements: y = x * rstd * weight with rstd = 1 / sqrt(mean of squares + eps), which is written (float32 for
// reduced floats, else dtype). weight may be null; n is at most rms_norm_longest.
using RmsNormForward = void(DType dtype, int64_t rows, int64_t n, double eps, const void* x, const void* weight,
                            void* y, void* rstd);
using RmsNormBackward = void(DType dtype, int64_t rows, int64_t n, const void* dy, const void* x, const void* rstd,
                             const void* weight, void* dx, void* dweight);

struct NormEngines : EngineTable<NormEngines> {
  TESSERA_NN_NORM_ENGINES(TESSERA_ENGINE_MEMBER)
  // What a device does in fewer steps than these; null: by them.
  void (*batch_norm)(const BatchNormCall& call) = nullptr;
  void (*batch_norm_gradient)(const BatchNormGradientCall& call) = nullptr;
  RmsNormForward* rms_norm_forward = nullptr;
  RmsNormBackward* rms_norm_backward = nullptr;
  int64_t rms_norm_longest = 0;
};

}  // namespace tessera::nn

namespace tessera::engine_entries {
#define TESSERA_ENTRY(name) inline constexpr auto name = &nn::NormEngines::name;
TESSERA_NN_NORM_ENGINES(TESSERA_ENTRY)
#undef TESSERA_ENTRY
}  // namespace tessera::engine_entries
