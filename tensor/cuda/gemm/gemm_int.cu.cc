// Matrix products of integers and bool, modulo 2^bits; and the last step of products that cuBLAS cannot write in place.
#include "tensor/cuda/gemm/gemm_kernels.h"
#include "tensor/cuda/support/types.h"

namespace tessera::cuda::internal {
namespace {

constexpr int kTile = 64;   // of C, per block
constexpr int kDepth = 16;  // of A and B, per step
constexpr int kPer = 4;     // kPer x kPer elements of C per thread: 16 x 16 threads

// S: what sums are kept in, at least as wide as T. kLogical: bool's "or" of "and"s.
template <class T, class S, bool kLogical>
__global__ void __launch_bounds__(256) gemm_int_kernel(IntProduct p, const T* a, const T* b, T* c) {
  __shared__ S a_tile[kDepth][kTile + 4];
  __shared__ S b_tile[kDepth][kTile + 4];
  const int64_t across = (p.n + kTile - 1) / kTile, tiles = (p.m + kTile - 1) / kTile * across;
  const int tid = static_cast<int>(threadIdx.x), tx = tid % 16, ty = tid / 16;
  for (int64_t block = blockIdx.x; block < tiles * p.batch; block += gridDim.x) {
    const int64_t z = block / tiles, row0 = block % tiles / across * kTile, col0 = block % across * kTile;
    const T* const az = a + z * p.a_batch;
    const T* const bz = b + z * p.b_batch;
    S sum[kPer][kPer] = {};
    for (int64_t k0 = 0; k0 < p.k; k0 += kDepth) {
      __syncthreads();
      for (int i = tid; i < kTile * kDepth; i += 256) {
        // Neighbouring threads read along the operand's smaller stride.
        const bool a_by_k = p.a_col == 1;
        const int ar = a_by_k ? i / kDepth : i % kTile, ak = a_by_k ? i % kDepth : i / kTile;
        a_tile[ak][ar] =
            row0 + ar < p.m && k0 + ak < p.k ? static_cast<S>(az[(row0 + ar) * p.a_row + (k0 + ak) * p.a_col]) : S{0};
        const bool b_by_k = p.b_row == 1 && p.b_col != 1;
        const int bc = b_by_k ? i / kDepth : i % kTile, bk = b_by_k ? i % kDepth : i / kTile;
        b_tile[bk][bc] =
            col0 + bc < p.n && k0 + bk < p.k ? static_cast<S>(bz[(k0 + bk) * p.b_row + (col0 + bc) * p.b_col]) : S{0};
      }
      __syncthreads();
      for (int kk = 0; kk < kDepth; ++kk) {
        S av[kPer], bv[kPer];
        for (int i = 0; i < kPer; ++i) {
          av[i] = a_tile[kk][ty * kPer + i];
          bv[i] = b_tile[kk][tx * kPer + i];
        }
        for (int i = 0; i < kPer; ++i)
          for (int j = 0; j < kPer; ++j) {
            if constexpr (kLogical)
              sum[i][j] |= static_cast<S>(av[i] != 0 && bv[j] != 0);
            else
              sum[i][j] += av[i] * bv[j];
          }
      }
    }
    for (int i = 0; i < kPer; ++i)
      for (int j = 0; j < kPer; ++j) {
        const int64_t row = row0 + ty * kPer + i, col = col0 + tx * kPer + j;
        if (row >= p.m || col >= p.n) continue;
        T* const to = c + z * p.c_batch + row * p.c_row + col * p.c_col;
        if constexpr (kLogical)
          *to = static_cast<T>((p.alpha != 0 && sum[i][j] != 0) || (p.beta != 0 && *to != 0));
        else
          *to = static_cast<T>(static_cast<S>(p.alpha) * sum[i][j] +
                               (p.beta == 0 ? S{0} : static_cast<S>(p.beta) * static_cast<S>(*to)));
      }
  }
}

template <class T, class S, bool kLogical = false>
void run_int(const Products& p) {
  const int64_t tiles = (p.m + kTile - 1) / kTile * ((p.n + kTile - 1) / kTile) * p.batch;
  launch_blocks(gemm_int_kernel<T, S, kLogical>, dim3(static_cast<unsigned>(tiles < (1 << 30) ? tiles : 1 << 30)),
                dim3(256), 0, int_product(p), static_cast<const T*>(p.a.data), static_cast<const T*>(p.b.data),
                static_cast<T*>(p.c.data));
}

struct Target {
  int64_t m, n, row, col, batch;
};

template <class T>
void run_combine(const Products& p, const void* sum) {
  using S = Compute<T>;
  S alpha, beta;
  if constexpr (is_complex_type<S>) {
    alpha = S(static_cast<Real<S>>(p.alpha.c[0]), static_cast<Real<S>>(p.alpha.c[1]));
    beta = S(static_cast<Real<S>>(p.beta.c[0]), static_cast<Real<S>>(p.beta.c[1]));
  } else {
    alpha = static_cast<S>(p.alpha.f);
    beta = static_cast<S>(p.beta.f);
  }
  const Target to{p.m, p.n, p.c.row_stride, p.c.col_stride, p.c_batch};
  const S* const from = static_cast<const S*>(sum);
  T* const c = static_cast<T*>(p.c.data);
  for_each(p.batch * p.m * p.n, [=] __device__(int64_t i) {
    const int64_t j = i % to.n, r = i / to.n % to.m, z = i / to.n / to.m;
    T* const at = c + z * to.batch + r * to.row + j * to.col;
    S v = from ? alpha * from[i] : S{};
    if (beta != S{}) v = beta * load(at) + v;
    store(at, v);
  });
}

}  // namespace

void gemm_integer(DType dtype, const Products& p) {
  switch (item_size(dtype)) {
    case 1:
      return dtype == DType::kBool ? run_int<uint8_t, uint32_t, true>(p) : gemm_bytes(p, false, false);
    case 2:
      return run_int<uint16_t, uint32_t>(p);
    case 4:
      return run_int<uint32_t, uint32_t>(p);
    default:
      return run_int<uint64_t, uint64_t>(p);
  }
}

void combine(DType dtype, const Products& p, const void* sum) {
  visit<kAllFloats | kComplexes | kComplexHalves>(dtype, "gemm",
                                                  [&](auto tag) { run_combine<typename decltype(tag)::type>(p, sum); });
}

}  // namespace tessera::cuda::internal
