// Attention of few queries (one, when text is generated), for one SIMD target and one type of the arithmetic. Features
// lie across the lanes here: key and value are read once, at the speed of memory, for all query rows that share them. A
// unit of work is some keys of one head of keys; what several units find is put together at the end, in order.
#if defined(TENSOR_CPU_ATTENTION_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TENSOR_CPU_ATTENTION_ROWS_INL_H_
#undef TENSOR_CPU_ATTENTION_ROWS_INL_H_
#else
#define TENSOR_CPU_ATTENTION_ROWS_INL_H_
#endif

#include "hwy/cache_control.h"
#include "hwy/highway.h"
#include "tensor/core/half.h"
#include "nn/cpu/attention/attention_mask-inl.h"
#include "nn/cpu/attention/attention_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::internal {
namespace HWY_NAMESPACE {
namespace {

constexpr int64_t kAhead = 8;  // keys that are fetched before they are needed

// Elements of key and value as they lie: T, or bfloat16 (where T is float).
using BFloat = std::conditional_t<sizeof(T) == 4, uint16_t, T>;
HWY_INLINE V LoadElements(const T* p) { return hn::LoadU(d, p); }
HWY_INLINE T one_element(const T* p) { return *p; }
HWY_INLINE auto LoadElements(const uint16_t* p) {
  const hn::ScalableTag<float> df;
  const hn::RebindToUnsigned<decltype(df)> du;
  return hn::BitCast(df, hn::ShiftLeft<16>(hn::PromoteTo(du, hn::LoadU(hn::Rebind<uint16_t, decltype(df)>(), p))));
}
HWY_INLINE float one_element(const uint16_t* p) { return bfloat16_bits_to_float(*p); }
template <class E>
struct ElementBlock {
  const E* data;
  int64_t stride;
};

// out[j] = sum_p q[p] k[j * stride + p], kCount of them.
template <int kCount, class E>
HWY_INLINE void Dots(int64_t dim, const T* HWY_RESTRICT q, const E* HWY_RESTRICT k, int64_t stride, T* out) {
  V sum[kCount];
#pragma GCC unroll 4
  for (int j = 0; j < kCount; ++j) sum[j] = hn::Zero(d);
  int64_t p = 0;
  for (; p + kLanes <= dim; p += kLanes) {
    const V x = hn::LoadU(d, q + p);
#pragma GCC unroll 4
    for (int j = 0; j < kCount; ++j) {
      sum[j] = hn::MulAdd(x, LoadElements(k + j * stride + p), sum[j]);
      hwy::Prefetch(k + (j + kAhead) * stride + p);
    }
  }
#pragma GCC unroll 4
  for (int j = 0; j < kCount; ++j) {
    T s = hn::GetLane(hn::SumOfLanes(d, sum[j]));
    for (int64_t i = p; i < dim; ++i) s += q[i] * one_element(k + j * stride + i);
    out[j] = s;
  }
}

// result = result * shrink + sum_k weights[k] v[k]: kVecs vectors of features.
template <int kVecs, class E>
HWY_INLINE void AddRows(int64_t n, const T* HWY_RESTRICT weights, const E* HWY_RESTRICT v, int64_t stride, T shrink,
                        T* HWY_RESTRICT result) {
  V sum[kVecs];
#pragma GCC unroll 4
  for (int c = 0; c < kVecs; ++c) sum[c] = hn::Mul(hn::LoadU(d, result + c * kLanes), hn::Set(d, shrink));
  for (int64_t k = 0; k < n; ++k) {
    const V w = hn::Set(d, weights[k]);
#pragma GCC unroll 4
    for (int c = 0; c < kVecs; ++c) {
      sum[c] = hn::MulAdd(w, LoadElements(v + k * stride + c * kLanes), sum[c]);
      hwy::Prefetch(v + (k + kAhead) * stride + c * kLanes);
    }
  }
#pragma GCC unroll 4
  for (int c = 0; c < kVecs; ++c) hn::StoreU(sum[c], d, result + c * kLanes);
}
template <class E>
HWY_INLINE void AddAllRows(int64_t n, int64_t width, const T* weights, const ElementBlock<E>& v, T shrink, T* result) {
  int64_t p = 0;
  for (; p + 4 * kLanes <= width; p += 4 * kLanes) AddRows<4>(n, weights, v.data + p, v.stride, shrink, result + p);
  for (; p + kLanes <= width; p += kLanes) AddRows<1>(n, weights, v.data + p, v.stride, shrink, result + p);
  for (; p < width; ++p) {
    T sum = result[p] * shrink;
    for (int64_t k = 0; k < n; ++k) sum += weights[k] * one_element(v.data + k * v.stride + p);
    result[p] = sum;
  }
}

// What is known of a query: value_dim sums, then the greatest score and the sum of exponentials.
struct Row {
  T* sums;
  T* ends;
};
inline T power(T x) { return hn::GetLane(Exp2(hn::Set(d, x))); }

// scores: n of them and as many more as fill a vector.
template <class E>
HWY_NOINLINE void StepRow(int64_t n, int64_t value_dim, T* scores, const ElementBlock<E>& v, const Row& row) {
  for (int64_t j = n; j < ceil_div(n, kLanes) * kLanes; ++j) scores[j] = -kInfinity;
  V greatest = hn::Set(d, row.ends[0]);
  for (int64_t j = 0; j < n; j += kLanes) greatest = hn::Max(hn::LoadU(d, scores + j), greatest);
  const T max = hn::GetLane(hn::MaxOfLanes(d, greatest)), from = max == -kInfinity ? T{0} : max,
          shrink = power(row.ends[0] - from);
  V sum = hn::Zero(d);
  for (int64_t j = 0; j < n; j += kLanes) {
    const V w = Exp2(hn::Sub(hn::LoadU(d, scores + j), hn::Set(d, from)));
    hn::StoreU(w, d, scores + j);
    sum = hn::Add(sum, w);
  }
  row.ends[0] = max;
  row.ends[1] = row.ends[1] * shrink + hn::GetLane(hn::SumOfLanes(d, sum));
  AddAllRows(n, value_dim, scores, v, shrink, row.sums);
}

template <class E>
HWY_INLINE void RowScores(int64_t n, int64_t dim, const T* q, const ElementBlock<E>& k, T* scores) {
  int64_t j = 0;
  for (; j + 4 <= n; j += 4) Dots<4>(dim, q, k.data + j * k.stride, k.stride, scores + j);
  for (; j < n; ++j) Dots<1>(dim, q, k.data + j * k.stride, 0, scores + j);
}
HWY_INLINE void MaskScores(const AttentionMask& m, DType t, int64_t at, int64_t n, T* room, T* scores) {
  MaskRow(m, t, at, n, room);
  if (m.dtype == DType::kBool)
    for (int64_t j = 0; j < n; ++j) scores[j] = room[j] == T{0} ? scores[j] : room[j];
  else
    for (int64_t j = 0; j < n; ++j) scores[j] += room[j] * static_cast<T>(kLog2e);
}

// Rows [at, at + n) as they lie if they are of E, else as `block_of` makes them.
template <class E>
HWY_INLINE ElementBlock<E> elements_of(const Rows& x, DType t, int64_t item, int64_t at, int64_t n, int64_t width,
                                       T* room) {
  if constexpr (std::is_same_v<E, T>) {
    const Block b = block_of(x, t, item, at, n, width, room);
    return {b.data, b.stride};
  } else {
    return {reinterpret_cast<const E*>(x.data) + at * x.stride, x.stride};
  }
}

// Keys [first, end) for the queries of the heads that share kv_head; row (head, query) has value_dim + 2 numbers in
// `rows`.
template <class E>
HWY_NOINLINE void RowsUnit(const ForwardCall& call, int64_t batch, int64_t kv_head, int64_t first, int64_t end,
                           T* rows) {
  const AttentionShape& s = call.shape;
  const int64_t item = item_size(s.dtype), group = s.heads / s.kv_heads, all = group * s.queries,
                size = s.value_dim + 2;
  ScratchArray<T> room(all * s.dim + 2 * (kKeys + kLanes) + kKeys * (s.dim + s.value_dim));
  T *const queries = room.get(), *const scores = queries + all * s.dim, *const mask_room = scores + kKeys + kLanes,
           *const key_room = mask_room + kKeys + kLanes, *const value_room = key_room + kKeys * s.dim;
  for (int64_t r = 0; r < all; ++r) {
    const Block q = block_of(head_of(call.query, batch, kv_head * group + r / s.queries, item), s.dtype, item,
                             r % s.queries, 1, s.dim, queries + r * s.dim);
    for (int64_t p = 0; p < s.dim; ++p) queries[r * s.dim + p] = q.data[p] * static_cast<T>(s.scale * kLog2e);
    for (int64_t p = 0; p < s.value_dim; ++p) rows[r * size + p] = 0;
    rows[r * size + s.value_dim] = -kInfinity;
    rows[r * size + s.value_dim + 1] = 0;
  }
  const Rows k = head_of(call.key, batch, kv_head, item), v = head_of(call.value, batch, kv_head, item);
  end = min64(end, key_limit(s, s.queries - 1));
  for (int64_t key = first; key < end; key += kKeys) {
    const int64_t n = min64(kKeys, end - key);
    const ElementBlock<E> kb = elements_of<E>(k, s.dtype, item, key, n, s.dim, key_room),
                          vb = elements_of<E>(v, s.dtype, item, key, n, s.value_dim, value_room);
    for (int64_t r = 0; r < all; ++r) {
      const int64_t query = r % s.queries, seen = min64(n, key_limit(s, query) - key);
      if (seen <= 0) continue;
      RowScores(seen, s.dim, queries + r * s.dim, kb, scores);
      const AttentionMask& m = call.mask;
      if (m.data != nullptr)
        MaskScores(m, s.dtype,
                   batch * m.batch_stride + (kv_head * group + r / s.queries) * m.head_stride + query * m.query_stride +
                       key * m.key_stride,
                   seen, mask_room, scores);
      StepRow(seen, s.value_dim, scores, vb, {rows + r * size, rows + r * size + s.value_dim});
    }
  }
}

// Puts what `units` units found for a query, `apart` numbers apart, together and writes the results.
HWY_NOINLINE void FinishRow(const ForwardCall& call, int64_t batch, int64_t head, int64_t query, T* found,
                            int64_t units, int64_t apart) {
  const AttentionShape& s = call.shape;
  const int64_t item = item_size(s.dtype), n = s.value_dim;
  T max = found[n];
  for (int64_t u = 1; u < units; ++u) max = found[u * apart + n] > max ? found[u * apart + n] : max;
  const T from = max == -kInfinity ? T{0} : max;
  T total = 0;
  for (int64_t u = 0; u < units; ++u) {
    const T* const part = found + u * apart;
    const T factor = power(part[n] - from);
    total += part[n + 1] * factor;
    for (int64_t p = 0; p < n; ++p) found[p] = (u == 0 ? T{0} : found[p]) + part[p] * factor;
  }
  const T factor = total == T{0} ? T{0} : T{1} / total;
  for (int64_t p = 0; p < n; ++p) found[p] *= factor;
  const Rows out = head_of(call.out, batch, head, item);
  Narrow(s.dtype, found, n, const_cast<char*>(out.data) + query * out.stride * item);
  if (call.logsumexp != nullptr) {
    const T log = hn::GetLane(hn::Log(d, hn::Set(d, total)));
    static_cast<T*>(call.logsumexp)[(batch * s.heads + head) * s.queries + query] =
        total == T{0} ? -kInfinity : max * static_cast<T>(kLn2) + log;
  }
}

void ForwardRows(const ForwardCall& call) {
  const AttentionShape& s = call.shape;
  const int64_t heads = s.batch * s.kv_heads, group = s.heads / s.kv_heads, size = s.value_dim + 2;
  const int64_t units = max64(1, min64(ceil_div(s.keys, 512), ceil_div(32, heads))),
                per_unit = ceil_div(ceil_div(s.keys, units), kKeys) * kKeys;
  const int64_t rows = s.batch * s.heads * s.queries;
  ScratchArray<T> found(units * rows * size);
  const int64_t work = per_unit * group * s.queries * (s.dim + s.value_dim);
  const auto run = s.dtype == DType::kBFloat16 ? RowsUnit<BFloat> : RowsUnit<T>;
  parallel_for(heads * units, max64(1, (1 << 16) / max64(1, work)), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t unit = i % units, head = i / units;
      run(call, head / s.kv_heads, head % s.kv_heads, unit * per_unit, min64(s.keys, (unit + 1) * per_unit),
          found.get() + (unit * rows + head * group * s.queries) * size);
    }
  });
  for (int64_t r = 0; r < rows; ++r)
    FinishRow(call, r / s.queries / s.heads, r / s.queries % s.heads, r % s.queries, found.get() + r * size, units,
              rows * size);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu::internal
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
