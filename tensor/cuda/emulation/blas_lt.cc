#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <vector>

#include "tensor/core/half.h"
#include "tensor/cuda/emulation/device.h"
#include "tensor/cuda/emulation/libraries.h"

namespace tessera::cuda::emulation {
namespace {

// Behind the opaque pointers.
struct Desc {
  std::map<int, std::vector<char>> attributes;
  template <class T>
  T get(cublasLtMatmulDescAttributes_t name, T otherwise) const {
    const auto at = attributes.find(name);
    if (at != attributes.end()) std::memcpy(&otherwise, at->second.data(), sizeof(T));
    return otherwise;
  }
};
struct Layout {
  cudaDataType type;
  int64_t rows, cols, leading;
};
const Desc& desc_of(cublasLtMatmulDesc_t d) { return *reinterpret_cast<const Desc*>(d); }
const Layout& layout_of(cublasLtMatrixLayout_t l) { return *reinterpret_cast<const Layout*>(l); }

float read(cudaDataType type, const void* data, int64_t i) {
  switch (type) {
    case CUDA_R_16F:
      return static_cast<float>(static_cast<const Half*>(data)[i]);
    case CUDA_R_16BF:
      return static_cast<float>(static_cast<const BFloat16*>(data)[i]);
    case CUDA_R_8F_E4M3:
      return static_cast<float>(static_cast<const Float8_e4m3fn*>(data)[i]);
    case CUDA_R_8F_E5M2:
      return static_cast<float>(static_cast<const Float8_e5m2*>(data)[i]);
    default:
      return static_cast<const float*>(data)[i];
  }
}
void write(cudaDataType type, void* data, int64_t i, float v) {
  switch (type) {
    case CUDA_R_16F:
      static_cast<Half*>(data)[i] = Half(v);
      break;
    case CUDA_R_16BF:
      static_cast<BFloat16*>(data)[i] = BFloat16(v);
      break;
    case CUDA_R_8F_E4M3:
      static_cast<Float8_e4m3fn*>(data)[i] = Float8_e4m3fn(v);
      break;
    case CUDA_R_8F_E5M2:
      static_cast<Float8_e5m2*>(data)[i] = Float8_e5m2(v);
      break;
    default:
      static_cast<float*>(data)[i] = v;
  }
}
bool is_fp8(cudaDataType t) { return t == CUDA_R_8F_E4M3 || t == CUDA_R_8F_E5M2; }

struct Problem {
  Layout a, b, d;
  bool transposed_a, transposed_b, outer;
  const void *from_a, *from_b, *bias;
  void* to;
  cudaDataType bias_type;
  const float *scale_a, *scale_b, *scale_d;
  uint32_t epilogue;
  float alpha;

  float activated(float v) const {
    const bool relu = epilogue == CUBLASLT_EPILOGUE_RELU_BIAS || epilogue == CUBLASLT_EPILOGUE_RELU,
               gelu = epilogue == CUBLASLT_EPILOGUE_GELU_BIAS || epilogue == CUBLASLT_EPILOGUE_GELU;
    if (relu) return v < 0 ? 0 : v;
    if (gelu) return 0.5f * v * (1 + std::tanh(0.7978845608028654f * (v + 0.044715f * v * v * v)));
    return v;
  }
  void multiply() const {
    const int64_t k = transposed_a ? a.rows : a.cols;
    std::vector<float> rows(static_cast<size_t>(d.rows * k)), cols(static_cast<size_t>(d.cols * k));
    for (int64_t i = 0; i < d.rows; ++i)
      for (int64_t l = 0; l < k; ++l)
        rows[static_cast<size_t>(i * k + l)] =
            read(a.type, from_a, transposed_a ? l + i * a.leading : i + l * a.leading);
    for (int64_t j = 0; j < d.cols; ++j)
      for (int64_t l = 0; l < k; ++l)
        cols[static_cast<size_t>(j * k + l)] =
            read(b.type, from_b, transposed_b ? j + l * b.leading : l + j * b.leading);
    for (int64_t j = 0; j < d.cols; ++j)
      for (int64_t i = 0; i < d.rows; ++i) {
        float sum = 0;
        for (int64_t l = 0; l < k; ++l)
          sum += rows[static_cast<size_t>(i * k + l)] * cols[static_cast<size_t>(j * k + l)];
        sum *= alpha * (scale_a ? scale_a[outer ? i : 0] : 1) * (scale_b ? scale_b[outer ? j : 0] : 1);
        if (bias) sum += read(bias_type, bias, i);
        write(d.type, to, i + j * d.leading, activated(sum) * (scale_d ? *scale_d : 1));
      }
  }
};

// The library's table of 8-bit products: only transposed times plain, multiples of 16, results of these kinds.
bool supported(const Desc& desc, const Layout& a, const Layout& b, const Layout& c, const Layout& d) {
  if (is_fp8(a.type) != is_fp8(b.type)) return false;
  if (!is_fp8(a.type)) return a.type == b.type && c.type == d.type;
  const bool transposed = desc.get(CUBLASLT_MATMUL_DESC_TRANSA, int32_t{0}) == CUBLAS_OP_T &&
                          desc.get(CUBLASLT_MATMUL_DESC_TRANSB, int32_t{0}) == CUBLAS_OP_N;
  const bool results = is_fp8(d.type) ? c.type == CUDA_R_16BF || c.type == CUDA_R_16F : c.type == d.type;
  return transposed && results && a.leading % 16 == 0 && b.leading % 16 == 0 && a.rows % 16 == 0 && d.rows % 16 == 0 &&
         !(a.type == CUDA_R_8F_E5M2 && b.type == CUDA_R_8F_E5M2);
}

}  // namespace

BlasLt blas_lt_functions() {
  BlasLt f;
  f.create_desc = make<Desc>;
  f.destroy_desc = destroy<Desc>;
  f.set_desc = [](cublasLtMatmulDesc_t d, cublasLtMatmulDescAttributes_t name, const void* value, size_t n) {
    const char* bytes = static_cast<const char*>(value);
    reinterpret_cast<Desc*>(d)->attributes[name].assign(bytes, bytes + n);
    return CUBLAS_STATUS_SUCCESS;
  };
  f.create_layout = [](cublasLtMatrixLayout_t* l, cudaDataType type, uint64_t rows, uint64_t cols, int64_t leading) {
    if (leading < static_cast<int64_t>(rows)) return CUBLAS_STATUS_INVALID_VALUE;
    *l = reinterpret_cast<cublasLtMatrixLayout_t>(
        new Layout{type, static_cast<int64_t>(rows), static_cast<int64_t>(cols), leading});
    return CUBLAS_STATUS_SUCCESS;
  };
  f.destroy_layout = destroy<Layout>;
  f.create_preference = make<cublasLtMatmulPreferenceOpaque_t>;
  f.destroy_preference = destroy<cublasLtMatmulPreferenceOpaque_t>;
  f.set_preference = [](cublasLtMatmulPreference_t, cublasLtMatmulPreferenceAttributes_t, const void*, size_t) {
    return CUBLAS_STATUS_SUCCESS;
  };
  f.find_algorithm = [](cublasLtHandle_t, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                        cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d, cublasLtMatmulPreference_t, int,
                        cublasLtMatmulHeuristicResult_t* results, int* count) {
    *count = supported(desc_of(desc), layout_of(a), layout_of(b), layout_of(c), layout_of(d)) ? 1 : 0;
    if (*count) results[0].state = CUBLAS_STATUS_SUCCESS;
    return *count ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
  };
  f.matmul = [](cublasLtHandle_t, cublasLtMatmulDesc_t desc, const void* alpha, const void* a,
                cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout, const void*,
                const void*, cublasLtMatrixLayout_t, void* d, cublasLtMatrixLayout_t d_layout,
                const cublasLtMatmulAlgo_t*, void*, size_t, cudaStream_t stream) {
    const Desc& s = desc_of(desc);
    const auto floats = [&](cublasLtMatmulDescAttributes_t name) {
      return s.get(name, static_cast<const float*>(nullptr));
    };
    const Problem p{layout_of(a_layout),
                    layout_of(b_layout),
                    layout_of(d_layout),
                    s.get(CUBLASLT_MATMUL_DESC_TRANSA, int32_t{0}) != CUBLAS_OP_N,
                    s.get(CUBLASLT_MATMUL_DESC_TRANSB, int32_t{0}) != CUBLAS_OP_N,
                    s.get(CUBLASLT_MATMUL_DESC_A_SCALE_MODE, int32_t{0}) == CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F,
                    a,
                    b,
                    s.get(CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<const void*>(nullptr)),
                    d,
                    static_cast<cudaDataType>(s.get(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, int32_t{CUDA_R_32F})),
                    floats(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER),
                    floats(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER),
                    floats(CUBLASLT_MATMUL_DESC_D_SCALE_POINTER),
                    s.get(CUBLASLT_MATMUL_DESC_EPILOGUE, uint32_t{CUBLASLT_EPILOGUE_DEFAULT}),
                    *static_cast<const float*>(alpha)};
    const cudaError_t e = run(stream, dim3(1), dim3(1), 0, false, [p] { p.multiply(); });
    return e == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
  };
  return f;
}

}  // namespace tessera::cuda::emulation
