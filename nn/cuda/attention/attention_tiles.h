// Pieces of the attention kernels: tiles in shared memory, products of tiles in three arithmetics, masks.
//
// A warp owns 16 rows, or two times 16. Its scores are tiles of 16 x 8 in the layout of mma.h: lane 4 g + t holds
// columns 2t and 2t + 1 of rows g and g + 8. The columns of its results that a lane holds are those of P::column().
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "nn/cuda/attention/attention.h"
#include "tensor/cuda/random/random_stream.h"
#include "tensor/cuda/support/mma.h"
#include "tensor/cuda/support/types.h"

namespace tessera::cuda::attention {

inline constexpr float kLog2E = 1.4426950408889634f;
inline constexpr float kInfinity = __builtin_huge_valf();

// Columns of a tile in shared memory: a multiple of 16, zeros beyond the operand's. Rows are an odd multiple of 16
// bytes apart: those that a warp reads together are in different banks.
inline __host__ __device__ int padded_columns(int64_t n) { return static_cast<int>((n + 15) / 16 * 16); }
template <class T>
__host__ __device__ constexpr int pitch_of(int columns) {
  return columns + 16 / static_cast<int>(sizeof(T));
}

// rows x padded elements into shared memory by all threads of the block: row r < valid is at row_at(r). Vectors are
// copied asynchronously.
template <class T, class F>
__device__ inline void load_tile(T* tile, int rows, int valid, int64_t columns, int padded, bool vectors, F row_at) {
  constexpr int kPer = 16 / static_cast<int>(sizeof(T));
  if (padded == 0) return;
  const int chunks = padded / kPer, pitch = pitch_of<T>(padded), shift = 31 - __clz(chunks < 32 ? chunks : 32),
            across = 1 << shift;
  for (int r = static_cast<int>(threadIdx.x) >> shift; r < rows; r += static_cast<int>(blockDim.x) >> shift) {
    const T* from = row_at(r < valid ? r : 0);
    for (int c = static_cast<int>(threadIdx.x) & (across - 1); c < chunks; c += across) {
      const int64_t left = r < valid ? columns - c * kPer : 0;
      const int n = left <= 0 ? 0 : left < kPer ? static_cast<int>(left) : kPer;
      T* to = tile + r * pitch + c * kPer;
      if (vectors) {
        copy_async(to, n > 0 ? from + c * kPer : from, n * static_cast<int>(sizeof(T)));
      } else {
#pragma unroll
        for (int i = 0; i < kPer; ++i) to[i] = i < n ? from[c * kPer + i] : T{};
      }
    }
  }
}

// Walks over blocks: use(block) is called while load(block + 1), which ends in commit_copies(), is under way. Block 0
// has been loaded.
template <class I, class Load, class Use>
__device__ __forceinline__ void walk(I blocks, const Load& load, const Use& use) {
  for (I block = 0; block < blocks; ++block) {
    if (block + 1 < blocks) {
      load(block + 1);
      wait_for_copies<1>();
    } else {
      wait_for_copies<0>();
    }
    __syncthreads();
    use(block);
    __syncthreads();  // the next round writes where this one read
  }
}

// The element of a batch entry and head.
template <class T>
__device__ inline T* at(const cpu::AttentionOperand& o, int64_t batch, int64_t head) {
  return static_cast<T*>(o.data) + batch * o.batch_stride + head * o.head_stride;
}

// What the mask of a batch entry and head adds to a score: 0 or -infinity if it is boolean.
template <class T>
__device__ inline Compute<T> mask_term(const cpu::AttentionMask& mask, int64_t index) {
  using V = Compute<T>;
  if (mask.dtype == DType::kBool) return static_cast<const bool*>(mask.data)[index] ? V(0) : -static_cast<V>(kInfinity);
  if (mask.dtype == DType::kFloat32) return static_cast<V>(static_cast<const float*>(mask.data)[index]);
  return load(static_cast<const T*>(mask.data) + index);
}
__device__ inline int64_t mask_offset(const cpu::AttentionMask& mask, int64_t batch, int64_t head) {
  return batch * mask.batch_stride + head * mask.head_stride;
}
// A masked score: nothing that is added makes a forbidden key visible.
template <class V>
__device__ inline V masked(V score, V term) {
  return term == -static_cast<V>(kInfinity) ? term : score + term;
}

// The factors of the weights of four keys, 4 key_quad and the next ones.
struct Factors {
  float of[4];
};
__device__ inline Factors drop_factors(const Job& job, int64_t batch, int64_t head, int64_t query, int64_t key_quad) {
  const uint64_t row = static_cast<uint64_t>((batch * job.shape.heads + head) * job.shape.queries + query);
  const PhiloxWords w = philox_at(job.drop.words[0], row, job.drop.words[1] + static_cast<uint64_t>(key_quad));
  const auto factor = [&](uint32_t x) {
    return unit_float(x) <= job.drop.kept ? static_cast<float>(job.drop.scale) : 0.0f;
  };
  return {{factor(w.x), factor(w.y), factor(w.z), factor(w.w)}};
}
__device__ inline float drop_factor(const Job& job, int64_t batch, int64_t head, int64_t query, int64_t key) {
  return drop_factors(job, batch, head, query, key / 4).of[key & 3];
}

__device__ inline int lane_of_warp() { return static_cast<int>(threadIdx.x) & 31; }

// A warp's own terms of the mask: store(i) for all `count` places of its tile.
template <class F>
__device__ __forceinline__ void fill_terms(int count, const F& store) {
  __syncwarp();
  for (int i = lane_of_warp(); i < count; i += 32) store(i);
  __syncwarp();
}

// Each arithmetic P has: score(), acc += a b^T for rows of a and b in shared memory; accumulate(), out += p b for p in
// registers and rows of b; the exponential function of scores in units of 1 / kUnit, and the column of tile o's element
// e.

// Half or BFloat16 on tensor cores.
template <class T>
struct Products16 {
  using Element = T;
  static constexpr float kUnit = kLog2E;
  __device__ static float exponential(float x) { return fast_exp2(x); }
  __device__ static int column(int o, int e) { return 8 * o + 2 * (lane_of_warp() & 3) + e; }

  __device__ static unsigned pack(float low, float high) {
#ifdef __CUDA_ARCH__
    unsigned both;  // by one instruction
    if constexpr (std::is_same_v<T, Half>) {
      const __half2 pair = __floats2half2_rn(low, high);
      memcpy(&both, &pair, sizeof both);
    } else {
      const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
      memcpy(&both, &pair, sizeof both);
    }
    return both;
#else
    T pair[2];
    store(&pair[0], low);
    store(&pair[1], high);
    return pair[0].bits | static_cast<unsigned>(pair[1].bits) << 16;
#endif
  }

  template <int kM, int kN>
  __device__ __forceinline__ static void score(float (&acc)[kM][kN][4], const T* a, const T* b, int depth) {
    const int lane = lane_of_warp(), pitch = pitch_of<T>(depth);
    a += (lane & 15) * pitch + (lane >> 4) * 8;
    b += ((lane & 7) + (lane >> 4) * 8) * pitch + ((lane >> 3) & 1) * 8;
#pragma unroll 4
    for (int k = 0; k < depth; k += 16) {
      unsigned from_a[kM][4];
#pragma unroll
      for (int m = 0; m < kM; ++m) load_matrices(from_a[m], a + 16 * m * pitch + k);
#pragma unroll
      for (int j = 0; j < kN; j += 2) {
        unsigned from_b[4];
        load_matrices(from_b, b + 8 * j * pitch + k);
#pragma unroll
        for (int m = 0; m < kM; ++m) {
          multiply(Tag<T>(), acc[m][j], from_a[m], from_b[0], from_b[1]);
          multiply(Tag<T>(), acc[m][j + 1], from_a[m], from_b[2], from_b[3]);
        }
      }
    }
  }

  template <int kM, int kN, int kO>
  __device__ __forceinline__ static void accumulate(float (&out)[kM][kO][4], const float (&p)[kM][kN][4], const T* b,
                                                    int pitch, int columns) {
    const int lane = lane_of_warp();
    b += (lane & 15) * pitch + (lane >> 4) * 8;
#pragma unroll
    for (int j = 0; j < kN; j += 2) {
      unsigned from_p[kM][4];
#pragma unroll
      for (int m = 0; m < kM; ++m) {
#pragma unroll
        for (int i = 0; i < 4; ++i) from_p[m][i] = pack(p[m][j + i / 2][2 * (i % 2)], p[m][j + i / 2][2 * (i % 2) + 1]);
      }
#pragma unroll
      for (int o = 0; o < kO; o += 2) {
        if (8 * o >= columns) break;
        unsigned from_b[4];
        load_matrices_transposed(from_b, b + 8 * j * pitch + 8 * o);
#pragma unroll
        for (int m = 0; m < kM; ++m) {
          multiply(Tag<T>(), out[m][o], from_p[m], from_b[0], from_b[1]);
          multiply(Tag<T>(), out[m][o + 1], from_p[m], from_b[2], from_b[3]);
        }
      }
    }
  }
};

// float32 on tensor cores, rounded to tf32.
struct ProductsTf32 {
  using Element = float;
  static constexpr float kUnit = kLog2E;
  __device__ static float exponential(float x) { return fast_exp2(x); }
  __device__ static int column(int o, int e) { return 8 * o + 2 * (lane_of_warp() & 3) + e; }

  template <int kM, int kN>
  __device__ __forceinline__ static void score(float (&acc)[kM][kN][4], const float* a, const float* b, int depth) {
    const int lane = lane_of_warp(), pitch = pitch_of<float>(depth);
    a += (lane >> 2) * pitch + (lane & 3);
    b += (lane >> 2) * pitch + (lane & 3);
#pragma unroll 2
    for (int k = 0; k < depth; k += 8) {
      unsigned from_a[kM][4];
#pragma unroll
      for (int m = 0; m < kM; ++m) {
#pragma unroll
        for (int i = 0; i < 4; ++i) from_a[m][i] = to_tf32(a[(16 * m + 8 * (i & 1)) * pitch + k + 4 * (i >> 1)]);
      }
#pragma unroll
      for (int j = 0; j < kN; ++j) {
        const unsigned b0 = to_tf32(b[8 * j * pitch + k]), b1 = to_tf32(b[8 * j * pitch + k + 4]);
#pragma unroll
        for (int m = 0; m < kM; ++m) multiply_tf32(acc[m][j], from_a[m], b0, b1);
      }
    }
  }

  // The depth of a product may be taken in any order, the same for both operands: columns 2t of p are taken as t,
  // columns 2t + 1 as t + 4, which are in this lane.
  template <int kM, int kN, int kO>
  __device__ __forceinline__ static void accumulate(float (&out)[kM][kO][4], const float (&p)[kM][kN][4],
                                                    const float* b, int pitch, int columns) {
    const int lane = lane_of_warp();
    b += 2 * (lane & 3) * pitch + (lane >> 2);
#pragma unroll
    for (int j = 0; j < kN; ++j) {
      unsigned from_p[kM][4];
#pragma unroll
      for (int m = 0; m < kM; ++m) {
#pragma unroll
        for (int i = 0; i < 4; ++i) from_p[m][i] = to_tf32(p[m][j][2 * (i & 1) + (i >> 1)]);
      }
#pragma unroll
      for (int o = 0; o < kO; ++o) {
        if (8 * o >= columns) break;
        const unsigned b0 = to_tf32(b[8 * j * pitch + 8 * o]), b1 = to_tf32(b[(8 * j + 1) * pitch + 8 * o]);
#pragma unroll
        for (int m = 0; m < kM; ++m) multiply_tf32(out[m][o], from_p[m], b0, b1);
      }
    }
  }
};

// float32 as it is. Of each 16 columns of a result a lane holds four neighbours, so that it reads them at once.
struct Products32 {
  using Element = float;
  static constexpr float kUnit = 1;
  __device__ static float exponential(float x) { return expf(x); }
  __device__ static int column(int o, int e) { return 16 * (o / 2) + 4 * (lane_of_warp() & 3) + 2 * (o % 2) + e; }

  template <int kM, int kN>
  __device__ __forceinline__ static void score(float (&acc)[kM][kN][4], const float* a, const float* b, int depth) {
    const int lane = lane_of_warp(), pitch = pitch_of<float>(depth);
    a += (lane >> 2) * pitch;
    b += 2 * (lane & 3) * pitch;
    for (int k = 0; k < depth; k += 4) {
      float4 from_a[kM][2];
#pragma unroll
      for (int m = 0; m < kM; ++m) {
#pragma unroll
        for (int h = 0; h < 2; ++h) from_a[m][h] = *reinterpret_cast<const float4*>(a + (16 * m + 8 * h) * pitch + k);
      }
#pragma unroll
      for (int j = 0; j < kN; ++j) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const float4 y = *reinterpret_cast<const float4*>(b + (8 * j + e) * pitch + k);
#pragma unroll
          for (int m = 0; m < kM; ++m) {
#pragma unroll
            for (int h = 0; h < 2; ++h) {
              const float4 x = from_a[m][h];
              float& sum = acc[m][j][2 * h + e];
              sum = fmaf(x.w, y.w, fmaf(x.z, y.z, fmaf(x.y, y.y, fmaf(x.x, y.x, sum))));
            }
          }
        }
      }
    }
  }

  template <int kM, int kN, int kO>
  __device__ __forceinline__ static void accumulate(float (&out)[kM][kO][4], const float (&p)[kM][kN][4],
                                                    const float* b, int pitch, int columns) {
    const int lane = lane_of_warp();
    b += 4 * (lane & 3);
#pragma unroll
    for (int j = 0; j < kN; ++j) {
#pragma unroll
      for (int k = 0; k < 8; ++k) {
        float x[kM][2];
#pragma unroll
        for (int m = 0; m < kM; ++m) {
#pragma unroll
          for (int h = 0; h < 2; ++h) x[m][h] = __shfl_sync(0xffffffffu, p[m][j][2 * h + k % 2], (lane & ~3) | k / 2);
        }
#pragma unroll
        for (int o = 0; o < kO; o += 2) {
          if (8 * o >= columns) break;
          const float4 y = *reinterpret_cast<const float4*>(b + (8 * j + k) * pitch + 8 * o);
#pragma unroll
          for (int m = 0; m < kM; ++m) {
#pragma unroll
            for (int h = 0; h < 2; ++h) {
              out[m][o][2 * h] = fmaf(x[m][h], y.x, out[m][o][2 * h]);
              out[m][o][2 * h + 1] = fmaf(x[m][h], y.y, out[m][o][2 * h + 1]);
              out[m][o + 1][2 * h] = fmaf(x[m][h], y.z, out[m][o + 1][2 * h]);
              out[m][o + 1][2 * h + 1] = fmaf(x[m][h], y.w, out[m][o + 1][2 * h + 1]);
            }
          }
        }
      }
    }
  }
};

// The sum or maximum over the four lanes that hold a row.
__device__ inline float row_sum(float v) {
  v += __shfl_xor_sync(0xffffffffu, v, 1);
  return v + __shfl_xor_sync(0xffffffffu, v, 2);
}
__device__ inline float row_max(float v) {
  v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, 1));
  return fmaxf(v, __shfl_xor_sync(0xffffffffu, v, 2));
}

// A warp's results, each row times a factor, to its own shared memory, rows of staged_pitch<kO>.
template <int kO>
inline constexpr int staged_pitch = 8 * kO + 4;
template <class P, int kO>
__device__ __forceinline__ void stage_rows(float* staged, const float (&out)[kO][4], float factor0, float factor1) {
  const int row = lane_of_warp() / 4;
#pragma unroll
  for (int o = 0; o < kO; ++o) {
#pragma unroll
    for (int i = 0; i < 4; ++i)
      staged[(row + 8 * (i / 2)) * staged_pitch<kO> + P::column(o, i % 2)] = out[o][i] * (i < 2 ? factor0 : factor1);
  }
}
// By all lanes of a warp.
template <class T>
__device__ inline void copy_row(T* row, const float* staged, int64_t columns) {
  for (int c = lane_of_warp(); c < columns; c += 32) store(row + c, staged[c]);
}

// Starts a kernel template for the operands' arithmetic.
template <class F>
void visit_arithmetic(Arithmetic a, F&& f) {
  switch (a) {
    case Arithmetic::kHalf:
      return f(Tag<Products16<Half>>());
    case Arithmetic::kBFloat16:
      return f(Tag<Products16<BFloat16>>());
    case Arithmetic::kTf32:
      return f(Tag<ProductsTf32>());
    default:
      return f(Tag<Products32>());
  }
}

}  // namespace tessera::cuda::attention
