// Attention with a warp for each row: double precision, more features than a tile holds, float32 with few queries. And
// what tiles need around them: sums of rows, joining of parts.
#include "nn/cuda/attention/attention_tiles.h"

namespace tessera::cuda::attention {
namespace {

constexpr int kWarps = 4;
constexpr int kPerLane = 8;
constexpr int kColumns = 32 * kPerLane;  // of a result that a warp computes; the others are other warps' parts
constexpr int kKeys = 4;                 // taken together

template <class V>
__device__ V minus_infinity() {
  return -static_cast<V>(kInfinity);
}

template <class V>
__device__ V warp_sum(V v) {
#pragma unroll
  for (int d = 1; d < 32; d *= 2) v += __shfl_xor_sync(0xffffffffu, v, d);
  return v;
}

// What a weight is multiplied by, with the precision of V.
template <class V>
__device__ V weight_factor(const Job& job, int64_t batch, int64_t head, int64_t query, int64_t key) {
  if (!job.drop.words) return V(1);
  return drop_factor(job, batch, head, query, key) != 0 ? static_cast<V>(job.drop.scale) : V(0);
}

__device__ inline int64_t warp_of_grid() { return int64_t{blockIdx.x} * kWarps + threadIdx.x / 32; }

// A row of queries or keys, and a part of the columns.
struct Row {
  int64_t part, batch, head, position;
  bool exists;
};
__device__ inline Row row_of(int64_t x, int64_t batch, int64_t heads, int64_t positions, int64_t parts) {
  Row r;
  r.exists = x < batch * heads * positions * parts;
  r.part = x % parts;
  x /= parts;
  r.position = x % positions;
  x /= positions;
  r.head = x % heads;
  r.batch = x / heads;
  return r;
}

// acc += f * a row's columns first + lane + 32 i.
template <class T, class V>
__device__ inline void add_row(V (&acc)[kPerLane], V f, const T* row, int64_t columns, int lane) {
#pragma unroll
  for (int i = 0; i < kPerLane; ++i)
    if (lane + 32 * i < columns) acc[i] += f * load(row + lane + 32 * i);
}
template <class T, class V>
__device__ inline void store_columns(T* row, const V (&acc)[kPerLane], int64_t columns, int lane, V factor) {
#pragma unroll
  for (int i = 0; i < kPerLane; ++i)
    if (lane + 32 * i < columns) store(row + lane + 32 * i, acc[i] * factor);
}
__device__ inline int64_t columns_left(int64_t all, int64_t first) {
  return all - first < kColumns ? all - first : kColumns;
}

template <class T>
__device__ inline Compute<T> dot(const T* x, const T* y, int64_t n, int lane) {
  Compute<T> sum = 0;
  for (int64_t i = lane; i < n; i += 32) sum += load(x + i) * load(y + i);
  return warp_sum(sum);
}

template <class T>
__global__ void __launch_bounds__(32 * kWarps) forward_rows_kernel(const Job job) {
  using V = Compute<T>;
  const cpu::AttentionShape& shape = job.shape;
  const int lane = lane_of_warp();
  const int64_t parts = parts_of(shape.value_dim, kColumns), split = warp_of_grid() % job.splits;
  const Row r = row_of(warp_of_grid() / job.splits, shape.batch, shape.heads, shape.queries, parts);
  if (!r.exists) return;
  const int64_t kv_head = r.head / (shape.heads / shape.kv_heads), first_column = r.part * kColumns,
                columns = columns_left(shape.value_dim, first_column);
  const T* const query = at<const T>(job.query, r.batch, r.head) + r.position * job.query.position_stride;
  const T* const keys = at<const T>(job.key, r.batch, kv_head);
  const T* const values = at<const T>(job.value, r.batch, kv_head) + first_column;
  const int64_t first_key = split * job.split_keys;
  int64_t end_key = first_key + job.split_keys < shape.keys ? first_key + job.split_keys : shape.keys;
  if (shape.causal && end_key > r.position + 1) end_key = r.position + 1;
  const int64_t offset = mask_offset(job.mask, r.batch, r.head) + r.position * job.mask.query_stride;
  const V scale = static_cast<V>(shape.scale);

  V max = minus_infinity<V>(), sum = 0, acc[kPerLane] = {};
  for (int64_t key = first_key; key < end_key; key += kKeys) {
    const int n = static_cast<int>(end_key - key < kKeys ? end_key - key : kKeys);
    V s[kKeys] = {};
    for (int64_t i = lane; i < shape.dim; i += 32) {
      const V q = load(query + i);
#pragma unroll
      for (int u = 0; u < kKeys; ++u)
        if (u < n) s[u] += q * load(keys + (key + u) * job.key.position_stride + i);
    }
    V top = max;
#pragma unroll
    for (int u = 0; u < kKeys; ++u) {
      s[u] = warp_sum(s[u]) * scale;
      if (u >= n)
        s[u] = minus_infinity<V>();
      else if (job.mask.data)
        s[u] = masked(s[u], mask_term<T>(job.mask, offset + (key + u) * job.mask.key_stride));
      top = fmax(top, s[u]);
    }
    const V base = top == minus_infinity<V>() ? V(0) : top, correction = std::exp(max - base);
    max = top;
    sum *= correction;
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) acc[i] *= correction;
#pragma unroll
    for (int u = 0; u < kKeys; ++u) {
      if (u >= n) continue;
      const V p = std::exp(s[u] - base);
      sum += p;
      const V f = weight_factor<V>(job, r.batch, r.head, r.position, key + u);
      add_row(acc, p * f, values + (key + u) * job.value.position_stride, columns, lane);
    }
  }

  const V factor = sum == 0 ? V(0) : 1 / sum;
  const int64_t all = shape.batch * shape.heads * shape.queries,
                index = (r.batch * shape.heads + r.head) * shape.queries + r.position;
  V* const logsumexp =
      job.splits > 1 ? static_cast<V*>(job.partial_logsumexp) + split * all : static_cast<V*>(job.logsumexp);
  if (logsumexp && r.part == 0 && lane == 0) logsumexp[index] = sum == 0 ? minus_infinity<V>() : max + std::log(sum);
  if (job.splits > 1)
    store_columns(static_cast<V*>(job.partial_out) + (split * all + index) * shape.value_dim + first_column, acc,
                  columns, lane, factor);
  else
    store_columns(at<T>(job.out, r.batch, r.head) + r.position * job.out.position_stride + first_column, acc, columns,
                  lane, factor);
}

template <class T>
__global__ void __launch_bounds__(32 * kWarps) combine_kernel(const Job job) {
  using V = Compute<T>;
  const cpu::AttentionShape& shape = job.shape;
  const int lane = lane_of_warp();
  const Row r = row_of(warp_of_grid(), shape.batch, shape.heads, shape.queries, 1);
  if (!r.exists) return;
  const int64_t all = shape.batch * shape.heads * shape.queries,
                index = (r.batch * shape.heads + r.head) * shape.queries + r.position;
  const V* const parts = static_cast<const V*>(job.partial_logsumexp) + index;
  V max = minus_infinity<V>(), sum = 0;
  for (int s = 0; s < job.splits; ++s) max = fmax(max, parts[s * all]);
  const V base = max == minus_infinity<V>() ? V(0) : max;
  for (int s = 0; s < job.splits; ++s) sum += std::exp(parts[s * all] - base);
  if (job.logsumexp && lane == 0)
    static_cast<V*>(job.logsumexp)[index] = sum == 0 ? minus_infinity<V>() : max + std::log(sum);
  T* const out = at<T>(job.out, r.batch, r.head) + r.position * job.out.position_stride;
  const V factor = sum == 0 ? V(0) : 1 / sum;
  for (int64_t first = 0; first < shape.value_dim; first += kColumns) {
    const int64_t columns = columns_left(shape.value_dim, first);
    V acc[kPerLane] = {};
    for (int s = 0; s < job.splits; ++s) {
      const V* const part = static_cast<const V*>(job.partial_out) + (s * all + index) * shape.value_dim + first;
      add_row(acc, std::exp(parts[s * all] - base), part, columns, lane);
    }
    store_columns(out + first, acc, columns, lane, factor);
  }
}

template <class T>
__global__ void __launch_bounds__(32 * kWarps) delta_kernel(const Job job) {
  const cpu::AttentionShape& shape = job.shape;
  const Row r = row_of(warp_of_grid(), shape.batch, shape.heads, shape.queries, 1);
  if (!r.exists) return;
  const Compute<T> sum = dot(at<const T>(job.out, r.batch, r.head) + r.position * job.out.position_stride,
                             at<const T>(job.grad_out, r.batch, r.head) + r.position * job.grad_out.position_stride,
                             shape.value_dim, lane_of_warp());
  if (lane_of_warp() == 0)
    static_cast<Compute<T>*>(job.delta)[(r.batch * shape.heads + r.head) * shape.queries + r.position] = sum;
}

// The weight of a key for a query, and the gradient of its score.
template <class V>
struct Weight {
  V weight, grad;
};
template <class T>
__device__ Weight<Compute<T>> weight_of(const Job& job, int64_t batch, int64_t head, int64_t query, int64_t key,
                                        const T* q, const T* k, const T* g, const T* v, int lane) {
  using V = Compute<T>;
  const int64_t index = (batch * job.shape.heads + head) * job.shape.queries + query;
  V s = dot(q, k, job.shape.dim, lane) * static_cast<V>(job.shape.scale);
  if (job.mask.data)
    s = masked(s, mask_term<T>(job.mask, mask_offset(job.mask, batch, head) + query * job.mask.query_stride +
                                             key * job.mask.key_stride));
  const V logsumexp = static_cast<const V*>(job.logsumexp)[index], delta = static_cast<const V*>(job.delta)[index];
  const V p = logsumexp == minus_infinity<V>() ? V(0) : std::exp(s - logsumexp);
  const V f = weight_factor<V>(job, batch, head, query, key);
  return {p * f, p * (f * dot(g, v, job.shape.value_dim, lane) - delta)};
}

template <class T>
__global__ void __launch_bounds__(32 * kWarps) query_rows_kernel(const Job job) {
  using V = Compute<T>;
  const cpu::AttentionShape& shape = job.shape;
  const int lane = lane_of_warp();
  const Row r = row_of(warp_of_grid(), shape.batch, shape.heads, shape.queries, ceil_div(shape.dim, kColumns));
  if (!r.exists) return;
  const int64_t kv_head = r.head / (shape.heads / shape.kv_heads), first_column = r.part * kColumns,
                columns = columns_left(shape.dim, first_column);
  const T* const q = at<const T>(job.query, r.batch, r.head) + r.position * job.query.position_stride;
  const T* const g = at<const T>(job.grad_out, r.batch, r.head) + r.position * job.grad_out.position_stride;
  const int64_t keys = shape.causal && r.position + 1 < shape.keys ? r.position + 1 : shape.keys;
  V acc[kPerLane] = {};
  for (int64_t key = 0; key < keys; ++key) {
    const T* const k = at<const T>(job.key, r.batch, kv_head) + key * job.key.position_stride;
    const T* const v = at<const T>(job.value, r.batch, kv_head) + key * job.value.position_stride;
    const Weight<V> w = weight_of<T>(job, r.batch, r.head, r.position, key, q, k, g, v, lane);
    add_row(acc, w.grad, k + first_column, columns, lane);
  }
  store_columns(at<T>(job.grad_query, r.batch, r.head) + r.position * job.grad_query.position_stride + first_column,
                acc, columns, lane, static_cast<V>(shape.scale));
}

template <class T>
__global__ void __launch_bounds__(32 * kWarps) key_rows_kernel(const Job job) {
  using V = Compute<T>;
  const cpu::AttentionShape& shape = job.shape;
  const int lane = lane_of_warp();
  const int64_t widest = shape.dim > shape.value_dim ? shape.dim : shape.value_dim;
  const Row r = row_of(warp_of_grid(), shape.batch, shape.kv_heads, shape.keys, ceil_div(widest, kColumns));
  if (!r.exists) return;
  const int64_t group = shape.heads / shape.kv_heads, first_column = r.part * kColumns;
  const int64_t key_columns = columns_left(shape.dim, first_column),
                value_columns = columns_left(shape.value_dim, first_column);
  const T* const k = at<const T>(job.key, r.batch, r.head) + r.position * job.key.position_stride;
  const T* const v = at<const T>(job.value, r.batch, r.head) + r.position * job.value.position_stride;
  V key_acc[kPerLane] = {}, value_acc[kPerLane] = {};
  for (int64_t head = r.head * group; head < (r.head + 1) * group; ++head) {
    for (int64_t query = shape.causal ? r.position : 0; query < shape.queries; ++query) {
      const T* const q = at<const T>(job.query, r.batch, head) + query * job.query.position_stride;
      const T* const g = at<const T>(job.grad_out, r.batch, head) + query * job.grad_out.position_stride;
      const Weight<V> w = weight_of<T>(job, r.batch, head, query, r.position, q, k, g, v, lane);
      add_row(key_acc, w.grad, q + first_column, key_columns, lane);
      add_row(value_acc, w.weight, g + first_column, value_columns, lane);
    }
  }
  store_columns(at<T>(job.grad_key, r.batch, r.head) + r.position * job.grad_key.position_stride + first_column,
                key_acc, key_columns, lane, static_cast<V>(shape.scale));
  store_columns(at<T>(job.grad_value, r.batch, r.head) + r.position * job.grad_value.position_stride + first_column,
                value_acc, value_columns, lane, V(1));
}

void start(void (*kernel)(Job), int64_t warps, const Job& job) {
  if (warps > 0) launch_blocks(kernel, dim3(static_cast<unsigned>(ceil_div(warps, kWarps))), dim3(32 * kWarps), 0, job);
}
template <class F>
void visit_type(const Job& job, F&& f) {
  visit<kAllFloats>(job.shape.dtype, "attention_cuda", f);
}
int64_t rows(const Job& job) { return job.shape.batch * job.shape.heads * job.shape.queries; }

}  // namespace

Partial prepare_splits(Job& job, int splits, int64_t block_keys) {
  job.split_keys = ceil_div(ceil_div(job.shape.keys, block_keys), splits) * block_keys;
  job.splits = job.split_keys > 0 ? static_cast<int>(ceil_div(job.shape.keys, job.split_keys)) : 1;
  if (job.splits == 1) return {};
  const size_t item = job.shape.dtype == DType::kFloat64 ? 8 : 4,
               all = static_cast<size_t>(rows(job)) * job.splits * item;
  Partial p{Buffer(all * static_cast<size_t>(job.shape.value_dim)), Buffer(all)};
  job.partial_out = p.out.get();
  job.partial_logsumexp = p.logsumexp.get();
  return p;
}

void rows_forward(Job job) {
  const int64_t warps = rows(job) * parts_of(job.shape.value_dim, kColumns);
  const Partial partial = prepare_splits(job, splits_for(warps, ceil_div(job.shape.keys, 16), 4096), 16);
  visit_type(job, [&](auto tag) { start(forward_rows_kernel<typename decltype(tag)::type>, warps * job.splits, job); });
  if (job.splits > 1) combine(job);
}

void rows_backward(Job job) {
  const cpu::AttentionShape& s = job.shape;
  const int64_t widest = s.dim > s.value_dim ? s.dim : s.value_dim;
  visit_type(job, [&](auto tag) {
    using T = typename decltype(tag)::type;
    start(query_rows_kernel<T>, rows(job) * ceil_div(s.dim, kColumns), job);
    start(key_rows_kernel<T>, s.batch * s.kv_heads * s.keys * ceil_div(widest, kColumns), job);
  });
}

void run_delta(const Job& job) {
  visit_type(job, [&](auto tag) { start(delta_kernel<typename decltype(tag)::type>, rows(job), job); });
}

void draw_words(const Generator& gen, uint64_t steps, uint64_t* words) {
  const Philox stream = reserve(gen, steps);
  for_each(1, [=] __device__(int64_t) {
    words[0] = stream.replayed ? stream.replayed[0] : stream.seed;
    words[1] = (stream.replayed ? stream.replayed[1] : 0) + stream.position;
  });
}

void write_kept(const Job& job, bool* kept) {
  const int64_t queries = job.shape.queries, keys = job.shape.keys;
  for_each(job.shape.batch * job.shape.heads * queries * keys, [=] __device__(int64_t i) {
    const int64_t row = i / keys, plane = row / queries, head = plane % job.shape.heads;
    kept[i] = drop_factor(job, plane / job.shape.heads, head, row % queries, i - row * keys) != 0;
  });
}

void combine(const Job& job) {
  visit_type(job, [&](auto tag) { start(combine_kernel<typename decltype(tag)::type>, rows(job), job); });
}

}  // namespace tessera::cuda::attention
