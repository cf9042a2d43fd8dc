// Attention's forward pass in tiles: a block of four warps has some rows of queries, walks over blocks of keys and
// keeps each row's running maximum and sum.
#pragma once

#include "nn/cuda/attention/attention_tiles.h"

namespace tessera::cuda::attention {
namespace {

constexpr int kWarps = 4;

// A block's place in the grid, and the sizes of its tiles.
struct Place {
  int first_row, rows;  // rows: queries of `pack` heads one after the other
  int64_t batch, head, kv_head, part, split;
};
__device__ inline Place place_of(const Job& job, int rows_per_block, int parts) {
  const int64_t rows = job.shape.queries * job.pack, row_blocks = ceil_div(rows, rows_per_block),
                heads = job.shape.heads / job.pack;
  int64_t x = blockIdx.x;
  Place p;
  p.rows = static_cast<int>(rows);
  p.first_row =
      static_cast<int>(row_blocks - 1 - x % row_blocks) * rows_per_block;  // the longest rows of causal attention first
  x /= row_blocks;
  p.part = x % parts;
  x /= parts;
  p.split = x % job.splits;
  x /= job.splits;
  p.head = x % heads * job.pack;
  p.batch = x / heads;
  p.kv_head = p.head / (job.shape.heads / job.shape.kv_heads);
  return p;
}

// Scores to weights, in place; the maximum and sum of a row follow, and what has been accumulated is brought to the new
// maximum.
template <class P, int kN, int kO>
__device__ __forceinline__ void weigh(float (&s)[kN][4], float (&out)[kO][4], float (&max)[2], float (&sum)[2]) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    float top = -kInfinity;
#pragma unroll
    for (int j = 0; j < kN; ++j) top = fmaxf(top, fmaxf(s[j][2 * h], s[j][2 * h + 1]));
    top = fmaxf(max[h], row_max(top));
    const float base = top == -kInfinity ? 0.0f : top;  // where nothing is seen yet, weights must become 0, not NaN
    const float correction = P::exponential(max[h] - base);
    max[h] = top;
    float total = 0;
#pragma unroll
    for (int j = 0; j < kN; ++j) {
#pragma unroll
      for (int e = 0; e < 2; ++e) total += s[j][2 * h + e] = P::exponential(s[j][2 * h + e] - base);
    }
    sum[h] = sum[h] * correction + total;
#pragma unroll
    for (int o = 0; o < kO; ++o) {
      out[o][2 * h] *= correction;
      out[o][2 * h + 1] *= correction;
    }
  }
}

// What a block of threads works on. kM: 16 rows of each warp; kKeys: of a block of keys; kOut: columns of the result
// that it computes, the others are other blocks' parts.
template <class P, int kOut, int kM, int kKeys>
struct Block {
  using T = typename P::Element;
  static constexpr int kRows = 16 * kM * kWarps, kN = kKeys / 8, kO = kOut / 8;
  using Scores = float[kN][4];

  const Job& job;
  const cpu::AttentionShape& shape = job.shape;
  const Place place = place_of(job, kRows, parts_of(shape.value_dim, kOut));
  const bool packed = job.pack > 1;
  // Columns of the result, and of the tiles.
  const int64_t first_column = place.part * kOut,
                columns = shape.value_dim - first_column < kOut ? shape.value_dim - first_column : kOut;
  const int dim = padded_columns(shape.dim), value_dim = padded_columns(columns), pitch = pitch_of<T>(dim),
            value_pitch = pitch_of<T>(value_dim);
  // Shared memory: the queries, two blocks of keys and of values, each warp's terms of the mask if there is one.
  T* const queries = static_cast<T*>(dynamic_shared());
  T* const keys = queries + kRows * pitch;
  T* const values = keys + 2 * kKeys * pitch;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = lane_of_warp(),
            warp_row = place.first_row + 16 * kM * warp;
  float* const terms = reinterpret_cast<float*>(values + 2 * kKeys * value_pitch) + 16 * kM * kKeys * warp;
  // The keys that the block sees.
  const int last_row = place.first_row + kRows < place.rows ? place.first_row + kRows : place.rows;
  const int64_t first_key = place.split * job.split_keys, end_key = end_of_keys();
  const int key_blocks = end_key > first_key ? static_cast<int>(ceil_div(end_key - first_key, kKeys)) : 0;

  __device__ __forceinline__ int64_t end_of_keys() const {
    const int64_t end = first_key + job.split_keys < shape.keys ? first_key + job.split_keys : shape.keys;
    if (!shape.causal) return end;
    const int64_t seen = packed ? shape.queries : last_row;
    return end < seen ? end : seen;
  }
  // A row's query, and which of the heads that share the rows has it.
  __device__ __forceinline__ int query_of(int row) const {
    return packed ? row % static_cast<int>(shape.queries) : row;
  }
  __device__ __forceinline__ int head_of(int row) const { return packed ? row / static_cast<int>(shape.queries) : 0; }
  __device__ __forceinline__ int64_t key_of(int block) const { return first_key + int64_t{block} * kKeys; }

  __device__ __forceinline__ void load_queries() const {
    const T* const from = at<const T>(job.query, place.batch, place.head);
    load_tile<T>(queries, kRows, last_row - place.first_row, shape.dim, dim, job.query_vectors, [&](int r) {
      const int row = place.first_row + r;
      if (!packed) return from + row * job.query.position_stride;
      return from + head_of(row) * job.query.head_stride + query_of(row) * job.query.position_stride;
    });
  }
  __device__ __forceinline__ void load_keys(int block, const T* from_key, const T* from_value) const {
    const int64_t k = key_of(block);
    const int valid = static_cast<int>(end_key - k < kKeys ? end_key - k : kKeys);
    load_tile<T>(keys + (block & 1) * kKeys * pitch, kKeys, valid, shape.dim, dim, job.key_vectors,
                 [&](int r) { return from_key + (k + r) * job.key.position_stride; });
    load_tile<T>(values + (block & 1) * kKeys * value_pitch, kKeys, valid, columns, value_dim, job.value_vectors,
                 [&](int r) { return from_value + (k + r) * job.value.position_stride; });
    commit_copies();
  }
  __device__ __forceinline__ void load_terms(int64_t key) const {
    fill_terms(16 * kM * kKeys, [&](int i) {
      const int row = warp_row + i / kKeys, query = query_of(row);
      const int64_t k = key + i % kKeys, index = mask_offset(job.mask, place.batch, place.head + head_of(row)) +
                                                 query * job.mask.query_stride + k * job.mask.key_stride;
      terms[i] = row < place.rows && k < end_key ? P::kUnit * mask_term<T>(job.mask, index) : 0.0f;
    });
  }
  // Keys that each row of this lane sees.
  __device__ __forceinline__ void find_ends(int64_t (&end_of_row)[kM][2]) const {
#pragma unroll
    for (int m = 0; m < kM; ++m) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int query = query_of(warp_row + 16 * m + 8 * h + lane / 4);
        end_of_row[m][h] = shape.causal && query + 1 < end_key ? query + 1 : end_key;
      }
    }
  }

  // Whether this warp's rows see any of a block's keys, and whether all see all.
  __device__ __forceinline__ bool sees(int64_t key) const {
    return warp_row < last_row && !(shape.causal && !packed && key >= warp_row + 16 * kM);
  }
  __device__ __forceinline__ bool sees_all(int64_t key) const {
    return key + kKeys <= end_key && !(shape.causal && (packed || key + kKeys - 1 > warp_row));
  }
  // Products to scores of the 16 rows m, -infinity where a row sees no key.
  __device__ __forceinline__ void mask_scores(int m, Scores& s, float scale, int64_t key, bool all_seen,
                                              const int64_t (&end)[2]) const {
#pragma unroll
    for (int j = 0; j < kN; ++j) {
#pragma unroll
      for (int i = 0; i < 4; ++i) s[j][i] *= scale;
    }
    if (job.mask.data) {
#pragma unroll
      for (int j = 0; j < kN; ++j) {
#pragma unroll
        for (int i = 0; i < 4; ++i)
          s[j][i] = masked(s[j][i], terms[(16 * m + 8 * (i / 2) + lane / 4) * kKeys + 8 * j + 2 * (lane & 3) + i % 2]);
      }
    }
    if (all_seen) return;
    const int left[2] = {static_cast<int>(end[0] - key), static_cast<int>(end[1] - key)};
#pragma unroll
    for (int j = 0; j < kN; ++j) {
#pragma unroll
      for (int i = 0; i < 4; ++i) s[j][i] = 8 * j + 2 * (lane & 3) + i % 2 < left[i / 2] ? s[j][i] : -kInfinity;
    }
  }

  // Weights of the 16 rows m that are dropped become 0; the sums of the rows know all of them.
  __device__ __forceinline__ void drop(int m, Scores& s, int64_t key) const {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int row = warp_row + 16 * m + 8 * h + lane / 4, first = 2 * (lane & 1);
#pragma unroll
      for (int j = 0; j < kN; ++j) {
        const Factors f = drop_factors(job, place.batch, place.head + head_of(row), query_of(row),
                                       (key + 8 * j) / 4 + (lane & 2) / 2);
        s[j][2 * h] *= first ? f.of[2] : f.of[0];
        s[j][2 * h + 1] *= first ? f.of[3] : f.of[1];
      }
    }
  }

  // All have read the tiles: their memory takes the results, so that rows are written as a whole.
  __device__ __forceinline__ float* staged() const {
    return static_cast<float*>(dynamic_shared()) + 16 * kM * warp * staged_pitch<kO>;
  }
  __device__ __forceinline__ float* staged_logsumexps() const {
    return static_cast<float*>(dynamic_shared()) + kRows * staged_pitch<kO> + 16 * kM * warp;
  }
  __device__ __forceinline__ void stage(const float (&out)[kM][kO][4], const float (&max)[kM][2],
                                        const float (&sum)[kM][2]) const {
#pragma unroll
    for (int m = 0; m < kM; ++m) {
      float factor[2];
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const float total = row_sum(sum[m][h]);
        factor[h] = total == 0 ? 0.0f : 1 / total;
        if ((lane & 3) == 0)
          staged_logsumexps()[16 * m + 8 * h + lane / 4] = total == 0 ? -kInfinity : max[m][h] / P::kUnit + logf(total);
      }
      stage_rows<P>(staged() + 16 * m * staged_pitch<kO>, out[m], factor[0], factor[1]);
    }
    __syncwarp();
  }
  __device__ __forceinline__ void write_staged() const {
    for (int r = 0; r < 16 * kM && warp_row + r < place.rows; ++r) {
      const int row = warp_row + r, in_pack = head_of(row);
      const int64_t head = place.head + in_pack, query = row - in_pack * shape.queries,
                    all = shape.batch * shape.heads * shape.queries;
      const int64_t index = (place.batch * shape.heads + head) * shape.queries + query;
      float* const logsumexp = job.splits > 1 ? static_cast<float*>(job.partial_logsumexp) + place.split * all
                                              : static_cast<float*>(job.logsumexp);
      if (logsumexp && place.part == 0 && lane == 0) logsumexp[index] = staged_logsumexps()[r];
      const float* const from = staged() + r * staged_pitch<kO>;
      if (job.splits > 1)
        copy_row(static_cast<float*>(job.partial_out) + (place.split * all + index) * shape.value_dim + first_column,
                 from, columns);
      else
        copy_row(at<T>(job.out, place.batch, head) + query * job.out.position_stride + first_column, from, columns);
    }
  }
};

template <class P, int kOut, int kM, int kKeys>
__global__ void __launch_bounds__(32 * kWarps) forward_kernel(const Job job) {
  using B = Block<P, kOut, kM, kKeys>;
  const B b{job};
  const auto* const from_key = at<const typename B::T>(job.key, b.place.batch, b.place.kv_head);
  const auto* const from_value = at<const typename B::T>(job.value, b.place.batch, b.place.kv_head) + b.first_column;
  const auto load_keys = [&](int block) { b.load_keys(block, from_key, from_value); };
  if (b.key_blocks > 0) {
    b.load_queries();
    load_keys(0);
  }
  int64_t end_of_row[kM][2];
  b.find_ends(end_of_row);
  const float scale = static_cast<float>(b.shape.scale) * P::kUnit;
  float out[kM][B::kO][4] = {}, max[kM][2], sum[kM][2] = {};
#pragma unroll
  for (int m = 0; m < kM; ++m) max[m][0] = max[m][1] = -kInfinity;
  walk(b.key_blocks, load_keys, [&](int block) {
    const int64_t key = b.key_of(block);
    if (!b.sees(key)) return;
    float s[kM][B::kN][4] = {};
    P::score(s, b.queries + 16 * kM * b.warp * b.pitch, b.keys + (block & 1) * kKeys * b.pitch, b.dim);
    if (job.mask.data) b.load_terms(key);
    const bool all_seen = b.sees_all(key);
#pragma unroll
    for (int m = 0; m < kM; ++m) {
      b.mask_scores(m, s[m], scale, key, all_seen, end_of_row[m]);
      weigh<P>(s[m], out[m], max[m], sum[m]);
      if (job.drop.words) b.drop(m, s[m], key);
    }
    P::accumulate(out, s, b.values + (block & 1) * kKeys * b.value_pitch, b.value_pitch, b.value_dim);
  });
  if (b.warp_row >= b.last_row) return;
  b.stage(out, max, sum);
  b.write_staged();
}

template <class P, int kOut, int kM, int kKeys>
bool start(Job& job) {
  using T = typename P::Element;
  constexpr int64_t kRows = 16 * kM * kWarps;
  const cpu::AttentionShape& shape = job.shape;
  const int pitch = pitch_of<T>(padded_columns(shape.dim)),
            value_pitch = pitch_of<T>(padded_columns(shape.value_dim < kOut ? shape.value_dim : kOut));
  const size_t tiles = sizeof(T) * (kRows * pitch + 2 * kKeys * (pitch + value_pitch)) +
                       (job.mask.data ? sizeof(float) * kRows * kKeys : 0);
  const size_t staged = sizeof(float) * kRows * (staged_pitch<kOut / 8> + 1), shared = tiles > staged ? tiles : staged;
  if (shared > static_cast<size_t>(properties().max_shared_per_block)) return false;
  const int64_t group = shape.heads / shape.kv_heads;
  if (group > 1 && shape.queries < kRows && group * shape.queries < (1 << 30)) job.pack = static_cast<int>(group);
  const int64_t blocks = ceil_div(shape.queries * job.pack, kRows) * (shape.heads / job.pack) * shape.batch *
                         parts_of(shape.value_dim, kOut);
  const Partial partial = prepare_splits(job, splits_for(blocks, ceil_div(shape.keys, kKeys), 512), kKeys);
  launch_blocks(forward_kernel<P, kOut, kM, kKeys>, dim3(static_cast<unsigned>(blocks * job.splits)), dim3(32 * kWarps),
                shared, job);
  if (job.splits > 1) combine(job);
  return true;
}

}  // namespace
}  // namespace tessera::cuda::attention
