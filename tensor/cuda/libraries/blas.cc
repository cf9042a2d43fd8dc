#include "tensor/cuda/libraries/blas.h"

#include <atomic>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <type_traits>
#include <utility>

#include "tensor/core/error.h"
#include "tensor/cuda/libraries/handles.h"
#include "tensor/cuda/libraries/libraries.h"
#if TESSERA_CUDA_EMULATED
#include "tensor/cuda/emulation/libraries.h"
#endif

namespace tessera::cuda {
namespace {

#if TESSERA_CUDA_EMULATED
Library<Blas> load() { return {emulation::blas_functions(), true, {}}; }
#else
Library<Blas> load() {
  return load_library<Blas>({"libcublas.so.13", "libcublas.so.12"}, [](Blas& f, const FunctionsOf& get) {
    get(f.create, "cublasCreate_v2");
    get(f.destroy, "cublasDestroy_v2");
    get(f.get_version, "cublasGetVersion_v2");
    get(f.status_name, "cublasGetStatusName");
    get(f.set_stream, "cublasSetStream_v2");
    get(f.set_workspace, "cublasSetWorkspace_v2");
    get(f.set_math_mode, "cublasSetMathMode");
    get(f.gemm, "cublasGemmEx_64");
    get(f.gemm_strided_batched, "cublasGemmStridedBatchedEx_64");
  });
}
#endif

const Library<Blas>& loaded() {
  static const auto& l = *new Library<Blas>(load());
  return l;
}

// Never destroyed: the driver may be gone by then.
struct Workspaces {
  std::mutex mutex;
  std::map<std::pair<int, cudaStream_t>, Buffer> by_stream;  // of a device's stream
};
Workspaces& workspaces() {
  static Workspaces& w = *new Workspaces;
  return w;
}

struct Handle {
  cublasHandle_t handle = nullptr;
  cudaStream_t stream = nullptr;
  void* workspace = nullptr;
  size_t bytes = 0;
};
thread_local BlasWorkspace t_last{};

// CUBLAS_WORKSPACE_CONFIG=":4096:8": pairs of a size in KiB and a number of buffers. Else 32 MiB on devices of the
// Hopper generation and later, 8 MiB before.
size_t workspace_bytes() {
  if (const char* p = std::getenv("CUBLAS_WORKSPACE_CONFIG")) {
    size_t total = 0;
    while (*p == ':') {
      char* end = nullptr;
      const size_t size = std::strtoull(p + 1, &end, 10);
      if (end == p + 1 || *end != ':') break;
      char* const second = end + 1;
      const size_t count = std::strtoull(second, &end, 10);
      if (end == second) break;
      total += size * 1024 * count;
      p = end;
    }
    if (total > 0) return total;
  }
  return properties().major >= 9 ? size_t{32} << 20 : size_t{8} << 20;
}

void* workspace_of(int device, cudaStream_t stream, size_t bytes) {
  const std::lock_guard lock(workspaces().mutex);
  Buffer& buffer = workspaces().by_stream[{device, stream}];
  if (!buffer.get()) buffer = Buffer(bytes);
  return buffer.get();
}

std::atomic<unsigned> g_workspace_round{0};

enum : unsigned { kTf32 = 1, kHalf = 2, kBFloat = 4 };
std::atomic<unsigned> g_settings{kHalf | kBFloat};

}  // namespace

const Blas* find_blas() { return loaded().found ? &loaded().functions : nullptr; }

const Blas& blas() {
  TESSERA_CHECK(loaded().found,
                "cuBLAS, which computes matrix products on CUDA devices, cannot be loaded: ", loaded().why);
  return loaded().functions;
}

void check_blas(cublasStatus_t s, const char* what) {
  if (s == CUBLAS_STATUS_SUCCESS) [[likely]]
    return;
  TESSERA_CHECK(false, "CUDA error: ", blas().status_name(s), " when calling `", what, "`");
}

BlasSettings blas_settings() {
  const unsigned s = g_settings.load(std::memory_order_relaxed);
  return {(s & kTf32) != 0, (s & kHalf) != 0, (s & kBFloat) != 0};
}
void set_blas_settings(const BlasSettings& s) {
  g_settings.store((s.allow_tf32 ? kTf32 : 0u) | (s.allow_fp16_reduced_precision ? kHalf : 0u) |
                       (s.allow_bf16_reduced_precision ? kBFloat : 0u),
                   std::memory_order_relaxed);
}

BlasWorkspace blas_workspace() { return t_last; }

cublasHandle_t blas_handle() {
  auto& handles = ThreadHandles<Handle>::here();
  thread_local unsigned round = 0;
  const unsigned now = g_workspace_round.load(std::memory_order_acquire);
  if (round != now) {
    handles.for_each([](Handle& h) { h.workspace = nullptr; });
    round = now;
  }
  const int device = op_device();
  Handle& entry = handles.on(device, [] {
    cublasHandle_t h = nullptr;
    check_blas(blas().create(&h), "cublasCreate");
    return h;
  });
  const cudaStream_t stream = current_stream();
  if (!entry.workspace || entry.stream != stream) {
    const size_t bytes = workspace_bytes();
    // Setting the stream takes the workspace away.
    void* const workspace = workspace_of(device, stream, bytes);
    check_blas(blas().set_stream(entry.handle, stream), "cublasSetStream");
    check_blas(blas().set_workspace(entry.handle, workspace, bytes), "cublasSetWorkspace");
    entry.stream = stream;
    entry.workspace = workspace;
    entry.bytes = bytes;
  }
  t_last = {entry.workspace, entry.bytes};
  return entry.handle;
}

void release_blas_workspaces() {
  const std::lock_guard lock(workspaces().mutex);
  workspaces().by_stream.clear();
  g_workspace_round.fetch_add(1, std::memory_order_release);
}

}  // namespace tessera::cuda
