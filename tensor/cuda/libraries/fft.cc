#include "tensor/cuda/libraries/fft.h"

#include "tensor/core/error.h"
#include "tensor/cuda/libraries/libraries.h"
#if TESSERA_CUDA_EMULATED
#include "tensor/cuda/emulation/libraries.h"
#endif

namespace tessera::cuda {
namespace {

#if TESSERA_CUDA_EMULATED
Library<Fft> load() { return {emulation::fft_functions(), true, {}}; }
#else
Library<Fft> load() {
  return load_library<Fft>({"libcufft.so.12", "libcufft.so.11"}, [](Fft& f, const FunctionsOf& get) {
    get(f.create, "cufftCreate");
    get(f.destroy, "cufftDestroy");
    get(f.set_auto_allocation, "cufftSetAutoAllocation");
    get(f.make_plan, "cufftXtMakePlanMany");
    get(f.set_stream, "cufftSetStream");
    get(f.set_work_area, "cufftSetWorkArea");
    get(f.exec, "cufftXtExec");
  });
}
#endif

// The library has no function for this.
const char* status_name(cufftResult s) {
  switch (s) {
    case CUFFT_INVALID_PLAN:
      return "CUFFT_INVALID_PLAN";
    case CUFFT_ALLOC_FAILED:
      return "CUFFT_ALLOC_FAILED";
    case CUFFT_INVALID_VALUE:
      return "CUFFT_INVALID_VALUE";
    case CUFFT_INTERNAL_ERROR:
      return "CUFFT_INTERNAL_ERROR";
    case CUFFT_EXEC_FAILED:
      return "CUFFT_EXEC_FAILED";
    case CUFFT_SETUP_FAILED:
      return "CUFFT_SETUP_FAILED";
    case CUFFT_INVALID_SIZE:
      return "CUFFT_INVALID_SIZE";
    case CUFFT_NOT_SUPPORTED:
      return "CUFFT_NOT_SUPPORTED";
    default:
      return "an unknown status";
  }
}

}  // namespace

const Fft& fft() {
  static const auto& l = *new Library<Fft>(load());
  TESSERA_CHECK(l.found, "cuFFT, which computes Fourier transforms on CUDA devices, cannot be loaded: ", l.why);
  return l.functions;
}

void check_fft(cufftResult s, const char* what) {
  TESSERA_CHECK(s == CUFFT_SUCCESS, "cuFFT error: ", status_name(s), " (", static_cast<int64_t>(s), ") when calling `",
                what, "`");
}

}  // namespace tessera::cuda
