// Attention's backward pass in tiles. The scores are computed again from the rows' logsumexp. One kernel has rows of
// queries and walks over the keys; another has rows of keys and walks over the queries (of all heads that share them).
// So each gradient is summed by one warp, in one order.
#include "nn/cuda/attention_tiles.h"

namespace tessera::cuda::attention {
namespace {

constexpr int kMostWarps = 4;
constexpr int kStep = 32;  // keys or queries in a block that is walked over
constexpr int kN = kStep / 8;

// A block's place in the grid.
struct Place {
  int first_row;
  int64_t batch, head, part;
};
__device__ inline Place place_of(int64_t rows, int64_t heads, int parts, int rows_per_block, bool last_first) {
  const int64_t row_blocks = ceil_div(rows, rows_per_block);
  int64_t x = blockIdx.x;
  Place p;
  const int64_t row_block = x % row_blocks;
  p.first_row = static_cast<int>(last_first ? row_blocks - 1 - row_block : row_block) * rows_per_block;
  x /= row_blocks;
  p.part = x % parts;
  x /= parts;
  p.head = x % heads;
  p.batch = x / heads;
  return p;
}

// Columns of a result that a block computes: `count` of them exist, `padded` in shared memory.
struct Columns {
  int64_t first, count;
  int padded;
};
template <int kOut>
__device__ inline Columns columns_of(int64_t part, int64_t all) {
  const int64_t first = part * kOut, count = all - first < kOut ? all - first : kOut;
  return {first, count > 0 ? count : 0, count > 0 ? padded_columns(count) : 0};
}

// What the score of a query and key would have to be for a weight of 1, in the arithmetic's units; infinite where all
// weights are 0.
template <class P>
__device__ inline float weight_base(float logsumexp) {
  return logsumexp == -kInfinity ? kInfinity : logsumexp * P::kUnit;
}

template <class P, int kOut>
__global__ void __launch_bounds__(32 * kMostWarps) query_kernel(const Job job) {
  using T = typename P::Element;
  constexpr int kO = kOut / 8;
  const cpu::AttentionShape& shape = job.shape;
  const int rows = static_cast<int>(blockDim.x) / 2, warp = static_cast<int>(threadIdx.x) / 32, lane = lane_of_warp();
  const Place place = place_of(shape.queries, shape.heads, static_cast<int>(ceil_div(shape.dim, kOut)), rows, true);
  const int64_t kv_head = place.head / (shape.heads / shape.kv_heads);
  const int dim = padded_columns(shape.dim), value_dim = padded_columns(shape.value_dim), pitch = pitch_of<T>(dim),
            value_pitch = pitch_of<T>(value_dim);
  T* const queries = static_cast<T*>(dynamic_shared());
  T* const grads = queries + rows * pitch;
  T* const keys = grads + rows * value_pitch;  // two blocks of keys
  T* const values = keys + 2 * kStep * pitch;  // and of values
  const int warp_row = place.first_row + 16 * warp,
            end_row = static_cast<int>(place.first_row + rows < shape.queries ? place.first_row + rows : shape.queries);
  const int64_t end_key = shape.causal && end_row < shape.keys ? end_row : shape.keys;
  const int blocks = static_cast<int>(ceil_div(end_key, kStep));

  const T* const from_query = at<const T>(job.query, place.batch, place.head);
  const T* const from_grad = at<const T>(job.grad_out, place.batch, place.head);
  const T* const from_key = at<const T>(job.key, place.batch, kv_head);
  const T* const from_value = at<const T>(job.value, place.batch, kv_head);
  const auto load_keys = [&](int block) {
    const int64_t k = int64_t{block} * kStep;
    const int valid = static_cast<int>(end_key - k < kStep ? end_key - k : kStep);
    load_tile<T>(keys + (block & 1) * kStep * pitch, kStep, valid, shape.dim, dim, job.key_vectors,
                 [&](int r) { return from_key + (k + r) * job.key.position_stride; });
    load_tile<T>(values + (block & 1) * kStep * value_pitch, kStep, valid, shape.value_dim, value_dim,
                 job.value_vectors, [&](int r) { return from_value + (k + r) * job.value.position_stride; });
    commit_copies();
  };
  if (blocks > 0) {
    const int valid = end_row - place.first_row;
    load_tile<T>(queries, rows, valid, shape.dim, dim, job.query_vectors,
                 [&](int r) { return from_query + (place.first_row + r) * job.query.position_stride; });
    load_tile<T>(grads, rows, valid, shape.value_dim, value_dim, job.grad_vectors,
                 [&](int r) { return from_grad + (place.first_row + r) * job.grad_out.position_stride; });
    load_keys(0);
  }

  float* const terms = reinterpret_cast<float*>(values + 2 * kStep * value_pitch) +
                       16 * kStep * warp;  // of the mask, this warp's; only where there is one
  const auto load_terms = [&](int64_t key) {
    const int64_t offset = mask_offset(job.mask, place.batch, place.head);
    __syncwarp();
    for (int i = lane; i < 16 * kStep; i += 32) {
      const int64_t q = warp_row + i / kStep, k = key + i % kStep;
      terms[i] = q < end_row && k < end_key
                     ? P::kUnit * mask_term<T>(job.mask, offset + q * job.mask.query_stride + k * job.mask.key_stride)
                     : 0.0f;
    }
    __syncwarp();
  };
  const int64_t first_index = (place.batch * shape.heads + place.head) * shape.queries;
  float base[2], delta[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int row = warp_row + 8 * h + lane / 4;
    base[h] = row < end_row ? weight_base<P>(static_cast<const float*>(job.logsumexp)[first_index + row]) : kInfinity;
    delta[h] = row < end_row ? static_cast<const float*>(job.delta)[first_index + row] : 0.0f;
  }

  const Columns columns = columns_of<kOut>(place.part, shape.dim);
  const float scale = static_cast<float>(shape.scale) * P::kUnit;
  float out[1][kO][4] = {};
  for (int block = 0; block < blocks; ++block) {
    if (block + 1 < blocks) {
      load_keys(block + 1);
      wait_for_copies<1>();
    } else {
      wait_for_copies<0>();
    }
    __syncthreads();
    const int64_t key = int64_t{block} * kStep;
    if (warp_row < end_row && !(shape.causal && key >= warp_row + 16)) {
      const T* const block_keys = keys + (block & 1) * kStep * pitch;
      float s[1][kN][4] = {}, d[1][kN][4] = {};
      P::score(s, queries + 16 * warp * pitch, block_keys, dim);
      P::score(d, grads + 16 * warp * value_pitch, values + (block & 1) * kStep * value_pitch, value_dim);
      if (job.mask.data) load_terms(key);
      // Columns that the lane's two rows see.
      const int left = static_cast<int>(end_key - key),
                causal_left = shape.causal ? static_cast<int>(warp_row + lane / 4 + 1 - key) : kStep;
#pragma unroll
      for (int j = 0; j < kN; ++j) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int column = 8 * j + 2 * (lane & 3) + i % 2;
          float x = s[0][j][i] * scale;
          if (job.mask.data) x = masked(x, terms[(8 * (i / 2) + lane / 4) * kStep + column]);
          x = column < left && column < causal_left + 8 * (i / 2) ? x : -kInfinity;
          s[0][j][i] = P::exponential(x - base[i / 2]) * (d[0][j][i] - delta[i / 2]);
        }
      }
      P::accumulate(out, s, block_keys + columns.first, pitch, columns.padded);
    }
    __syncthreads();  // the next round writes where this one read
  }
  float* const staged = static_cast<float*>(dynamic_shared()) + 16 * warp * staged_pitch<kO>;
  stage_rows<P>(staged, out[0], static_cast<float>(shape.scale), static_cast<float>(shape.scale));
  __syncwarp();
  T* const to = at<T>(job.grad_query, place.batch, place.head) + columns.first;
  for (int r = 0; r < 16 && warp_row + r < end_row; ++r)
    copy_row(to + (warp_row + r) * job.grad_query.position_stride, staged + r * staged_pitch<kO>, columns.count);
}

template <class P, int kOut>
__global__ void __launch_bounds__(32 * kMostWarps) key_kernel(const Job job) {
  using T = typename P::Element;
  constexpr int kO = kOut / 8;
  const cpu::AttentionShape& shape = job.shape;
  const int rows = static_cast<int>(blockDim.x) / 2, warp = static_cast<int>(threadIdx.x) / 32, lane = lane_of_warp();
  const int64_t widest = shape.dim > shape.value_dim ? shape.dim : shape.value_dim;
  const Place place = place_of(shape.keys, shape.kv_heads, static_cast<int>(ceil_div(widest, kOut)), rows, false);
  const int dim = padded_columns(shape.dim), value_dim = padded_columns(shape.value_dim), pitch = pitch_of<T>(dim),
            value_pitch = pitch_of<T>(value_dim);
  T* const keys = static_cast<T*>(dynamic_shared());
  T* const values = keys + rows * pitch;
  T* const queries = values + rows * value_pitch;  // two blocks of queries
  T* const grads = queries + 2 * kStep * pitch;    // and of their results' gradients
  float* const bases = reinterpret_cast<float*>(grads + 2 * kStep * value_pitch);
  float* const deltas = bases + 2 * kStep;
  const int warp_row = place.first_row + 16 * warp,
            end_row = static_cast<int>(place.first_row + rows < shape.keys ? place.first_row + rows : shape.keys);
  const int64_t group = shape.heads / shape.kv_heads, first_block = shape.causal ? place.first_row / kStep : 0,
                all_blocks = ceil_div(shape.queries, kStep);
  const int of_head = static_cast<int>(all_blocks > first_block ? all_blocks - first_block : 0);
  const int64_t blocks = of_head * group;

  const auto head_of = [&](int64_t block) { return place.head * group + block / of_head; };
  const auto query_of = [&](int64_t block) { return (first_block + block % of_head) * kStep; };
  const auto load_queries = [&](int64_t block) {
    const int64_t head = head_of(block), q = query_of(block);
    const int buffer = static_cast<int>(block & 1),
              valid = static_cast<int>(shape.queries - q < kStep ? shape.queries - q : kStep);
    const T* const from_query = at<const T>(job.query, place.batch, head);
    const T* const from_grad = at<const T>(job.grad_out, place.batch, head);
    load_tile<T>(queries + buffer * kStep * pitch, kStep, valid, shape.dim, dim, job.query_vectors,
                 [&](int r) { return from_query + (q + r) * job.query.position_stride; });
    load_tile<T>(grads + buffer * kStep * value_pitch, kStep, valid, shape.value_dim, value_dim, job.grad_vectors,
                 [&](int r) { return from_grad + (q + r) * job.grad_out.position_stride; });
    commit_copies();
    const int64_t index = (place.batch * shape.heads + head) * shape.queries + q;
    if (const int i = static_cast<int>(threadIdx.x); i < kStep) {
      bases[buffer * kStep + i] =
          i < valid ? weight_base<P>(static_cast<const float*>(job.logsumexp)[index + i]) : kInfinity;
      deltas[buffer * kStep + i] = i < valid ? static_cast<const float*>(job.delta)[index + i] : 0.0f;
    }
  };
  if (blocks > 0) {
    const T* const from_key = at<const T>(job.key, place.batch, place.head);
    const T* const from_value = at<const T>(job.value, place.batch, place.head);
    const int valid = end_row - place.first_row;
    load_tile<T>(keys, rows, valid, shape.dim, dim, job.key_vectors,
                 [&](int r) { return from_key + (place.first_row + r) * job.key.position_stride; });
    load_tile<T>(values, rows, valid, shape.value_dim, value_dim, job.value_vectors,
                 [&](int r) { return from_value + (place.first_row + r) * job.value.position_stride; });
    load_queries(0);
  }

  float* const terms = deltas + 2 * kStep + 16 * kStep * warp;  // of the mask, this warp's; only where there is one
  const auto load_terms = [&](int64_t head, int64_t query) {
    const int64_t offset = mask_offset(job.mask, place.batch, head);
    __syncwarp();
    for (int i = lane; i < 16 * kStep; i += 32) {
      const int64_t q = query + i / 16, k = warp_row + i % 16;
      terms[i % 16 * kStep + i / 16] =
          q < shape.queries && k < end_row
              ? P::kUnit * mask_term<T>(job.mask, offset + q * job.mask.query_stride + k * job.mask.key_stride)
              : 0.0f;
    }
    __syncwarp();
  };
  const Columns key_columns = columns_of<kOut>(place.part, shape.dim),
                value_columns = columns_of<kOut>(place.part, shape.value_dim);
  const float scale = static_cast<float>(shape.scale) * P::kUnit;
  float key_out[1][kO][4] = {}, value_out[1][kO][4] = {};
  for (int64_t block = 0; block < blocks; ++block) {
    if (block + 1 < blocks) {
      load_queries(block + 1);
      wait_for_copies<1>();
    } else {
      wait_for_copies<0>();
    }
    __syncthreads();
    const int buffer = static_cast<int>(block & 1);
    const int64_t query = query_of(block);
    if (warp_row < end_row && !(shape.causal && query + kStep <= warp_row)) {
      const T* const block_queries = queries + buffer * kStep * pitch;
      const T* const block_grads = grads + buffer * kStep * value_pitch;
      float s[1][kN][4] = {}, d[1][kN][4] = {};  // rows are keys here, columns queries
      P::score(s, keys + 16 * warp * pitch, block_queries, dim);
      P::score(d, values + 16 * warp * value_pitch, block_grads, value_dim);
      if (job.mask.data) load_terms(head_of(block), query);
      const int first_seen = shape.causal ? static_cast<int>(warp_row + lane / 4 - query)
                                          : 0;  // the first column that sees the lane's first row
#pragma unroll
      for (int j = 0; j < kN; ++j) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int column = 8 * j + 2 * (lane & 3) + i % 2;
          float x = s[0][j][i] * scale;
          if (job.mask.data) x = masked(x, terms[(8 * (i / 2) + lane / 4) * kStep + column]);
          if (shape.causal && column < first_seen + 8 * (i / 2)) x = -kInfinity;
          s[0][j][i] = P::exponential(x - bases[buffer * kStep + column]);
          d[0][j][i] = s[0][j][i] * (d[0][j][i] - deltas[buffer * kStep + column]);
        }
      }
      P::accumulate(value_out, s, block_grads + value_columns.first, value_pitch, value_columns.padded);
      P::accumulate(key_out, d, block_queries + key_columns.first, pitch, key_columns.padded);
    }
    __syncthreads();  // the next round writes where this one read
  }
  // All have read the tiles: their memory takes the results.
  float* const staged = static_cast<float*>(dynamic_shared()) + 16 * warp * staged_pitch<kO>;
  const auto write = [&](const float(&out)[kO][4], const cpu::AttentionOperand& to, const Columns& columns,
                         float factor) {
    __syncwarp();
    stage_rows<P>(staged, out, factor, factor);
    __syncwarp();
    T* const first = at<T>(to, place.batch, place.head) + columns.first;
    for (int r = 0; r < 16 && warp_row + r < end_row; ++r)
      copy_row(first + (warp_row + r) * to.position_stride, staged + r * staged_pitch<kO>, columns.count);
  };
  write(key_out[0], job.grad_key, key_columns, static_cast<float>(shape.scale));
  write(value_out[0], job.grad_value, value_columns, 1.0f);
}

template <class P, int kOut>
bool start(const Job& job) {
  using T = typename P::Element;
  const cpu::AttentionShape& s = job.shape;
  const int both = pitch_of<T>(padded_columns(s.dim)) + pitch_of<T>(padded_columns(s.value_dim));
  const auto shared_for = [&](int warps) {
    const size_t tiles = static_cast<size_t>(16 * warps + 2 * kStep) * both * sizeof(T) +
                         sizeof(float) * kStep * (4 + (job.mask.data ? 16 * warps : 0));
    const size_t staged = sizeof(float) * 16 * warps * staged_pitch<kOut / 8>;
    return tiles > staged ? tiles : staged;
  };
  int warps = kMostWarps;
  while (warps > 1 && shared_for(warps) > static_cast<size_t>(properties().max_shared_per_block)) warps /= 2;
  if (shared_for(warps) > static_cast<size_t>(properties().max_shared_per_block)) return false;
  const int64_t widest = s.dim > s.value_dim ? s.dim : s.value_dim;
  const int64_t query_blocks = ceil_div(s.queries, 16 * warps) * s.heads * s.batch * ceil_div(s.dim, kOut);
  const int64_t key_blocks = ceil_div(s.keys, 16 * warps) * s.kv_heads * s.batch * ceil_div(widest, kOut);
  if (query_blocks > 0)
    launch_blocks(query_kernel<P, kOut>, dim3(static_cast<unsigned>(query_blocks)), dim3(32 * warps), shared_for(warps),
                  job);
  if (key_blocks > 0)
    launch_blocks(key_kernel<P, kOut>, dim3(static_cast<unsigned>(key_blocks)), dim3(32 * warps), shared_for(warps),
                  job);
  return true;
}

}  // namespace

bool tiled_backward(Job job, Arithmetic arithmetic) {
  const int64_t widest = job.shape.dim > job.shape.value_dim ? job.shape.dim : job.shape.value_dim;
  bool done = false;
  visit_arithmetic(arithmetic, [&](auto tag) {
    using P = typename decltype(tag)::type;
    done = widest <= 64 ? start<P, 64>(job) : start<P, 128>(job);
  });
  return done;
}

}  // namespace tessera::cuda::attention
