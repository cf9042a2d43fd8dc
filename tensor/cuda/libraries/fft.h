// cuFFT, found at run time.
#pragma once

#if TESSERA_CUDA_EMULATED
#include "tensor/cuda/emulation/cufft.h"
#else
#include <cufftXt.h>
#endif

namespace tessera::cuda {

// The functions of cuFFT that are used.
struct Fft {
  decltype(&cufftCreate) create;
  decltype(&cufftDestroy) destroy;
  decltype(&cufftSetAutoAllocation) set_auto_allocation;
  decltype(&cufftXtMakePlanMany) make_plan;
  decltype(&cufftSetStream) set_stream;
  decltype(&cufftSetWorkArea) set_work_area;
  decltype(&cufftXtExec) exec;
};

// Throws where the library is missing, saying why.
const Fft& fft();
void check_fft(cufftResult s, const char* what);

}  // namespace tessera::cuda
