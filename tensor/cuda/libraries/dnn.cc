#include "tensor/cuda/libraries/dnn.h"

#include <algorithm>
#include <atomic>
#include <type_traits>

#include "tensor/core/error.h"
#include "tensor/cuda/libraries/handles.h"
#include "tensor/cuda/libraries/libraries.h"
#if TESSERA_CUDA_EMULATED
#include "tensor/cuda/emulation/libraries.h"
#endif

namespace tessera::cuda {
namespace {

#if TESSERA_CUDA_EMULATED
Library<Dnn> load() { return {emulation::dnn_functions(), true, {}}; }
#else
Library<Dnn> load() {
  return load_library<Dnn>({"libcudnn.so.9"}, [](Dnn& f, const FunctionsOf& get) {
    get(f.get_version, "cudnnGetVersion");
    get(f.error_string, "cudnnGetErrorString");
    get(f.create, "cudnnCreate");
    get(f.set_stream, "cudnnSetStream");
    get(f.create_tensor, "cudnnCreateTensorDescriptor");
    get(f.set_tensor, "cudnnSetTensorNdDescriptor");
    get(f.destroy_tensor, "cudnnDestroyTensorDescriptor");
    get(f.create_filter, "cudnnCreateFilterDescriptor");
    get(f.set_filter, "cudnnSetFilterNdDescriptor");
    get(f.destroy_filter, "cudnnDestroyFilterDescriptor");
    get(f.create_convolution, "cudnnCreateConvolutionDescriptor");
    get(f.set_convolution, "cudnnSetConvolutionNdDescriptor");
    get(f.set_groups, "cudnnSetConvolutionGroupCount");
    get(f.set_math_type, "cudnnSetConvolutionMathType");
    get(f.destroy_convolution, "cudnnDestroyConvolutionDescriptor");
    get(f.create_activation, "cudnnCreateActivationDescriptor");
    get(f.set_activation, "cudnnSetActivationDescriptor");
    get(f.destroy_activation, "cudnnDestroyActivationDescriptor");
    get(f.forward_algorithms, "cudnnGetConvolutionForwardAlgorithm_v7");
    get(f.forward_workspace, "cudnnGetConvolutionForwardWorkspaceSize");
    get(f.measure_forward, "cudnnFindConvolutionForwardAlgorithmEx");
    get(f.forward, "cudnnConvolutionForward");
    get(f.forward_with_ending, "cudnnConvolutionBiasActivationForward");
    get(f.backward_data_algorithms, "cudnnGetConvolutionBackwardDataAlgorithm_v7");
    get(f.backward_data_workspace, "cudnnGetConvolutionBackwardDataWorkspaceSize");
    get(f.measure_backward_data, "cudnnFindConvolutionBackwardDataAlgorithmEx");
    get(f.backward_data, "cudnnConvolutionBackwardData");
    get(f.backward_filter_algorithms, "cudnnGetConvolutionBackwardFilterAlgorithm_v7");
    get(f.backward_filter_workspace, "cudnnGetConvolutionBackwardFilterWorkspaceSize");
    get(f.measure_backward_filter, "cudnnFindConvolutionBackwardFilterAlgorithmEx");
    get(f.backward_filter, "cudnnConvolutionBackwardFilter");
  });
}
#endif

const Library<Dnn>& loaded() {
  static const auto& l = *new Library<Dnn>(load());
  return l;
}

struct Handle {
  cudnnHandle_t handle = nullptr;
  cudaStream_t stream = nullptr;
  bool has_stream = false;
};

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
  Handle& entry = ThreadHandles<Handle>::here().on(op_device(), [] {
    cudnnHandle_t h = nullptr;
    check_dnn(find_dnn()->create(&h), "cudnnCreate");
    return h;
  });
  const cudaStream_t stream = current_stream();
  if (!entry.has_stream || entry.stream != stream) {
    check_dnn(find_dnn()->set_stream(entry.handle, stream), "cudnnSetStream");
    entry.stream = stream;
    entry.has_stream = true;
  }
  return entry.handle;
}

}  // namespace tessera::cuda
