// The functions of NVIDIA's libraries on the emulated device: plain loops with the documented meaning.
#pragma once

#include "tensor/cuda/libraries/blas.h"
#include "tensor/cuda/libraries/blas_lt.h"
#include "tensor/cuda/libraries/dnn.h"
#include "tensor/cuda/libraries/fft.h"

namespace tessera::cuda::emulation {

// What lies behind the libraries' opaque pointers is made and destroyed alike, and success is 0 for all of them.
template <class Object, class Status, class Opaque, class... Rest>
Status make(Opaque* o, Rest...) {
  *o = reinterpret_cast<Opaque>(new Object{});
  return Status{};
}
template <class Object, class Status, class Opaque>
Status destroy(Opaque o) {
  delete reinterpret_cast<Object*>(o);
  return Status{};
}
struct LibraryHandle {
  cudaStream_t stream;
};
template <class Opaque>
cudaStream_t& stream_of(Opaque handle) {
  return reinterpret_cast<LibraryHandle*>(handle)->stream;
}
template <class Status, class Opaque>
Status set_stream(Opaque handle, cudaStream_t stream) {
  stream_of(handle) = stream;
  return Status{};
}

Blas blas_functions();
BlasLt blas_lt_functions();
Dnn dnn_functions();
Fft fft_functions();

}  // namespace tessera::cuda::emulation
