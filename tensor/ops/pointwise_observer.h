// What an operator asks of the elementwise engine: seen by calling it with tensors on Meta, which compute nothing.
#pragma once

#include "tensor/ops/pointwise.h"

namespace tessera::pointwise {

struct Observer {
  // `result` is what the call will return.
  virtual void saw(const PointwiseOp& op, Inputs inputs, Params params, const Tensor& result) = 0;

 protected:
  ~Observer() = default;
};
// Of this thread; null: nobody looks.
extern thread_local constinit Observer* observer TESSERA_TLS;

}  // namespace tessera::pointwise
