// What the extension modules of devices (tessera._cuda) are given by tessera._C.
#pragma once

#include <span>
#include <tuple>

#include "fft/engine/fft.h"
#include "foreach/engine/engines.h"
#include "linalg/engine/eigen.h"
#include "linalg/engine/factor.h"
#include "linalg/engine/functions.h"
#include "linalg/engine/orthogonal.h"
#include "linalg/engine/spectral.h"
#include "nn/engine/attention.h"
#include "nn/engine/conv.h"
#include "nn/engine/embedding.h"
#include "nn/engine/loss.h"
#include "nn/engine/norm.h"
#include "nn/engine/pool.h"
#include "nn/engine/resample.h"
#include "nn/engine/rnn.h"
#include "optim/engine/engines.h"
#include "tensor/core/device_hooks.h"
#include "tensor/core/rare/device_tracer.h"
#include "tensor/engine/device.h"
#include "tensor/engine/functions.h"
#include "tensor/engine/gemm.h"
#include "tensor/engine/index.h"
#include "tensor/engine/pointwise.h"
#include "tensor/engine/random.h"
#include "tensor/engine/reduce.h"
#include "tensor/engine/sort.h"

namespace tessera::python {

// The tables of engines of a device type, one for each family of every library.
template <class... Tables>
using TablesOf = std::tuple<Tables* (*)(DeviceType t)...>;
using EngineTables =
    TablesOf<PointwiseEngines, ReduceEngines, SortEngines, IndexEngines, FunctionEngines, RandomEngines, GemmEngines,
             nn::AttentionEngines, nn::ConvEngines, nn::PoolEngines, nn::NormEngines, nn::EmbeddingEngines,
             nn::LossEngines, nn::ResampleEngines, nn::RnnEngines, optim::Engines, foreach ::Engines, fft::FftEngines,
             linalg::FactorEngines, linalg::OrthogonalEngines, linalg::SpectralEngines, linalg::EigenEngines,
             linalg::FunctionEngines>;

// What the capsule "tessera._C._device_api" points to. The library's copy of the core is not this one: it works below
// the Tensor and reaches the core through this alone.
struct DeviceApi {
  static constexpr int kVersion = 9;
  int version;
  EngineTables engines;
  DeviceTable* (*device)(DeviceType t);
  DeviceHooks* (*hooks)(DeviceType t);
  const Generator& (*default_generator)(Device d);
  // The constants by which elementwise ops are known, in the order of device_pointwise_ops.inc.
  std::span<const PointwiseOp* const> pointwise_ops;
  void (*set_tracer)(DeviceType t, const DeviceTracer* tracer);
};

}  // namespace tessera::python
