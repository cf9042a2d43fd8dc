// The elementwise ops as this shared object names them: stand-ins for the core's constants, which it cannot see.
#include "distributions/cpu/ops.h"
#include "nn/cpu/ops.h"
#include "python/bindings/cuda/module.h"
#include "special/cpu/ops.h"
#include "tensor/cpu/pointwise/pointwise.h"
#include "tensor/cpu/pointwise/pointwise_ops.h"

namespace tessera {

namespace pw {
#define TESSERA_PW(name) const PointwiseOp name{#name};
#include "python/bindings/device_pointwise_ops.inc"
#undef TESSERA_PW
}  // namespace pw

namespace python {

std::span<const PointwiseOp* const> pointwise_standins() {
  static const PointwiseOp* const list[] = {
#define TESSERA_PW(name) &pw::name,
#include "python/bindings/device_pointwise_ops.inc"
#undef TESSERA_PW
  };
  return list;
}

}  // namespace python
}  // namespace tessera
