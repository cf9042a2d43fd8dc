#include "linalg/cuda/solver.h"

#include <atomic>
#include <string>

#include "tensor/cuda/libraries/handles.h"
#include "tensor/cuda/libraries/libraries.h"
#if TESSERA_CUDA_EMULATED
#include "linalg/cuda/emulation/libraries.h"
#endif

namespace tessera::cuda {
namespace {

#if TESSERA_CUDA_EMULATED
Library<Solver> load_solver() { return {emulation::solver_functions(), true, {}}; }
Library<MatrixBlas> load_matrix_blas() { return {emulation::matrix_blas_functions(), true, {}}; }
#else
Library<Solver> load_solver() {
  return load_library<Solver>({"libcusolver.so.12", "libcusolver.so.11"}, [](Solver& f, const FunctionsOf& get) {
    std::string missing;  // which is no error
    const FunctionsOf get_newer{get.library, &missing};
#define TESSERA_GET(name, function) get(to.name, #function);
#define TESSERA_GET_NEWER(name, function) get_newer(f.name, #function);
    TESSERA_NEWER_SOLVER_FUNCTIONS(TESSERA_GET_NEWER)
    const auto common = [&](auto& to) { TESSERA_SOLVER_FUNCTIONS(TESSERA_GET) };
    common(f);
    const auto singles = [&](auto& to) { TESSERA_SOLVER_FUNCTIONS_OF(TESSERA_GET, S, orgqr, ormqr, syevjBatched) };
    singles(f.s);
    const auto doubles = [&](auto& to) { TESSERA_SOLVER_FUNCTIONS_OF(TESSERA_GET, D, orgqr, ormqr, syevjBatched) };
    doubles(f.d);
    const auto complexes = [&](auto& to) { TESSERA_SOLVER_FUNCTIONS_OF(TESSERA_GET, C, ungqr, unmqr, heevjBatched) };
    complexes(f.c);
    const auto wide = [&](auto& to) { TESSERA_SOLVER_FUNCTIONS_OF(TESSERA_GET, Z, ungqr, unmqr, heevjBatched) };
    wide(f.z);
  });
}
Library<MatrixBlas> load_matrix_blas() {
  return load_library<MatrixBlas>({"libcublas.so.13", "libcublas.so.12"}, [](MatrixBlas& f, const FunctionsOf& get) {
    const auto singles = [&](auto& to) { TESSERA_MATRIX_BLAS_FUNCTIONS_OF(TESSERA_GET, S) };
    singles(f.s);
    const auto doubles = [&](auto& to) { TESSERA_MATRIX_BLAS_FUNCTIONS_OF(TESSERA_GET, D) };
    doubles(f.d);
    const auto complexes = [&](auto& to) { TESSERA_MATRIX_BLAS_FUNCTIONS_OF(TESSERA_GET, C) };
    complexes(f.c);
    const auto wide = [&](auto& to) { TESSERA_MATRIX_BLAS_FUNCTIONS_OF(TESSERA_GET, Z) };
    wide(f.z);
#undef TESSERA_GET
#undef TESSERA_GET_NEWER
  });
}
#endif

// The library has no function for this.
const char* status_name(cusolverStatus_t s) {
  switch (s) {
    case CUSOLVER_STATUS_NOT_INITIALIZED:
      return "CUSOLVER_STATUS_NOT_INITIALIZED";
    case CUSOLVER_STATUS_ALLOC_FAILED:
      return "CUSOLVER_STATUS_ALLOC_FAILED";
    case CUSOLVER_STATUS_INVALID_VALUE:
      return "CUSOLVER_STATUS_INVALID_VALUE";
    case CUSOLVER_STATUS_ARCH_MISMATCH:
      return "CUSOLVER_STATUS_ARCH_MISMATCH";
    case CUSOLVER_STATUS_EXECUTION_FAILED:
      return "CUSOLVER_STATUS_EXECUTION_FAILED";
    case CUSOLVER_STATUS_INTERNAL_ERROR:
      return "CUSOLVER_STATUS_INTERNAL_ERROR";
    case CUSOLVER_STATUS_MATRIX_TYPE_NOT_SUPPORTED:
      return "CUSOLVER_STATUS_MATRIX_TYPE_NOT_SUPPORTED";
    case CUSOLVER_STATUS_NOT_SUPPORTED:
      return "CUSOLVER_STATUS_NOT_SUPPORTED";
    default:
      return "an unknown status";
  }
}

struct SolverHandle {
  cusolverDnHandle_t handle = nullptr;
  cudaStream_t stream = nullptr;
  bool has_stream = false;
};

std::atomic<LinalgLibrary> g_library{LinalgLibrary::kDefault};

// Made once, never destroyed.
template <class Settings, class Create>
Settings made(Create create, const char* what) {
  Settings s = nullptr;
  check_solver(create(&s), what);
  return s;
}

}  // namespace

const Solver& solver() {
  static const auto& l = *new Library<Solver>(load_solver());
  TESSERA_CHECK(l.found, "cuSOLVER, which computes linear algebra on CUDA devices, cannot be loaded: ", l.why);
  return l.functions;
}

const MatrixBlas& matrix_blas() {
  static const auto& l = *new Library<MatrixBlas>(load_matrix_blas());
  TESSERA_CHECK(l.found, "cuBLAS, which solves by triangles on CUDA devices, cannot be loaded: ", l.why);
  return l.functions;
}

void check_solver(cusolverStatus_t s, const char* what) {
  TESSERA_CHECK(s == CUSOLVER_STATUS_SUCCESS, "cusolver error: ", status_name(s), " (", static_cast<int64_t>(s),
                "), when calling `", what, "`");
}

cusolverDnHandle_t solver_handle() {
  SolverHandle& entry = ThreadHandles<SolverHandle>::here().on(
      op_device(), [] { return made<cusolverDnHandle_t>(solver().create, "cusolverDnCreate"); });
  const cudaStream_t stream = current_stream();
  if (!entry.has_stream || entry.stream != stream) {
    check_solver(solver().set_stream(entry.handle, stream), "cusolverDnSetStream");
    entry.stream = stream;
    entry.has_stream = true;
  }
  return entry.handle;
}

cusolverDnParams_t solver_params() {
  static const auto p = made<cusolverDnParams_t>(solver().create_params, "cusolverDnCreateParams");
  return p;
}
// Each thread has its own on each device: the functions write into them.
syevjInfo_t syevj_settings() {
  struct Entry {
    syevjInfo_t handle = nullptr;
  };
  const auto make = [] { return made<syevjInfo_t>(solver().create_syevj, "cusolverDnCreateSyevjInfo"); };
  return ThreadHandles<Entry>::here().on(op_device(), make).handle;
}
gesvdjInfo_t gesvdj_settings() {
  struct Entry {
    gesvdjInfo_t handle = nullptr;
  };
  const auto make = [] { return made<gesvdjInfo_t>(solver().create_gesvdj, "cusolverDnCreateGesvdjInfo"); };
  return ThreadHandles<Entry>::here().on(op_device(), make).handle;
}

LinalgLibrary linalg_library() { return g_library.load(std::memory_order_relaxed); }
void set_linalg_library(LinalgLibrary l) { g_library.store(l, std::memory_order_relaxed); }

}  // namespace tessera::cuda
