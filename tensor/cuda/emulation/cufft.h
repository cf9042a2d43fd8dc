// What fft.h uses of cuFFT's interface, for the emulated device (see cublas.h); fft.cc here has what is called.
#pragma once

#include <cuda_runtime_api.h>
#include <library_types.h>

#include <cstddef>

enum cufftResult {
  CUFFT_SUCCESS = 0,
  CUFFT_INVALID_PLAN = 1,
  CUFFT_ALLOC_FAILED = 2,
  CUFFT_INVALID_VALUE = 4,
  CUFFT_INTERNAL_ERROR = 5,
  CUFFT_EXEC_FAILED = 6,
  CUFFT_SETUP_FAILED = 7,
  CUFFT_INVALID_SIZE = 8,
  CUFFT_NOT_SUPPORTED = 16
};
using cufftHandle = int;
constexpr int CUFFT_FORWARD = -1, CUFFT_INVERSE = 1;

cufftResult cufftCreate(cufftHandle*);
cufftResult cufftDestroy(cufftHandle);
cufftResult cufftSetAutoAllocation(cufftHandle, int);
// Rank and sizes; for each side how memory is laid out (null: dense), the distance of numbers and of transforms, and
// the type; the number of transforms, the bytes of the work area, the type that is computed in.
cufftResult cufftXtMakePlanMany(cufftHandle, int, long long*, long long*, long long, long long, cudaDataType,
                                long long*, long long, long long, cudaDataType, long long, size_t*, cudaDataType);
cufftResult cufftSetStream(cufftHandle, cudaStream_t);
cufftResult cufftSetWorkArea(cufftHandle, void*);
cufftResult cufftXtExec(cufftHandle, void*, void*, int);
