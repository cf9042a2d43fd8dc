#include "tensor/cuda/libraries/blas_lt.h"

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <string>
#include <type_traits>

#include "tensor/cuda/libraries/blas.h"
#include "tensor/cuda/libraries/libraries.h"
#if TESSERA_CUDA_EMULATED
#include "tensor/cuda/emulation/libraries.h"
#endif

namespace tessera::cuda {
namespace {

#if TESSERA_CUDA_EMULATED
Library<BlasLt> load() { return {emulation::blas_lt_functions(), true, {}}; }
#else
Library<BlasLt> load() {
  return load_library<BlasLt>({"libcublasLt.so.13", "libcublasLt.so.12"}, [](BlasLt& f, const FunctionsOf& get) {
    get(f.create_desc, "cublasLtMatmulDescCreate");
    get(f.destroy_desc, "cublasLtMatmulDescDestroy");
    get(f.set_desc, "cublasLtMatmulDescSetAttribute");
    get(f.create_layout, "cublasLtMatrixLayoutCreate");
    get(f.destroy_layout, "cublasLtMatrixLayoutDestroy");
    get(f.create_preference, "cublasLtMatmulPreferenceCreate");
    get(f.destroy_preference, "cublasLtMatmulPreferenceDestroy");
    get(f.set_preference, "cublasLtMatmulPreferenceSetAttribute");
    get(f.find_algorithm, "cublasLtMatmulAlgoGetHeuristic");
    get(f.matmul, "cublasLtMatmul");
  });
}
#endif

// Opaque objects of the library, gone with their scope.
template <class T>
struct Held {
  T* object = nullptr;
  cublasStatus_t (*destroy)(T*);
  explicit Held(cublasStatus_t (*d)(T*)) : destroy(d) {}
  Held(const Held&) = delete;
  ~Held() {
    if (object) destroy(object);
  }
};

struct Descriptors {
  const BlasLt& lt;
  Held<cublasLtMatmulDescOpaque_t> product{lt.destroy_desc};
  Held<cublasLtMatrixLayoutOpaque_t> a{lt.destroy_layout}, b{lt.destroy_layout}, c{lt.destroy_layout},
      d{lt.destroy_layout};

  Descriptors(const BlasLt& functions, const LtProduct& p) : lt(functions) {
    check_blas(lt.create_desc(&product.object, p.compute, CUDA_R_32F), "cublasLtMatmulDescCreate");
    set(CUBLASLT_MATMUL_DESC_TRANSA, static_cast<int32_t>(p.a.op));
    set(CUBLASLT_MATMUL_DESC_TRANSB, static_cast<int32_t>(p.b.op));
    if (p.epilogue != CUBLASLT_EPILOGUE_DEFAULT) set(CUBLASLT_MATMUL_DESC_EPILOGUE, static_cast<uint32_t>(p.epilogue));
    if (p.bias) {
      set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.bias);
      set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, static_cast<int32_t>(p.bias_type));
    }
    if (p.scale_a) set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, static_cast<const void*>(p.scale_a));
    if (p.scale_b) set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, static_cast<const void*>(p.scale_b));
    if (p.scale_d) set(CUBLASLT_MATMUL_DESC_D_SCALE_POINTER, static_cast<const void*>(p.scale_d));
    if (p.fast_accumulation) set(CUBLASLT_MATMUL_DESC_FAST_ACCUM, int8_t{1});
    layout(a, p.a.type, p.a.op == CUBLAS_OP_N ? p.m : p.k, p.a.op == CUBLAS_OP_N ? p.k : p.m, p.a.leading);
    layout(b, p.b.type, p.b.op == CUBLAS_OP_N ? p.k : p.n, p.b.op == CUBLAS_OP_N ? p.n : p.k, p.b.leading);
    layout(c, p.c_type, p.m, p.n, p.d_leading);
    layout(d, p.d_type, p.m, p.n, p.d_leading);
  }
  template <class T>
  void set(cublasLtMatmulDescAttributes_t name, T value) {
    check_blas(lt.set_desc(product.object, name, &value, sizeof value), "cublasLtMatmulDescSetAttribute");
  }
  // Older libraries do not know the attribute: then there is no such product.
  bool set_outer_scales() {
    const int32_t mode = CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F;
    return lt.set_desc(product.object, CUBLASLT_MATMUL_DESC_A_SCALE_MODE, &mode, sizeof mode) ==
               CUBLAS_STATUS_SUCCESS &&
           lt.set_desc(product.object, CUBLASLT_MATMUL_DESC_B_SCALE_MODE, &mode, sizeof mode) == CUBLAS_STATUS_SUCCESS;
  }

 private:
  void layout(Held<cublasLtMatrixLayoutOpaque_t>& to, cudaDataType_t type, int64_t rows, int64_t cols,
              int64_t leading) {
    check_blas(lt.create_layout(&to.object, type, static_cast<uint64_t>(rows), static_cast<uint64_t>(cols), leading),
               "cublasLtMatrixLayoutCreate");
  }
};

// Bytes that an address is a multiple of, 256 at most.
uint32_t alignment_of(const void* p) {
  const auto address = reinterpret_cast<uintptr_t>(p);
  uint32_t a = 256;
  while (address % a) a /= 2;
  return a;
}

// What the choice of an algorithm depends on.
using Key = std::array<int64_t, 24>;
Key key_of(const LtProduct& p, size_t workspace) {
  return {op_device(),
          p.m,
          p.n,
          p.k,
          p.a.type,
          p.a.op,
          p.a.leading,
          p.b.type,
          p.b.op,
          p.b.leading,
          p.d_type,
          p.c_type,
          p.d_leading,
          p.compute,
          p.epilogue,
          p.bias ? p.bias_type : -1,
          p.scale_a != nullptr,
          p.scale_d != nullptr,
          p.outer_scales,
          p.fast_accumulation,
          p.reduced_reduction,
          static_cast<int64_t>(workspace),
          alignment_of(p.a.data) | int64_t{alignment_of(p.b.data)} << 16,
          alignment_of(p.d) | int64_t{alignment_of(p.bias)} << 16};
}
struct Choice {
  bool found = false;
  cublasLtMatmulAlgo_t algorithm{};
};
struct Choices {
  std::mutex mutex;
  std::map<Key, Choice> known;
};
Choices& choices() {
  static Choices& c = *new Choices;
  return c;
}

Choice choose(const BlasLt& lt, const LtProduct& p, const Descriptors& d, size_t workspace) {
  const Key key = key_of(p, workspace);
  const std::lock_guard lock(choices().mutex);
  const auto [at, is_new] = choices().known.try_emplace(key);
  if (!is_new) return at->second;
  Held<cublasLtMatmulPreferenceOpaque_t> preference(lt.destroy_preference);
  check_blas(lt.create_preference(&preference.object), "cublasLtMatmulPreferenceCreate");
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t name, auto value) {
    check_blas(lt.set_preference(preference.object, name, &value, sizeof value),
               "cublasLtMatmulPreferenceSetAttribute");
  };
  set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64_t{workspace});
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_of(p.a.data));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment_of(p.b.data));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment_of(p.d));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, std::min(alignment_of(p.d), alignment_of(p.bias)));
  if (!p.reduced_reduction)
    set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
        static_cast<uint32_t>(CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  cublasLtMatmulHeuristicResult_t result{};
  int count = 0;
  const cublasStatus_t s =
      lt.find_algorithm(reinterpret_cast<cublasLtHandle_t>(blas_handle()), d.product.object, d.a.object, d.b.object,
                        d.c.object, d.d.object, preference.object, 1, &result, &count);
  if (s == CUBLAS_STATUS_SUCCESS && count > 0 && result.state == CUBLAS_STATUS_SUCCESS)
    at->second = {true, result.algo};
  return at->second;
}

}  // namespace

const BlasLt* find_blas_lt() {
  static const auto& l = *new Library<BlasLt>(load());
  return l.found ? &l.functions : nullptr;
}

bool lt_product(const LtProduct& p) {
  const BlasLt* const lt = find_blas_lt();
  if (!lt || !find_blas()) return false;
  // A handle of cuBLAS is one of cuBLASLt.
  const cublasHandle_t handle = blas_handle();
  const BlasWorkspace workspace = blas_workspace();
  Descriptors d(*lt, p);
  if (p.outer_scales && !d.set_outer_scales()) return false;
  const Choice choice = choose(*lt, p, d, workspace.bytes);
  if (!choice.found) return false;
  const float beta = 0;
  const cublasStatus_t s = lt->matmul(reinterpret_cast<cublasLtHandle_t>(handle), d.product.object, &p.alpha, p.a.data,
                                      d.a.object, p.b.data, d.b.object, &beta, p.d, d.c.object, p.d, d.d.object,
                                      &choice.algorithm, workspace.data, workspace.bytes, current_stream());
  if (s == CUBLAS_STATUS_NOT_SUPPORTED) return false;
  check_blas(s, "cublasLtMatmul");
  after_launch();
  return true;
}

}  // namespace tessera::cuda
