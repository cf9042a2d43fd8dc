// What dnn.h uses of cuDNN's interface, for the emulated device; see emulation/cublas.h.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

constexpr int CUDNN_VERSION = 91900;

enum cudnnStatus_t {
  CUDNN_STATUS_SUCCESS = 0,
  CUDNN_STATUS_BAD_PARAM = 2000,
  CUDNN_STATUS_NOT_SUPPORTED = 3000,
  CUDNN_STATUS_EXECUTION_FAILED = 5000
};
enum cudnnDataType_t { CUDNN_DATA_FLOAT = 0, CUDNN_DATA_DOUBLE = 1, CUDNN_DATA_HALF = 2, CUDNN_DATA_BFLOAT16 = 9 };
enum cudnnMathType_t { CUDNN_DEFAULT_MATH = 0, CUDNN_TENSOR_OP_MATH = 1, CUDNN_FMA_MATH = 3 };
enum cudnnTensorFormat_t { CUDNN_TENSOR_NCHW = 0, CUDNN_TENSOR_NHWC = 1 };
enum cudnnConvolutionMode_t { CUDNN_CONVOLUTION = 0, CUDNN_CROSS_CORRELATION = 1 };
enum cudnnDeterminism_t { CUDNN_NON_DETERMINISTIC = 0, CUDNN_DETERMINISTIC = 1 };
enum cudnnConvolutionFwdAlgo_t : int {
  CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM = 0,
  CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM = 1
};
enum cudnnActivationMode_t { CUDNN_ACTIVATION_RELU = 1, CUDNN_ACTIVATION_IDENTITY = 5 };
enum cudnnNanPropagation_t { CUDNN_NOT_PROPAGATE_NAN = 0, CUDNN_PROPAGATE_NAN = 1 };
enum cudnnConvolutionBwdDataAlgo_t : int {};
enum cudnnConvolutionBwdFilterAlgo_t : int {};
using cudnnHandle_t = struct cudnnContext*;
using cudnnTensorDescriptor_t = struct cudnnTensorStruct*;
using cudnnFilterDescriptor_t = struct cudnnFilterStruct*;
using cudnnConvolutionDescriptor_t = struct cudnnConvolutionStruct*;
using cudnnActivationDescriptor_t = struct cudnnActivationStruct*;

template <class Algorithm>
struct cudnnAlgoPerf {
  Algorithm algo;
  cudnnStatus_t status;
  float time;
  size_t memory;
  cudnnDeterminism_t determinism;
  cudnnMathType_t mathType;
  int reserved[3];
};
using cudnnConvolutionFwdAlgoPerf_t = cudnnAlgoPerf<cudnnConvolutionFwdAlgo_t>;
using cudnnConvolutionBwdDataAlgoPerf_t = cudnnAlgoPerf<cudnnConvolutionBwdDataAlgo_t>;
using cudnnConvolutionBwdFilterAlgoPerf_t = cudnnAlgoPerf<cudnnConvolutionBwdFilterAlgo_t>;

size_t cudnnGetVersion();
const char* cudnnGetErrorString(cudnnStatus_t);
cudnnStatus_t cudnnCreate(cudnnHandle_t*);
cudnnStatus_t cudnnSetStream(cudnnHandle_t, cudaStream_t);
cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t*);
cudnnStatus_t cudnnSetTensorNdDescriptor(cudnnTensorDescriptor_t, cudnnDataType_t, int, const int*, const int*);
cudnnStatus_t cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t);
cudnnStatus_t cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t*);
cudnnStatus_t cudnnSetFilterNdDescriptor(cudnnFilterDescriptor_t, cudnnDataType_t, cudnnTensorFormat_t, int,
                                         const int*);
cudnnStatus_t cudnnDestroyFilterDescriptor(cudnnFilterDescriptor_t);
cudnnStatus_t cudnnCreateConvolutionDescriptor(cudnnConvolutionDescriptor_t*);
cudnnStatus_t cudnnSetConvolutionNdDescriptor(cudnnConvolutionDescriptor_t, int, const int*, const int*, const int*,
                                              cudnnConvolutionMode_t, cudnnDataType_t);
cudnnStatus_t cudnnSetConvolutionGroupCount(cudnnConvolutionDescriptor_t, int);
cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t, cudnnMathType_t);
cudnnStatus_t cudnnDestroyConvolutionDescriptor(cudnnConvolutionDescriptor_t);
cudnnStatus_t cudnnCreateActivationDescriptor(cudnnActivationDescriptor_t*);
cudnnStatus_t cudnnSetActivationDescriptor(cudnnActivationDescriptor_t, cudnnActivationMode_t, cudnnNanPropagation_t,
                                           double);
cudnnStatus_t cudnnDestroyActivationDescriptor(cudnnActivationDescriptor_t);

// x: image or its gradient, w: filter or its gradient, y: result or its gradient. The forward functions take x, w, y;
// those of the image's gradient w, y, x; those of the filter's gradient x, y, w.
cudnnStatus_t cudnnGetConvolutionForwardAlgorithm_v7(cudnnHandle_t, cudnnTensorDescriptor_t x,
                                                     cudnnFilterDescriptor_t w, cudnnConvolutionDescriptor_t,
                                                     cudnnTensorDescriptor_t y, int, int*,
                                                     cudnnConvolutionFwdAlgoPerf_t*);
cudnnStatus_t cudnnGetConvolutionForwardWorkspaceSize(cudnnHandle_t, cudnnTensorDescriptor_t x,
                                                      cudnnFilterDescriptor_t w, cudnnConvolutionDescriptor_t,
                                                      cudnnTensorDescriptor_t y, cudnnConvolutionFwdAlgo_t, size_t*);
cudnnStatus_t cudnnFindConvolutionForwardAlgorithmEx(cudnnHandle_t, cudnnTensorDescriptor_t, const void* x,
                                                     cudnnFilterDescriptor_t, const void* w,
                                                     cudnnConvolutionDescriptor_t, cudnnTensorDescriptor_t, void* y,
                                                     int, int*, cudnnConvolutionFwdAlgoPerf_t*, void*, size_t);
cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t, const void* alpha, cudnnTensorDescriptor_t, const void* x,
                                      cudnnFilterDescriptor_t, const void* w, cudnnConvolutionDescriptor_t,
                                      cudnnConvolutionFwdAlgo_t, void*, size_t, const void* beta,
                                      cudnnTensorDescriptor_t, void* y);
// y = activation(alpha1 conv(x, w) + alpha2 z + bias)
cudnnStatus_t cudnnConvolutionBiasActivationForward(cudnnHandle_t, const void* alpha1, cudnnTensorDescriptor_t,
                                                    const void* x, cudnnFilterDescriptor_t, const void* w,
                                                    cudnnConvolutionDescriptor_t, cudnnConvolutionFwdAlgo_t, void*,
                                                    size_t, const void* alpha2, cudnnTensorDescriptor_t, const void* z,
                                                    cudnnTensorDescriptor_t, const void* bias,
                                                    cudnnActivationDescriptor_t, cudnnTensorDescriptor_t, void* y);
cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithm_v7(cudnnHandle_t, cudnnFilterDescriptor_t w,
                                                          cudnnTensorDescriptor_t y, cudnnConvolutionDescriptor_t,
                                                          cudnnTensorDescriptor_t x, int, int*,
                                                          cudnnConvolutionBwdDataAlgoPerf_t*);
cudnnStatus_t cudnnGetConvolutionBackwardDataWorkspaceSize(cudnnHandle_t, cudnnFilterDescriptor_t w,
                                                           cudnnTensorDescriptor_t y, cudnnConvolutionDescriptor_t,
                                                           cudnnTensorDescriptor_t x, cudnnConvolutionBwdDataAlgo_t,
                                                           size_t*);
cudnnStatus_t cudnnFindConvolutionBackwardDataAlgorithmEx(cudnnHandle_t, cudnnFilterDescriptor_t, const void* w,
                                                          cudnnTensorDescriptor_t, const void* y,
                                                          cudnnConvolutionDescriptor_t, cudnnTensorDescriptor_t,
                                                          void* x, int, int*, cudnnConvolutionBwdDataAlgoPerf_t*, void*,
                                                          size_t);
cudnnStatus_t cudnnConvolutionBackwardData(cudnnHandle_t, const void* alpha, cudnnFilterDescriptor_t, const void* w,
                                           cudnnTensorDescriptor_t, const void* y, cudnnConvolutionDescriptor_t,
                                           cudnnConvolutionBwdDataAlgo_t, void*, size_t, const void* beta,
                                           cudnnTensorDescriptor_t, void* x);
cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithm_v7(cudnnHandle_t, cudnnTensorDescriptor_t x,
                                                            cudnnTensorDescriptor_t y, cudnnConvolutionDescriptor_t,
                                                            cudnnFilterDescriptor_t w, int, int*,
                                                            cudnnConvolutionBwdFilterAlgoPerf_t*);
cudnnStatus_t cudnnGetConvolutionBackwardFilterWorkspaceSize(cudnnHandle_t, cudnnTensorDescriptor_t x,
                                                             cudnnTensorDescriptor_t y, cudnnConvolutionDescriptor_t,
                                                             cudnnFilterDescriptor_t w, cudnnConvolutionBwdFilterAlgo_t,
                                                             size_t*);
cudnnStatus_t cudnnFindConvolutionBackwardFilterAlgorithmEx(cudnnHandle_t, cudnnTensorDescriptor_t, const void* x,
                                                            cudnnTensorDescriptor_t, const void* y,
                                                            cudnnConvolutionDescriptor_t, cudnnFilterDescriptor_t,
                                                            void* w, int, int*, cudnnConvolutionBwdFilterAlgoPerf_t*,
                                                            void*, size_t);
cudnnStatus_t cudnnConvolutionBackwardFilter(cudnnHandle_t, const void* alpha, cudnnTensorDescriptor_t, const void* x,
                                             cudnnTensorDescriptor_t, const void* y, cudnnConvolutionDescriptor_t,
                                             cudnnConvolutionBwdFilterAlgo_t, void*, size_t, const void* beta,
                                             cudnnFilterDescriptor_t, void* w);
