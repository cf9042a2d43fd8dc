// Attention's backward pass in tiles. The scores are computed again from the rows' logsumexp. One kernel has rows of
// queries and walks over the keys; another has rows of keys and walks over the queries (of all heads that share them).
// So each gradient is summed by one warp, in one order.
#include "nn/cuda/attention/attention_tiles.h"

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

// Positions of two operands that go together, `dim` columns of one and `value_dim` of the other, in shared memory: keys
// and values, or queries and their results' gradients.
template <class T>
struct Pair {
  const cpu::AttentionOperand &first, &second;
  bool first_vectors, second_vectors;
  T *to_first, *to_second;
};

// What a block of threads has in both kernels: 16 rows of each warp, a tile of another pair's kStep positions at a
// time.
template <class P, int kOut>
struct Block {
  using T = typename P::Element;
  static constexpr int kO = kOut / 8;

  const Job& job;
  const Place place;
  const int64_t positions;  // of the rows' operands
  const cpu::AttentionShape& shape = job.shape;
  const int rows = static_cast<int>(blockDim.x) / 2, warp = static_cast<int>(threadIdx.x) / 32, lane = lane_of_warp();
  const int dim = padded_columns(shape.dim), value_dim = padded_columns(shape.value_dim), pitch = pitch_of<T>(dim),
            value_pitch = pitch_of<T>(value_dim);
  const int warp_row = place.first_row + 16 * warp,
            end_row = static_cast<int>(place.first_row + rows < positions ? place.first_row + rows : positions);
  const float scale = static_cast<float>(shape.scale) * P::kUnit;
  // Shared memory: the rows of two operands, two blocks of the others that are walked over.
  T* const mine = static_cast<T*>(dynamic_shared());
  T* const mine_second = mine + rows * pitch;
  T* const others = mine_second + rows * value_pitch;
  T* const others_second = others + 2 * kStep * pitch;
  float* const numbers = reinterpret_cast<float*>(others_second + 2 * kStep * value_pitch);  // behind these

  __device__ __forceinline__ void load(const Pair<T>& p, int count, int valid, int64_t head, int64_t from) const {
    const T* const first = at<const T>(p.first, place.batch, head);
    const T* const second = at<const T>(p.second, place.batch, head);
    load_tile<T>(p.to_first, count, valid, shape.dim, dim, p.first_vectors,
                 [&](int r) { return first + (from + r) * p.first.position_stride; });
    load_tile<T>(p.to_second, count, valid, shape.value_dim, value_dim, p.second_vectors,
                 [&](int r) { return second + (from + r) * p.second.position_stride; });
  }
  __device__ __forceinline__ Pair<T> queries(T* to_first, T* to_second) const {
    return {job.query, job.grad_out, job.query_vectors, job.grad_vectors, to_first, to_second};
  }
  __device__ __forceinline__ Pair<T> keys(T* to_first, T* to_second) const {
    return {job.key, job.value, job.key_vectors, job.value_vectors, to_first, to_second};
  }
  __device__ __forceinline__ T* step_first(int64_t block) const {
    return others + static_cast<int>(block & 1) * kStep * pitch;
  }
  __device__ __forceinline__ T* step_second(int64_t block) const {
    return others_second + static_cast<int>(block & 1) * kStep * value_pitch;
  }

  // Products of the warp's rows with a step's: scores, and what the gradient of the results is to the values.
  __device__ __forceinline__ void multiply(float (&s)[1][kN][4], float (&d)[1][kN][4], int64_t block) const {
    P::score(s, mine + 16 * warp * pitch, step_first(block), dim);
    P::score(d, mine_second + 16 * warp * value_pitch, step_second(block), value_dim);
  }
  // The mask's term of a query and key, 0 where one does not exist.
  __device__ __forceinline__ float term(bool exists, int64_t offset, int64_t q, int64_t k) const {
    return exists ? P::kUnit * mask_term<T>(job.mask, offset + q * job.mask.query_stride + k * job.mask.key_stride)
                  : 0.0f;
  }
  // Element i of tile j: its column, and its score with the mask, whose terms are in rows of kStep.
  __device__ __forceinline__ int column_of(int j, int i) const { return 8 * j + 2 * (lane & 3) + i % 2; }
  __device__ __forceinline__ float masked_score(float product, const float* terms, int j, int i) const {
    const float x = product * scale;
    return job.mask.data ? masked(x, terms[(8 * (i / 2) + lane / 4) * kStep + column_of(j, i)]) : x;
  }

  // All have read the tiles: their memory takes a result.
  __device__ __forceinline__ void write(const float (&out)[kO][4], const cpu::AttentionOperand& to,
                                        const Columns& columns, float factor) const {
    float* const staged = static_cast<float*>(dynamic_shared()) + 16 * warp * staged_pitch<kO>;
    __syncwarp();
    stage_rows<P>(staged, out, factor, factor);
    __syncwarp();
    T* const first = at<T>(to, place.batch, place.head) + columns.first;
    for (int r = 0; r < 16 && warp_row + r < end_row; ++r)
      copy_row(first + (warp_row + r) * to.position_stride, staged + r * staged_pitch<kO>, columns.count);
  }
};

template <class P, int kOut>
__global__ void __launch_bounds__(32 * kMostWarps) query_kernel(const Job job) {
  using B = Block<P, kOut>;
  const cpu::AttentionShape& shape = job.shape;
  const B b{job,
            place_of(shape.queries, shape.heads, static_cast<int>(ceil_div(shape.dim, kOut)),
                     static_cast<int>(blockDim.x) / 2, true),
            shape.queries};
  const int64_t kv_head = b.place.head / (shape.heads / shape.kv_heads);
  const int64_t end_key = shape.causal && b.end_row < shape.keys ? b.end_row : shape.keys;
  const int blocks = static_cast<int>(ceil_div(end_key, kStep));
  const auto load_keys = [&](int block) {
    const int64_t k = int64_t{block} * kStep;
    b.load(b.keys(b.step_first(block), b.step_second(block)), kStep,
           static_cast<int>(end_key - k < kStep ? end_key - k : kStep), kv_head, k);
    commit_copies();
  };
  if (blocks > 0) {
    b.load(b.queries(b.mine, b.mine_second), b.rows, b.end_row - b.place.first_row, b.place.head, b.place.first_row);
    load_keys(0);
  }

  const int64_t first_index = (b.place.batch * shape.heads + b.place.head) * shape.queries;
  float base[2], delta[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int row = b.warp_row + 8 * h + b.lane / 4;
    base[h] = row < b.end_row ? weight_base<P>(static_cast<const float*>(job.logsumexp)[first_index + row]) : kInfinity;
    delta[h] = row < b.end_row ? static_cast<const float*>(job.delta)[first_index + row] : 0.0f;
  }

  float* const terms = b.numbers + 16 * kStep * b.warp;  // of the mask, this warp's; only where there is one
  const Columns columns = columns_of<kOut>(b.place.part, shape.dim);
  float out[1][B::kO][4] = {};
  walk(blocks, load_keys, [&](int block) {
    const int64_t key = int64_t{block} * kStep;
    if (b.warp_row >= b.end_row || (shape.causal && key >= b.warp_row + 16)) return;
    float s[1][kN][4] = {}, d[1][kN][4] = {};
    b.multiply(s, d, block);
    if (job.mask.data) {
      const int64_t offset = mask_offset(job.mask, b.place.batch, b.place.head);
      fill_terms(16 * kStep, [&](int i) {
        const int64_t q = b.warp_row + i / kStep, k = key + i % kStep;
        terms[i] = b.term(q < b.end_row && k < end_key, offset, q, k);
      });
    }
    // Columns that the lane's two rows see.
    const int left = static_cast<int>(end_key - key),
              causal_left = shape.causal ? static_cast<int>(b.warp_row + b.lane / 4 + 1 - key) : kStep;
#pragma unroll
    for (int j = 0; j < kN; ++j) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int column = b.column_of(j, i);
        float x = b.masked_score(s[0][j][i], terms, j, i);
        x = column < left && column < causal_left + 8 * (i / 2) ? x : -kInfinity;
        if (job.drop.words)
          d[0][j][i] *=
              drop_factor(job, b.place.batch, b.place.head, b.warp_row + 8 * (i / 2) + b.lane / 4, key + column);
        s[0][j][i] = P::exponential(x - base[i / 2]) * (d[0][j][i] - delta[i / 2]);
      }
    }
    P::accumulate(out, s, b.step_first(block) + columns.first, b.pitch, columns.padded);
  });
  b.write(out[0], job.grad_query, columns, static_cast<float>(shape.scale));
}

// Which queries the keys of a block meet: those of each head that shares the keys, one head after the other.
struct QuerySteps {
  int64_t head, group, first;  // of the keys, query heads that share it, the first step that sees them
  int of_head;
  __device__ __forceinline__ int64_t count() const { return of_head * group; }
  __device__ __forceinline__ int64_t head_of(int64_t step) const { return head * group + step / of_head; }
  __device__ __forceinline__ int64_t query_of(int64_t step) const { return (first + step % of_head) * kStep; }
};
__device__ __forceinline__ QuerySteps query_steps(const cpu::AttentionShape& shape, const Place& place) {
  const int64_t first = shape.causal ? place.first_row / kStep : 0, all = ceil_div(shape.queries, kStep);
  return {place.head, shape.heads / shape.kv_heads, first, static_cast<int>(all > first ? all - first : 0)};
}

// The numbers of a step's queries: weight_base and delta of each, two steps of both.
template <class P>
__device__ __forceinline__ void load_numbers(const Job& job, int64_t index, int valid, float* bases, float* deltas) {
  if (const int i = static_cast<int>(threadIdx.x); i < kStep) {
    bases[i] = i < valid ? weight_base<P>(static_cast<const float*>(job.logsumexp)[index + i]) : kInfinity;
    deltas[i] = i < valid ? static_cast<const float*>(job.delta)[index + i] : 0.0f;
  }
}

template <class P, int kOut>
__global__ void __launch_bounds__(32 * kMostWarps) key_kernel(const Job job) {
  using B = Block<P, kOut>;
  const cpu::AttentionShape& shape = job.shape;
  const int64_t widest = shape.dim > shape.value_dim ? shape.dim : shape.value_dim;
  const B b{job,
            place_of(shape.keys, shape.kv_heads, static_cast<int>(ceil_div(widest, kOut)),
                     static_cast<int>(blockDim.x) / 2, false),
            shape.keys};
  const QuerySteps steps = query_steps(shape, b.place);
  float *const bases = b.numbers, *const deltas = bases + 2 * kStep;
  const auto load_queries = [&](int64_t step) {
    const int64_t head = steps.head_of(step), q = steps.query_of(step);
    const int valid = static_cast<int>(shape.queries - q < kStep ? shape.queries - q : kStep),
              numbers = static_cast<int>(step & 1) * kStep;
    b.load(b.queries(b.step_first(step), b.step_second(step)), kStep, valid, head, q);
    commit_copies();
    load_numbers<P>(job, (b.place.batch * shape.heads + head) * shape.queries + q, valid, bases + numbers,
                    deltas + numbers);
  };
  if (steps.count() > 0) {
    b.load(b.keys(b.mine, b.mine_second), b.rows, b.end_row - b.place.first_row, b.place.head, b.place.first_row);
    load_queries(0);
  }

  float* const terms = deltas + 2 * kStep + 16 * kStep * b.warp;  // of the mask, this warp's; only where there is one
  const Columns key_columns = columns_of<kOut>(b.place.part, shape.dim),
                value_columns = columns_of<kOut>(b.place.part, shape.value_dim);
  float key_out[1][B::kO][4] = {}, value_out[1][B::kO][4] = {};
  walk(steps.count(), load_queries, [&](int64_t step) {
    const int numbers = static_cast<int>(step & 1) * kStep;
    const int64_t query = steps.query_of(step);
    if (b.warp_row >= b.end_row || (shape.causal && query + kStep <= b.warp_row)) return;
    float s[1][kN][4] = {}, d[1][kN][4] = {};  // rows are keys here, columns queries
    b.multiply(s, d, step);
    if (job.mask.data) {
      const int64_t offset = mask_offset(job.mask, b.place.batch, steps.head_of(step));
      fill_terms(16 * kStep, [&](int i) {
        const int64_t q = query + i / 16, k = b.warp_row + i % 16;
        terms[i % 16 * kStep + i / 16] = b.term(q < shape.queries && k < b.end_row, offset, q, k);
      });
    }
    // The first column that sees the lane's first row.
    const int first_seen = shape.causal ? static_cast<int>(b.warp_row + b.lane / 4 - query) : 0;
#pragma unroll
    for (int j = 0; j < kN; ++j) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int column = b.column_of(j, i);
        float x = b.masked_score(s[0][j][i], terms, j, i);
        if (shape.causal && column < first_seen + 8 * (i / 2)) x = -kInfinity;
        s[0][j][i] = P::exponential(x - bases[numbers + column]);
        const float f = job.drop.words ? drop_factor(job, b.place.batch, steps.head_of(step), query + column,
                                                     b.warp_row + 8 * (i / 2) + b.lane / 4)
                                       : 1.0f;
        d[0][j][i] = s[0][j][i] * (f * d[0][j][i] - deltas[numbers + column]);
        s[0][j][i] *= f;
      }
    }
    P::accumulate(value_out, s, b.step_second(step) + value_columns.first, b.value_pitch, value_columns.padded);
    P::accumulate(key_out, d, b.step_first(step) + key_columns.first, b.pitch, key_columns.padded);
  });
  b.write(key_out[0], job.grad_key, key_columns, static_cast<float>(shape.scale));
  b.write(value_out[0], job.grad_value, value_columns, 1.0f);
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
