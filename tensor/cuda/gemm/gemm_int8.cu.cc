// Products of bytes by tensor cores, in sums modulo 2^32.
#include <algorithm>

#include "tensor/cuda/gemm/engines.h"
#include "tensor/cuda/gemm/gemm_kernels.h"
#include "tensor/cuda/support/mma.h"

namespace tessera::cuda {
namespace internal {
namespace {

constexpr int kTile = 64;            // of C, per block: four warps with 32 x 32 of it
constexpr int kDepth = 64;           // of A and B, per step
constexpr int kPitch = kDepth + 16;  // bytes from row to row: eight rows of 16 bytes touch all banks once
constexpr int kTileThreads = 128;

// Rows of A, or columns of B, of two steps: the next one is on its way while one is multiplied.
struct Tiles {
  alignas(16) unsigned char lines[2][2][kTile][kPitch];
};

// Where lines are read from.
struct Lines {
  const unsigned char* data;
  int64_t count, line, term;  // lines there are, strides
  bool whole;                 // terms lie dense, and lines begin at multiples of 16 bytes
};

// Terms [k0, k0 + kDepth) of lines [first, first + kTile); what is not there becomes zero.
__device__ inline void fill(const Lines& from, int64_t first, int64_t k0, int64_t k,
                            unsigned char (&to)[kTile][kPitch]) {
  const int tid = static_cast<int>(threadIdx.x);
  if (from.whole) {
    for (int i = tid; i < kTile * kDepth / 16; i += kTileThreads) {
      const int line = i / (kDepth / 16), at = i % (kDepth / 16) * 16;
      const int64_t left = first + line < from.count ? k - k0 - at : 0;
      copy_async(&to[line][at], left > 0 ? from.data + (first + line) * from.line + k0 + at : from.data,
                 static_cast<int>(left < 0    ? 0
                                  : left < 16 ? left
                                              : 16));
    }
    return;
  }
  // Four terms at a time. Neighbouring threads read along the smaller stride.
  const bool along = from.term == 1;
  for (int i = tid; i < kTile * kDepth / 4; i += kTileThreads) {
    const int line = along ? i / (kDepth / 4) : i % kTile, at = (along ? i % (kDepth / 4) : i / kTile) * 4;
    unsigned word = 0;
    if (first + line < from.count)
      for (int e = 0; e < 4; ++e)
        if (k0 + at + e < k)
          word |= unsigned{from.data[(first + line) * from.line + (k0 + at + e) * from.term]} << 8 * e;
    *reinterpret_cast<unsigned*>(&to[line][at]) = word;
  }
}

// sum[m][j]: the warp's tiles of 16 x 8, += the product of what is in shared memory.
__device__ inline void multiply(const unsigned char (&a)[kTile][kPitch], const unsigned char (&b)[kTile][kPitch],
                                bool a_unsigned, int (&sum)[2][4][4]) {
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int row = warp / 2 * 32 + lane % 16, column = warp % 2 * 32 + lane % 8 + lane / 16 * 8;
  for (int k = 0; k < kDepth; k += 32) {
    unsigned from_a[2][4];
#pragma unroll
    for (int m = 0; m < 2; ++m) load_matrices(from_a[m], &a[row + 16 * m][k + lane / 16 * 16]);
#pragma unroll
    for (int j = 0; j < 4; j += 2) {
      unsigned from_b[4];  // columns 8 j on, both halves of the depth, then the eight behind
      load_matrices(from_b, &b[column + 8 * j][k + lane / 8 % 2 * 16]);
#pragma unroll
      for (int m = 0; m < 2; ++m) {
        multiply_bytes(sum[m][j], from_a[m], from_b[0], from_b[1], a_unsigned);
        multiply_bytes(sum[m][j + 1], from_a[m], from_b[2], from_b[3], a_unsigned);
      }
    }
  }
}

template <class T>
__global__ void __launch_bounds__(kTileThreads)
    gemm_bytes_kernel(IntProduct p, Lines a, Lines b, bool a_unsigned, T* c) {
  __shared__ Tiles tiles;
  const int64_t across = (p.n + kTile - 1) / kTile, count = (p.m + kTile - 1) / kTile * across;
  const unsigned char *const a_data = a.data, *const b_data = b.data;
  for (int64_t block = blockIdx.x; block < count * p.batch; block += gridDim.x) {
    const int64_t z = block / count, row0 = block % count / across * kTile, col0 = block % across * kTile;
    a.data = a_data + z * p.a_batch;
    b.data = b_data + z * p.b_batch;
    const auto begin = [&](int64_t k0) {
      const int stage = static_cast<int>(k0 / kDepth % 2);
      fill(a, row0, k0, p.k, tiles.lines[stage][0]);
      fill(b, col0, k0, p.k, tiles.lines[stage][1]);
      commit_copies();
    };
    int sum[2][4][4] = {};
    if (p.k > 0) begin(0);
    for (int64_t k0 = 0; k0 < p.k; k0 += kDepth) {
      if (k0 + kDepth < p.k) {
        begin(k0 + kDepth);
        wait_for_copies<1>();
      } else {
        wait_for_copies<0>();
      }
      __syncthreads();
      const int stage = static_cast<int>(k0 / kDepth % 2);
      multiply(tiles.lines[stage][0], tiles.lines[stage][1], a_unsigned, sum);
      __syncthreads();
    }
    const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
#pragma unroll
    for (int m = 0; m < 2; ++m)
#pragma unroll
      for (int j = 0; j < 4; ++j)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int64_t row = row0 + warp / 2 * 32 + m * 16 + lane / 4 + i / 2 * 8,
                        col = col0 + warp % 2 * 32 + j * 8 + lane % 4 * 2 + i % 2;
          if (row >= p.m || col >= p.n) continue;
          T* const to = c + z * p.c_batch + row * p.c_row + col * p.c_col;
          const auto of = [](int64_t v) { return static_cast<unsigned>(v); };
          *to = static_cast<T>(of(p.alpha) * of(sum[m][j][i]) + (p.beta == 0 ? 0 : of(p.beta) * of(*to)));
        }
  }
}

Lines lines_of(const void* data, int64_t count, int64_t line, int64_t term, int64_t batch, int64_t batch_stride) {
  const auto fits = [](int64_t bytes) { return bytes % 16 == 0; };
  return {static_cast<const unsigned char*>(data), count, line, term,
          term == 1 && fits(static_cast<int64_t>(reinterpret_cast<uintptr_t>(data))) && (count == 1 || fits(line)) &&
              (batch == 1 || fits(batch_stride))};
}

}  // namespace

void gemm_bytes(const Products& p, bool into_int32, bool a_unsigned) {
  const int64_t tiles = (p.m + kTile - 1) / kTile * ((p.n + kTile - 1) / kTile) * p.batch;
  const auto run = [&](auto* c, auto kernel) {
    launch_blocks(kernel, dim3(static_cast<unsigned>(std::min<int64_t>(tiles, 1 << 30))), dim3(kTileThreads), 0,
                  int_product(p), lines_of(p.a.data, p.m, p.a.row_stride, p.a.col_stride, p.batch, p.a_batch),
                  lines_of(p.b.data, p.n, p.b.col_stride, p.b.row_stride, p.batch, p.b_batch), a_unsigned, c);
  };
  into_int32 ? run(static_cast<int*>(p.c.data), gemm_bytes_kernel<int>)
             : run(static_cast<unsigned char*>(p.c.data), gemm_bytes_kernel<unsigned char>);
}

}  // namespace internal

void gemm_int8(int64_t m, int64_t n, int64_t k, const cpu::MatrixRef& a, bool a_unsigned, const cpu::MatrixRef& b,
               const cpu::MatrixRef& c) {
  KernelParam one, zero;
  one.i = 1, zero.i = 0;
  if (m > 0 && n > 0) internal::gemm_bytes({1, m, n, k, one, zero, a, b, c, 0, 0, 0}, true, a_unsigned);
}

}  // namespace tessera::cuda
