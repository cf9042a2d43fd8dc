// Device libraries are extension modules of their own (tessera._cuda), loaded when a tensor is first wanted on such a
// device. They are given the core's tables to fill.
#pragma once

#include <span>

#include "python/bindings/common.h"
#include "foreach/engine/engines.h"
#include "nn/engine/engines.h"
#include "optim/engine/engines.h"
#include "tensor/core/device_hooks.h"
#include "tensor/engine/engines.h"

namespace tessera::python {

// What the capsule "tessera._C._device_api" points to. The library's copy of the core is not this one: it works below
// the Tensor and reaches the core through this alone.
struct DeviceApi {
  static constexpr int kVersion = 2;
  int version;
  // The tables of engines of a device type, one for each library that has any.
  Engines* (*engines)(DeviceType t);
  nn::Engines* (*nn_engines)(DeviceType t);
  optim::Engines* (*optim_engines)(DeviceType t);
  foreach ::Engines* (*foreach_engines)(DeviceType t);
  DeviceHooks* (*hooks)(DeviceType t);
  const Generator& (*default_generator)(Device d);
  // The constants by which elementwise ops are known, in the order of device_pointwise_ops.inc.
  std::span<const PointwiseOp* const> pointwise_ops;
};

void init_device_library(PyObject* module);

}  // namespace tessera::python
