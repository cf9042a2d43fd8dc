#include "tensor/cuda/libraries/dnn.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <type_traits>
#include <vector>

#include "tensor/core/error.h"
#include "tensor/cuda/libraries/libraries.h"
#if TESSERA_CUDA_EMULATED
#include "tensor/cuda/emulation/libraries.h"
#endif

namespace tessera::cuda {
namespace {

struct Loaded {
  Dnn functions{};
  bool found = false;
  std::string why;
};

#if TESSERA_CUDA_EMULATED
Loaded load() { return {emulation::dnn_functions(), true, {}}; }
#else
Loaded load() {
  Loaded l;
  void* const library = open_library({"libcudnn.so.9"}, &l.why);
  if (!library) return l;
  l.why.clear();
  const FunctionsOf get{library, &l.why};
  Dnn& d = l.functions;
  get(d.get_version, "cudnnGetVersion");
  get(d.error_string, "cudnnGetErrorString");
  get(d.create, "cudnnCreate");
  get(d.set_stream, "cudnnSetStream");
  get(d.create_tensor, "cudnnCreateTensorDescriptor");
  get(d.set_tensor, "cudnnSetTensorNdDescriptor");
  get(d.destroy_tensor, "cudnnDestroyTensorDescriptor");
  get(d.create_filter, "cudnnCreateFilterDescriptor");
  get(d.set_filter, "cudnnSetFilterNdDescriptor");
  get(d.destroy_filter, "cudnnDestroyFilterDescriptor");
  get(d.create_convolution, "cudnnCreateConvolutionDescriptor");
  get(d.set_convolution, "cudnnSetConvolutionNdDescriptor");
  get(d.set_groups, "cudnnSetConvolutionGroupCount");
  get(d.set_math_type, "cudnnSetConvolutionMathType");
  get(d.destroy_convolution, "cudnnDestroyConvolutionDescriptor");
  get(d.forward_algorithms, "cudnnGetConvolutionForwardAlgorithm_v7");
  get(d.forward_workspace, "cudnnGetConvolutionForwardWorkspaceSize");
  get(d.measure_forward, "cudnnFindConvolutionForwardAlgorithmEx");
  get(d.forward, "cudnnConvolutionForward");
  get(d.backward_data_algorithms, "cudnnGetConvolutionBackwardDataAlgorithm_v7");
  get(d.backward_data_workspace, "cudnnGetConvolutionBackwardDataWorkspaceSize");
  get(d.measure_backward_data, "cudnnFindConvolutionBackwardDataAlgorithmEx");
  get(d.backward_data, "cudnnConvolutionBackwardData");
  get(d.backward_filter_algorithms, "cudnnGetConvolutionBackwardFilterAlgorithm_v7");
  get(d.backward_filter_workspace, "cudnnGetConvolutionBackwardFilterWorkspaceSize");
  get(d.measure_backward_filter, "cudnnFindConvolutionBackwardFilterAlgorithmEx");
  get(d.backward_filter, "cudnnConvolutionBackwardFilter");
  l.found = l.why.empty();
  return l;
}
#endif

const Loaded& loaded() {
  static const Loaded& l = *new Loaded(load());
  return l;
}

// Handles go back here when their thread ends. Never destroyed: the driver may be gone by then.
struct Idle {
  std::mutex mutex;
  std::map<int, std::vector<cudnnHandle_t>> by_device;
};
Idle& idle() {
  static Idle& i = *new Idle;
  return i;
}

struct ThreadHandles {
  struct Entry {
    cudnnHandle_t handle = nullptr;
    cudaStream_t stream = nullptr;
    bool has_stream = false;
  };
  std::map<int, Entry> by_device;
  ~ThreadHandles() {
    const std::lock_guard lock(idle().mutex);
    for (const auto& [device, entry] : by_device)
      if (entry.handle) idle().by_device[device].push_back(entry.handle);
  }
};

cudnnHandle_t new_handle(int device) {
  {
    const std::lock_guard lock(idle().mutex);
    auto& handles = idle().by_device[device];
    if (!handles.empty()) {
      const cudnnHandle_t h = handles.back();
      handles.pop_back();
      return h;
    }
  }
  cudnnHandle_t h = nullptr;
  check_dnn(find_dnn()->create(&h), "cudnnCreate");
  return h;
}

// The limit of the measured algorithms lies above the flags.
enum : unsigned {
  kEnabled = 1,
  kDeterministic = 2,
  kTf32 = 4,
  kBenchmark = 8,
  kLimitShift = 8,
  kLargestLimit = 0xffff
};
std::atomic<unsigned> g_settings{kEnabled | kTf32 |
                                 static_cast<unsigned>(DnnSettings().benchmark_limit) << kLimitShift};

}  // namespace

const Dnn* find_dnn() { return loaded().found ? &loaded().functions : nullptr; }
const std::string& dnn_missing() { return loaded().why; }

void check_dnn(cudnnStatus_t s, const char* what) {
  if (s == CUDNN_STATUS_SUCCESS) [[likely]]
    return;
  TESSERA_CHECK(false, "cuDNN error: ", find_dnn()->error_string(s), " when calling `", what, "`");
}

DnnSettings dnn_settings() {
  const unsigned s = g_settings.load(std::memory_order_relaxed);
  return {(s & kEnabled) != 0, (s & kBenchmark) != 0, (s & kDeterministic) != 0, (s & kTf32) != 0,
          static_cast<int>(s >> kLimitShift)};
}
void set_dnn_settings(const DnnSettings& s) {
  const unsigned limit =
      std::min(static_cast<unsigned>(std::max(s.benchmark_limit, 0)), static_cast<unsigned>(kLargestLimit));
  g_settings.store((s.enabled ? kEnabled : 0u) | (s.benchmark ? kBenchmark : 0u) |
                       (s.deterministic ? kDeterministic : 0u) | (s.allow_tf32 ? kTf32 : 0u) | limit << kLimitShift,
                   std::memory_order_relaxed);
}

cudnnHandle_t dnn_handle() {
  thread_local ThreadHandles handles;
  const int device = op_device();
  auto& entry = handles.by_device[device];
  if (!entry.handle) entry.handle = new_handle(device);
  const cudaStream_t stream = current_stream();
  if (!entry.has_stream || entry.stream != stream) {
    check_dnn(find_dnn()->set_stream(entry.handle, stream), "cudnnSetStream");
    entry.stream = stream;
    entry.has_stream = true;
  }
  return entry.handle;
}

}  // namespace tessera::cuda
