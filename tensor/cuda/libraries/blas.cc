#include "tensor/cuda/libraries/blas.h"

#include <atomic>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "tensor/core/error.h"
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

// Handles go back here when their thread ends. Never destroyed: the driver may be gone by then.
struct Shared {
  std::mutex mutex;
  std::map<int, std::vector<cublasHandle_t>> idle;            // by device
  std::map<std::pair<int, cudaStream_t>, Buffer> workspaces;  // of a device's stream
};
Shared& shared() {
  static Shared& s = *new Shared;
  return s;
}

struct ThreadHandles {
  struct Entry {
    cublasHandle_t handle = nullptr;
    cudaStream_t stream = nullptr;
    void* workspace = nullptr;
    size_t bytes = 0;
  };
  std::map<int, Entry> by_device;
  BlasWorkspace last{};
  ~ThreadHandles() {
    const std::lock_guard lock(shared().mutex);
    for (const auto& [device, entry] : by_device)
      if (entry.handle) shared().idle[device].push_back(entry.handle);
  }
};

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

cublasHandle_t new_handle(int device) {
  {
    const std::lock_guard lock(shared().mutex);
    auto& idle = shared().idle[device];
    if (!idle.empty()) {
      const cublasHandle_t h = idle.back();
      idle.pop_back();
      return h;
    }
  }
  cublasHandle_t h = nullptr;
  check_blas(blas().create(&h), "cublasCreate");
  return h;
}

void* workspace_of(int device, cudaStream_t stream, size_t bytes) {
  const std::lock_guard lock(shared().mutex);
  Buffer& buffer = shared().workspaces[{device, stream}];
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

namespace {
ThreadHandles& thread_handles() {
  thread_local ThreadHandles handles;
  return handles;
}
}  // namespace

BlasWorkspace blas_workspace() { return thread_handles().last; }

cublasHandle_t blas_handle() {
  ThreadHandles& handles = thread_handles();
  thread_local unsigned round = 0;
  const unsigned now = g_workspace_round.load(std::memory_order_acquire);
  if (round != now) {
    for (auto& [device, entry] : handles.by_device) entry.workspace = nullptr;
    round = now;
  }
  const int device = op_device();
  auto& entry = handles.by_device[device];
  if (!entry.handle) entry.handle = new_handle(device);
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
  handles.last = {entry.workspace, entry.bytes};
  return entry.handle;
}

void release_blas_workspaces() {
  const std::lock_guard lock(shared().mutex);
  shared().workspaces.clear();
  g_workspace_round.fetch_add(1, std::memory_order_release);
}

}  // namespace tessera::cuda
