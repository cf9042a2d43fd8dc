// Attention, backward, for one SIMD target and one type of the arithmetic. With the gradient g of the result, weights p
// and delta = sum(g out) of each query,
//   dv = p^T g,  ds = p (g v^T - delta),  dq = scale ds k,  dk = scale ds^T q.
// A unit of work is some keys of one head of keys: it goes through the queries that see them, a group at a time,
// recomputes their weights from the saved logsumexp and adds to the gradients of its keys and values. What it finds for
// a query is the query's gradient if the unit holds all keys; else such parts are kept and added up at the end.
#if defined(TENSOR_CPU_ATTENTION_BACKWARD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TENSOR_CPU_ATTENTION_BACKWARD_INL_H_
#undef TENSOR_CPU_ATTENTION_BACKWARD_INL_H_
#else
#define TENSOR_CPU_ATTENTION_BACKWARD_INL_H_
#endif

#include "hwy/highway.h"
#include "nn/cpu/attention/attention_mask-inl.h"
#include "nn/cpu/attention/attention_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::internal {
namespace HWY_NAMESPACE {
namespace {

constexpr int64_t kGroup = 4 * kLanes;  // queries taken together

inline int64_t padded(int64_t n) { return ceil_div(n, kLanes) * kLanes; }

// A unit: keys [first, first + count) of one head, and room for a group of queries.
struct KeyUnit {
  const BackwardCall* call;
  int64_t batch, kv_head, first, count;
  T* parts;                              // queries x dim of each head of the batch, or null
  T *grad_key, *grad_value;              // count rows of padded(dim), padded(value_dim)
  T *query, *grad_out, *grad_query;      // columns of queries: dim, value_dim, dim rows
  T *query_rows, *grad_out_rows;         // rows of queries, padded
  T *logsumexp, *delta;                  // one row
  T *weights, *grad_scores, *mask_room;  // kKeys rows
  T *key_room, *value_room, *row_room;
};

// Rows of queries as T, zeros after `width`; `room` is used where they cannot be read as they lie.
inline Block padded_rows(const Rows& x, DType t, int64_t item, int64_t at, int64_t n, int64_t width, T* room) {
  const int64_t full = padded(width);
  const char* from = x.data + at * x.stride * item;
  if (item == sizeof(T) && full == width && (x.stride == width || (x.stride * item) % 1024 != 0))
    return {reinterpret_cast<const T*>(from), x.stride};
  for (int64_t i = 0; i < n; ++i) {
    Widen(t, from + i * x.stride * item, width, room + i * full);
    for (int64_t p = width; p < full; ++p) room[i * full + p] = 0;
  }
  return {room, full};
}

// sum_p a[p] b[p]
HWY_INLINE T DotRow(const T* HWY_RESTRICT a, const T* HWY_RESTRICT b, int64_t n) {
  V sum = hn::Zero(d);
  int64_t p = 0;
  for (; p + kLanes <= n; p += kLanes) sum = hn::MulAdd(hn::LoadU(d, a + p), hn::LoadU(d, b + p), sum);
  T rest = hn::GetLane(hn::SumOfLanes(d, sum));
  for (; p < n; ++p) rest += a[p] * b[p];
  return rest;
}

// Scores become weights; gradients of weights become those of scores.
HWY_NOINLINE void WeightsAndGradients(int64_t n, int64_t width, const T* HWY_RESTRICT logsumexp,
                                      const T* HWY_RESTRICT delta, T* HWY_RESTRICT weights, T* HWY_RESTRICT gradients) {
  for (int64_t v = 0; v < width; v += kLanes) {
    const V from = hn::LoadU(d, logsumexp + v), dv = hn::LoadU(d, delta + v);
    for (int64_t k = 0; k < n; ++k) {
      T *const w_at = weights + k * width + v, *const g_at = gradients + k * width + v;
      const V w = Exp2(hn::Sub(hn::LoadU(d, w_at), from));
      hn::StoreU(w, d, w_at);
      hn::StoreU(hn::Mul(w, hn::Sub(hn::LoadU(d, g_at), dv)), d, g_at);
    }
  }
}

// What is known of queries [first, first + rows) of a head, brought into the unit's room.
template <int kVecs>
HWY_NOINLINE void LoadGroup(const KeyUnit& u, int64_t head, int64_t first, int64_t rows, Block& query_rows,
                            Block& grad_rows) {
  constexpr int64_t kWidth = kVecs * kLanes;
  const BackwardCall& call = *u.call;
  const AttentionShape& s = call.shape;
  const int64_t item = item_size(s.dtype);
  query_rows = padded_rows(head_of(call.query, u.batch, head, item), s.dtype, item, first, rows, s.dim, u.query_rows);
  grad_rows = padded_rows(head_of(call.grad_out, u.batch, head, item), s.dtype, item, first, rows, s.value_dim,
                          u.grad_out_rows);
  IntoPanel<kVecs>(query_rows.data, query_rows.stride, rows, s.dim, static_cast<T>(s.scale * kLog2e), u.query);
  IntoPanel<kVecs>(grad_rows.data, grad_rows.stride, rows, s.value_dim, T{1}, u.grad_out);
  const Rows out = head_of(call.out, u.batch, head, item);
  const T* const saved = static_cast<const T*>(call.logsumexp) + (u.batch * s.heads + head) * s.queries + first;
  for (int64_t i = 0; i < kWidth; ++i) {
    // Queries that see no key have no weights: relative to infinity all are zero.
    u.logsumexp[i] = i >= rows || saved[i] == -kInfinity ? kInfinity : saved[i] * static_cast<T>(kLog2e);
    u.delta[i] = i < rows ? DotRow(block_of(out, s.dtype, item, first + i, 1, s.value_dim, u.row_room).data,
                                   grad_rows.data + i * grad_rows.stride, s.value_dim)
                          : T{0};
  }
}

// A group of queries against keys [at, at + n) of the unit.
template <int kVecs>
HWY_NOINLINE void StepGroup(const KeyUnit& u, int64_t head, int64_t first, int64_t rows, int64_t at, int64_t n,
                            bool start, const Block& query_rows, const Block& grad_rows) {
  constexpr int64_t kWidth = kVecs * kLanes;
  const BackwardCall& call = *u.call;
  const AttentionShape& s = call.shape;
  const int64_t item = item_size(s.dtype), key = u.first + at, dim = padded(s.dim), value_dim = padded(s.value_dim);
  const Block k = block_of(head_of(call.key, u.batch, u.kv_head, item), s.dtype, item, key, n, s.dim, u.key_room);
  const Block v =
      block_of(head_of(call.value, u.batch, u.kv_head, item), s.dtype, item, key, n, s.value_dim, u.value_room);
  Product<Into::kSet>(n, kWidth, {s.dim, k.data, k.stride, 1, u.query, kWidth, u.weights, kWidth, nullptr});
  if (s.causal && key + n - 1 > first) ApplyCausal<kVecs>(first, key, n, u.weights);
  const MaskBlock mask = MaskFor<kVecs>(call.mask, s.dtype, u.batch, head, first, rows, key, n, u.mask_room);
  if (mask.data != nullptr) ApplyMask<kVecs>(mask, n, u.weights);
  Product<Into::kSet>(n, kWidth,
                      {s.value_dim, v.data, v.stride, 1, u.grad_out, kWidth, u.grad_scores, kWidth, nullptr});
  WeightsAndGradients(n, kWidth, u.logsumexp, u.delta, u.weights, u.grad_scores);
  Product<Into::kAdd>(n, value_dim,
                      {rows, u.weights, kWidth, 1, grad_rows.data, grad_rows.stride, u.grad_value + at * value_dim,
                       value_dim, nullptr});
  Product<Into::kAdd>(
      n, dim,
      {rows, u.grad_scores, kWidth, 1, query_rows.data, query_rows.stride, u.grad_key + at * dim, dim, nullptr});
  const TileArgs to_query{n, k.data, 1, k.stride, u.grad_scores, kWidth, u.grad_query, kWidth, nullptr};
  if (start)
    Product<Into::kSet>(s.dim, kWidth, to_query);
  else
    Product<Into::kAdd>(s.dim, kWidth, to_query);
}

// Row `at` of a head's matrix of T that is written.
inline T* elements_at(const Rows& x, int64_t at) {
  return reinterpret_cast<T*>(const_cast<char*>(x.data)) + at * x.stride;
}

// rows x width numbers, times factor, to a head's matrix.
inline void StoreRows(const Rows& to, DType t, int64_t item, int64_t at, int64_t rows, int64_t width, T* from,
                      int64_t stride, T factor) {
  if (item == sizeof(T)) {
    const V f = hn::Set(d, factor);
    for (int64_t i = 0; i < rows; ++i) {
      T *const row = from + i * stride, *const out = elements_at(to, at + i);
      int64_t p = 0;
      for (; p + kLanes <= width; p += kLanes) hn::StoreU(hn::Mul(hn::LoadU(d, row + p), f), d, out + p);
      for (; p < width; ++p) out[p] = row[p] * factor;
    }
    return;
  }
  for (int64_t i = 0; i < rows; ++i) {
    T* const row = from + i * stride;
    for (int64_t p = 0; p < width; ++p) row[p] *= factor;
    Narrow(t, row, width, const_cast<char*>(to.data) + (at + i) * to.stride * item);
  }
}

template <int kVecs>
void RunGroup(const KeyUnit& u, int64_t head, int64_t first, int64_t rows) {
  constexpr int64_t kWidth = kVecs * kLanes;
  const BackwardCall& call = *u.call;
  const AttentionShape& s = call.shape;
  const int64_t end = min64(u.count, key_limit(s, first + rows - 1) - u.first);
  Block query_rows, grad_rows;
  if (end > 0)
    LoadGroup<kVecs>(u, head, first, rows, query_rows, grad_rows);
  else
    std::memset(u.grad_query, 0, s.dim * kWidth * sizeof(T));
  for (int64_t at = 0; at < end; at += kKeys)
    StepGroup<kVecs>(u, head, first, rows, at, min64(kKeys, end - at), at == 0, query_rows, grad_rows);
  const int64_t item = item_size(s.dtype);
  const Rows result = head_of(call.grad_query, u.batch, head, item);
  const bool last = u.parts == nullptr, in_place = last && item == sizeof(T);
  T* const rows_to = last ? u.query_rows : u.parts + (head * s.queries + first) * s.dim;
  for (int64_t i = 0; i < kWidth; ++i) u.delta[i] = in_place ? static_cast<T>(s.scale) : T{1};
  if (in_place) return FromPanel<kVecs>(u.grad_query, rows, s.dim, u.delta, elements_at(result, first), result.stride);
  FromPanel<kVecs>(u.grad_query, rows, s.dim, u.delta, rows_to, s.dim);
  if (last) StoreRows(result, s.dtype, item, first, rows, s.dim, rows_to, s.dim, static_cast<T>(s.scale));
}

void BackwardUnit(const BackwardCall& call, int64_t batch, int64_t kv_head, int64_t first, int64_t count, T* parts) {
  const AttentionShape& s = call.shape;
  const int64_t dim = padded(s.dim), value_dim = padded(s.value_dim),
                mask = call.mask.data != nullptr ? 2 * kKeys * kGroup : 0, item = item_size(s.dtype);
  ScratchArray<T> room(count * (dim + value_dim) + kGroup * (3 * dim + 2 * value_dim + 2 + 2 * kKeys) + mask +
                       (kKeys + 1) * (dim + value_dim));
  T* at = room.get();
  const auto take = [&](int64_t n) { return std::exchange(at, at + n); };
  KeyUnit u{&call, batch, kv_head, first, count, parts};
  u.grad_key = take(count * dim);
  u.grad_value = take(count * value_dim);
  u.query = take(kGroup * dim);
  u.grad_out = take(kGroup * value_dim);
  u.grad_query = take(kGroup * dim);
  u.query_rows = take(kGroup * dim);
  u.grad_out_rows = take(kGroup * value_dim);
  u.logsumexp = take(kGroup);
  u.delta = take(kGroup);
  u.weights = take(kGroup * kKeys);
  u.grad_scores = take(kGroup * kKeys);
  u.mask_room = take(mask);
  u.key_room = take(kKeys * dim);
  u.value_room = take(kKeys * value_dim);
  u.row_room = take(value_dim);
  std::memset(u.grad_key, 0, count * (dim + value_dim) * sizeof(T));
  const int64_t group = s.heads / s.kv_heads;
  for (int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head)
    for (int64_t i = 0; i < s.queries; i += kGroup) {
      const int64_t rows = min64(kGroup, s.queries - i);
      if (rows > 2 * kLanes)
        RunGroup<4>(u, head, i, rows);
      else if (rows > kLanes)
        RunGroup<2>(u, head, i, rows);
      else
        RunGroup<1>(u, head, i, rows);
    }
  StoreRows(head_of(call.grad_key, batch, kv_head, item), s.dtype, item, first, count, s.dim, u.grad_key, dim,
            static_cast<T>(s.scale));
  StoreRows(head_of(call.grad_value, batch, kv_head, item), s.dtype, item, first, count, s.value_dim, u.grad_value,
            value_dim, T{1});
}

}  // namespace

// The second argument only tells the functions of the two types apart.
void Backward(const BackwardCall& call, T) {
  const AttentionShape& s = call.shape;
  const int64_t heads = s.batch * s.kv_heads, blocks = max64(1, ceil_div(s.keys, kKeys));
  const int64_t per_unit = ceil_div(blocks, min64(blocks, max64(1, 16 / heads))) * kKeys,
                units = ceil_div(blocks * kKeys, per_unit);
  const int64_t part = s.heads * s.queries * s.dim;  // of a batch
  ScratchArray<T> parts(units > 1 ? units * s.batch * part : 0);
  const int64_t work = s.queries * (s.heads / s.kv_heads) * min64(per_unit, s.keys + 1) * (s.dim + s.value_dim) * 3;
  parallel_for(heads * units, max64(1, (1 << 19) / max64(1, work)), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t unit = i % units, kv_head = i / units % s.kv_heads, batch = i / units / s.kv_heads,
                    first = unit * per_unit;
      BackwardUnit(call, batch, kv_head, first, max64(0, min64(per_unit, s.keys - first)),
                   units > 1 ? parts.get() + (unit * s.batch + batch) * part : nullptr);
    }
  });
  if (units == 1) return;
  const int64_t item = item_size(s.dtype);
  parallel_for(s.batch * s.heads * s.queries, max64(1, 32768 / max64(1, s.dim * units)),
               [&](int64_t begin, int64_t end) {
                 for (int64_t i = begin; i < end; ++i) {
                   T* const sum = parts.get() + i * s.dim;
                   for (int64_t u = 1; u < units; ++u)
                     for (int64_t p = 0; p < s.dim; ++p) sum[p] += sum[u * s.batch * part + p];
                   StoreRows(head_of(call.grad_query, i / s.queries / s.heads, i / s.queries % s.heads, item), s.dtype,
                             item, i % s.queries, 1, s.dim, sum, s.dim, static_cast<T>(s.scale));
                 }
               });
}

}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu::internal
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
