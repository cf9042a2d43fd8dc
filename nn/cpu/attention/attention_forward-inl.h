// Attention, forward, for one SIMD target and one type of the arithmetic: after Dao et al., "FlashAttention" (2022),
// and Milakov and Gimelshein, "Online normalizer calculation for softmax" (2018). A unit of work is a few panels of
// queries of one head; it walks along the keys in blocks and keeps, for each query, the greatest score so far, the sum
// of exponentials relative to it and the weighted sum of values. Scores are in units of log 2, so that weights are
// powers of two.
#if defined(TENSOR_CPU_ATTENTION_FORWARD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TENSOR_CPU_ATTENTION_FORWARD_INL_H_
#undef TENSOR_CPU_ATTENTION_FORWARD_INL_H_
#else
#define TENSOR_CPU_ATTENTION_FORWARD_INL_H_
#endif

#include "hwy/highway.h"
#include "nn/cpu/attention/attention_finish-inl.h"
#include "nn/cpu/attention/attention_mask-inl.h"
#include "nn/cpu/attention/attention_rows-inl.h"
#include "nn/cpu/attention/attention_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::internal {
namespace HWY_NAMESPACE {
namespace {

// ---- Softmax ----

// Scores of n more keys become weights relative to the greatest score of each query, which grows: scale gets the factor
// by which what was summed before shrinks.
template <int kVecs>
HWY_NOINLINE void SoftmaxStep(int64_t n, T* HWY_RESTRICT scores, T* HWY_RESTRICT greatest, T* HWY_RESTRICT sums,
                              T* HWY_RESTRICT scale) {
  constexpr int64_t kWidth = kVecs * kLanes;
  for (int64_t v = 0; v < kWidth; v += kLanes) {
    const V before = hn::LoadU(d, greatest + v);
    V m0 = before, m1 = before;
    int64_t k = 0;
    for (; k + 2 <= n; k += 2) {
      m0 = hn::Max(hn::LoadU(d, scores + k * kWidth + v), m0);
      m1 = hn::Max(hn::LoadU(d, scores + (k + 1) * kWidth + v), m1);
    }
    if (k < n) m0 = hn::Max(hn::LoadU(d, scores + k * kWidth + v), m0);
    const V max = hn::Max(m0, m1);
    hn::StoreU(max, d, greatest + v);
    // Relative to -infinity nothing could be said: queries that have seen no key yet.
    const V from = hn::IfThenZeroElse(hn::Eq(max, hn::Set(d, -kInfinity)), max);
    const V shrink = Exp2(hn::Sub(before, from));
    hn::StoreU(shrink, d, scale + v);
    V s0 = hn::Zero(d), s1 = s0;
    for (k = 0; k + 2 <= n; k += 2) {
      const V w0 = Exp2(hn::Sub(hn::LoadU(d, scores + k * kWidth + v), from)),
              w1 = Exp2(hn::Sub(hn::LoadU(d, scores + (k + 1) * kWidth + v), from));
      hn::StoreU(w0, d, scores + k * kWidth + v);
      hn::StoreU(w1, d, scores + (k + 1) * kWidth + v);
      s0 = hn::Add(s0, w0);
      s1 = hn::Add(s1, w1);
    }
    if (k < n) {
      const V w0 = Exp2(hn::Sub(hn::LoadU(d, scores + k * kWidth + v), from));
      hn::StoreU(w0, d, scores + k * kWidth + v);
      s0 = hn::Add(s0, w0);
    }
    hn::StoreU(hn::MulAdd(hn::LoadU(d, sums + v), shrink, hn::Add(s0, s1)), d, sums + v);
  }
}

// ---- A unit of work ----

constexpr int64_t kWidest = 4 * kLanes;  // queries of a panel

// Some panels of one head and what is known of their queries.
struct Panels {
  const ForwardCall* call;
  int64_t batch, head;
  int64_t first, count;  // queries
  int64_t width;         // queries of a panel
  T *query, *result;     // per panel: dim rows, value_dim rows
  T *greatest, *sums;    // per panel: one row
  T *scores, *scale, *mask_room;
};

template <int kVecs>
void StepPanel(const Panels& g, int64_t panel, int64_t rows, int64_t key, int64_t n, const Block& k, const Block& v) {
  constexpr int64_t kWidth = kVecs * kLanes;
  const AttentionShape& s = g.call->shape;
  const int64_t query = g.first + panel * g.width;
  TileArgs a{s.dim, k.data, k.stride, 1, g.query + panel * g.width * s.dim, kWidth, g.scores, kWidth, nullptr};
  Product<Into::kSet>(n, kWidth, a);
  if (s.causal && key + n - 1 > query) ApplyCausal<kVecs>(query, key, n, g.scores);
  const MaskBlock mask = MaskFor<kVecs>(g.call->mask, s.dtype, g.batch, g.head, query, rows, key, n, g.mask_room);
  if (mask.data != nullptr) ApplyMask<kVecs>(mask, n, g.scores);
  SoftmaxStep<kVecs>(n, g.scores, g.greatest + panel * g.width, g.sums + panel * g.width, g.scale);
  TileArgs o{n, v.data, 1, v.stride, g.scores, kWidth, g.result + panel * g.width * s.value_dim, kWidth, g.scale};
  if (key == 0)
    Product<Into::kSet>(s.value_dim, kWidth, o);
  else
    Product<Into::kScaled>(s.value_dim, kWidth, o);
}

template <int kVecs>
void StartPanel(const Panels& g, int64_t panel, int64_t rows, const Block& q) {
  constexpr int64_t kWidth = kVecs * kLanes;
  const AttentionShape& s = g.call->shape;
  IntoPanel<kVecs>(q.data, q.stride, rows, s.dim, static_cast<T>(s.scale * kLog2e), g.query + panel * g.width * s.dim);
  for (int64_t i = 0; i < kWidth; ++i) {
    g.greatest[panel * g.width + i] = -kInfinity;
    g.sums[panel * g.width + i] = 0;
  }
  if (s.keys == 0)
    for (int64_t i = 0; i < s.value_dim * kWidth; ++i) g.result[panel * g.width * s.value_dim + i] = 0;
}

template <int kVecs>
void FinishPanel(const Panels& g, int64_t panel, int64_t rows, T* room) {
  FinishQueries<kVecs>(*g.call, g.batch, g.head, g.first + panel * g.width, rows, g.sums + panel * g.width,
                       g.greatest + panel * g.width, g.result + panel * g.width * g.call->shape.value_dim, room);
}

// fn<kVecs>(panel, rows) for the panels of a unit: a last one of few queries is narrower.
template <class F>
HWY_INLINE void for_panels(int64_t count, int64_t width, F&& fn) {
  for (int64_t i = 0; i * width < count; ++i) {
    const int64_t rows = min64(width, count - i * width);
    if (rows > 2 * kLanes)
      fn(std::integral_constant<int, 4>(), i, rows);
    else if (rows > kLanes)
      fn(std::integral_constant<int, 2>(), i, rows);
    else
      fn(std::integral_constant<int, 1>(), i, rows);
  }
}

// Memory of a unit, in elements.
struct UnitRoom {
  int64_t query, result, row, scores, mask, keys, values, total;
  UnitRoom(const AttentionShape& s, bool mask_used, int64_t panels, int64_t width) {
    query = panels * width * s.dim;
    result = panels * width * s.value_dim;
    row = panels * width;
    scores = kKeys * width;
    mask = mask_used ? 2 * kKeys * width : 0;
    keys = max64(kKeys, width) * s.dim;  // also rows of queries
    values = max64(kKeys, width) * s.value_dim;
    total = query + result + 2 * row + scores + width + mask + keys + values;
  }
};

void ForwardUnit(const ForwardCall& call, int64_t batch, int64_t head, int64_t first, int64_t count, int64_t width) {
  const AttentionShape& s = call.shape;
  const UnitRoom sizes(s, call.mask.data != nullptr, ceil_div(count, width), width);
  ScratchArray<T> room(sizes.total);
  T* at = room.get();
  const auto take = [&](int64_t n) { return std::exchange(at, at + n); };
  Panels g{&call,
           batch,
           head,
           first,
           count,
           width,
           take(sizes.query),
           take(sizes.result),
           take(sizes.row),
           take(sizes.row),
           take(sizes.scores),
           take(width),
           take(sizes.mask)};
  T *const key_room = take(sizes.keys), *const value_room = take(sizes.values);
  const int64_t item = item_size(s.dtype), kv_head = head / (s.heads / s.kv_heads);
  const Rows q = head_of(call.query, batch, head, item), k = head_of(call.key, batch, kv_head, item),
             v = head_of(call.value, batch, kv_head, item);
  for_panels(count, width, [&](auto vecs, int64_t panel, int64_t rows) HWY_ATTR {
    StartPanel<vecs.value>(g, panel, rows, block_of(q, s.dtype, item, first + panel * width, rows, s.dim, key_room));
  });
  const int64_t end = key_limit(s, first + count - 1);
  for (int64_t key = 0; key < end; key += kKeys) {
    const int64_t n = min64(kKeys, end - key);
    const Block kb = block_of(k, s.dtype, item, key, n, s.dim, key_room),
                vb = block_of(v, s.dtype, item, key, n, s.value_dim, value_room);
    for_panels(count, width, [&](auto vecs, int64_t panel, int64_t rows) HWY_ATTR {
      const int64_t limit = key_limit(s, first + panel * width + rows - 1);
      if (key < limit) StepPanel<vecs.value>(g, panel, rows, key, min64(n, limit - key), kb, vb);
    });
  }
  for_panels(count, width, [&](auto vecs, int64_t panel, int64_t rows) HWY_ATTR {
    FinishPanel<vecs.value>(g, panel, rows, value_room);
  });
}

}  // namespace

// The second argument only tells the functions of the two types apart.
void Forward(const ForwardCall& call, T) {
  const AttentionShape& s = call.shape;
  if (s.queries <= kFewQueries) return ForwardRows(call);
  // Wide panels are faster, narrow ones waste less under a diagonal and where queries end.
  const int64_t width = kWidest * ((s.queries >= 256 && !s.causal) || s.queries >= 1024 ? 2 : 1) / 2;
  // Panels share what has to be copied of key and value; with few of them, each is a unit.
  const int64_t panels = ceil_div(s.queries, width), all = s.batch * s.heads * panels;
  const int64_t per_unit = max64(1, min64(4, min64(panels, all / 16)));
  const int64_t size = per_unit * width, units = ceil_div(s.queries, size);
  const int64_t work = size * (s.keys + 1) * (s.dim + s.value_dim + 16);
  parallel_for(s.batch * s.heads * units, max64(1, (1 << 19) / max64(1, work)), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t first = i % units * size, head = i / units % s.heads, batch = i / units / s.heads;
      ForwardUnit(call, batch, head, first, min64(size, s.queries - first), width);
    }
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu::internal
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
