// cuDNN, found at run time.
#pragma once

#if TESSERA_CUDA_EMULATED
#include "tensor/cuda/emulation/cudnn.h"
#else
#include <cudnn.h>
#endif

#include "tensor/cuda/runtime/runtime.h"

namespace tessera::cuda {

// The functions of cuDNN that are used: classic convolutions.
struct Dnn {
  decltype(&cudnnGetVersion) get_version;
  decltype(&cudnnGetErrorString) error_string;
  decltype(&cudnnCreate) create;
  decltype(&cudnnSetStream) set_stream;
  decltype(&cudnnCreateTensorDescriptor) create_tensor;
  decltype(&cudnnSetTensorNdDescriptor) set_tensor;
  decltype(&cudnnDestroyTensorDescriptor) destroy_tensor;
  decltype(&cudnnCreateFilterDescriptor) create_filter;
  decltype(&cudnnSetFilterNdDescriptor) set_filter;
  decltype(&cudnnDestroyFilterDescriptor) destroy_filter;
  decltype(&cudnnCreateConvolutionDescriptor) create_convolution;
  decltype(&cudnnSetConvolutionNdDescriptor) set_convolution;
  decltype(&cudnnSetConvolutionGroupCount) set_groups;
  decltype(&cudnnSetConvolutionMathType) set_math_type;
  decltype(&cudnnDestroyConvolutionDescriptor) destroy_convolution;
  decltype(&cudnnCreateActivationDescriptor) create_activation;
  decltype(&cudnnSetActivationDescriptor) set_activation;
  decltype(&cudnnDestroyActivationDescriptor) destroy_activation;
  decltype(&cudnnGetConvolutionForwardAlgorithm_v7) forward_algorithms;
  decltype(&cudnnGetConvolutionForwardWorkspaceSize) forward_workspace;
  decltype(&cudnnFindConvolutionForwardAlgorithmEx) measure_forward;
  decltype(&cudnnConvolutionForward) forward;
  decltype(&cudnnConvolutionBiasActivationForward) forward_with_ending;
  decltype(&cudnnGetConvolutionBackwardDataAlgorithm_v7) backward_data_algorithms;
  decltype(&cudnnGetConvolutionBackwardDataWorkspaceSize) backward_data_workspace;
  decltype(&cudnnFindConvolutionBackwardDataAlgorithmEx) measure_backward_data;
  decltype(&cudnnConvolutionBackwardData) backward_data;
  decltype(&cudnnGetConvolutionBackwardFilterAlgorithm_v7) backward_filter_algorithms;
  decltype(&cudnnGetConvolutionBackwardFilterWorkspaceSize) backward_filter_workspace;
  decltype(&cudnnFindConvolutionBackwardFilterAlgorithmEx) measure_backward_filter;
  decltype(&cudnnConvolutionBackwardFilter) backward_filter;
};

// Null where the library is missing: convolutions then work without it.
const Dnn* find_dnn();
void check_dnn(cudnnStatus_t s, const char* what);

// torch.backends.cudnn.
struct DnnSettings {
  bool enabled = true;
  bool benchmark = false;      // the first convolution of certain sizes measures all algorithms
  bool deterministic = false;  // only algorithms that give the same bits on every run
  bool allow_tf32 = true;
  int benchmark_limit = 10;  // how many algorithms are measured, of those that cuDNN thinks best; 0: all
};
DnnSettings dnn_settings();
void set_dnn_settings(const DnnSettings& s);

// This thread's handle on op_device(), on its current stream. Only where find_dnn() is not null.
cudnnHandle_t dnn_handle();

}  // namespace tessera::cuda
