// Attention of bfloat16, forward, on the matrix products of AMX or AVX512_BF16 (gemm_bf16.h): scores and sums in
// float32, weights rounded to bfloat16 for their product with the values. The way of attention_forward-inl.h, with its
// layout: 32 queries across two vectors.
#define TESSERA_ATTENTION_T float

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "nn/cpu/attention/attention_bf16.cc"
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>

#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "hwy/contrib/math/math-inl.h"
#include "tensor/core/parallel.h"
#include "nn/cpu/attention/attention_internal.h"
#include "tensor/cpu/pointwise/convert.h"
#include "tensor/cpu/gemm/gemm_bf16.h"
#include "tensor/cpu/support/scratch.h"
#include "tensor/cpu/support/simd.h"
#include "nn/cpu/attention/attention_finish-inl.h"  // last: these use the headers above
#include "nn/cpu/attention/attention_mask-inl.h"
#include "nn/cpu/attention/attention_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::internal {
namespace HWY_NAMESPACE {
#if HWY_TARGET <= HWY_AVX3
namespace {

constexpr int64_t kPanel = 32;       // queries, and lines of the products' panels
constexpr int64_t kBlockKeys = 128;  // taken together
static_assert(kPanel == kMaxPanel && kPanel == kPanelLines && kBlockKeys % kKeys == 0);

inline int64_t steps_of(int64_t k) { return ceil_div(k, 32); }
inline int64_t panel_bytes(int64_t k) { return steps_of(k) * kPanelStepBytes; }

// Of a unit: some panels of queries of one head.
struct Bf16Unit {
  const ForwardCall* call;
  PanelBlock block;
  int64_t batch, head, first, count;
  char* query;    // panels
  float* result;  // of each panel: whole panels of features x 32
  float *greatest, *sums;
  char *key, *value, *weights;  // of a block of keys
  float *scores, *scale, *mask_room;
  int64_t result_rows() const { return steps_of(call->shape.value_dim) * kPanel; }
};

// What the products gave becomes scores: times factor, plus the mask.
HWY_NOINLINE void ScaleScores(int64_t n, float factor, float* scores) {
  const V f = hn::Set(d, factor);
  for (int64_t i = 0; i < n * kPanel; i += kLanes) hn::Store(hn::Mul(hn::Load(d, scores + i), f), d, scores + i);
}

// Exp2 as exact as bfloat16 can tell: to 4e-6.
HWY_INLINE V Exp2Short(V x) {
  using U = hn::RebindToUnsigned<D>;
  const V magic = hn::Set(d, 12582912.0f + 127);
  const V t = hn::Add(x, magic), r = hn::Sub(x, hn::Sub(t, magic));
  V p = hn::MulAdd(hn::Set(d, 0.0097829126378245f), r, hn::Set(d, 0.0559768836304607f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.2402071107662322f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.6931136044034355f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f));
  const V power = hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(U(), t)));
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -126.0f)), hn::Mul(p, power));
}
// Pairs of weights as bfloat16, the first in the lower halves.
HWY_INLINE hn::Vec<hn::RebindToUnsigned<D>> RoundPair(V first, V second) {
  const hn::RebindToUnsigned<D> du;
  const auto half = hn::Set(du, 0x8000u);
  const auto low = hn::ShiftRight<16>(hn::Add(hn::BitCast(du, first), half)),
             high = hn::Add(hn::BitCast(du, second), half);
  return hn::OrAnd(low, high, hn::Set(du, 0xffff0000u));
}

// n scores (a multiple of 32), times factor > 0, become weights, in the layout of a panel. As SoftmaxStep else; true if
// the greatest score of a query has grown.
HWY_NOINLINE bool SoftmaxBf16(int64_t n, const float* HWY_RESTRICT scores, float factor, float* HWY_RESTRICT greatest,
                              float* HWY_RESTRICT sums, float* HWY_RESTRICT scale, char* HWY_RESTRICT weights) {
  const hn::RebindToUnsigned<D> du;
  const V f = hn::Set(d, factor);
  bool grown = false;
  for (int64_t v = 0; v < kPanel; v += kLanes) {
    const V before = hn::Load(d, greatest + v);
    V m[4];
    for (int i = 0; i < 4; ++i) m[i] = hn::Set(d, -kInfinity);
    for (int64_t k = 0; k < n; k += 4)
      for (int i = 0; i < 4; ++i) m[i] = hn::Max(hn::Load(d, scores + (k + i) * kPanel + v), m[i]);
    const V max = hn::Max(hn::Mul(hn::Max(hn::Max(m[0], m[1]), hn::Max(m[2], m[3])), f), before);
    hn::Store(max, d, greatest + v);
    const V from = hn::IfThenZeroElse(hn::Eq(max, hn::Set(d, -kInfinity)), max);
    const V shrink = Exp2Short(hn::Sub(before, from));
    hn::Store(shrink, d, scale + v);
    grown |= !hn::AllTrue(d, hn::Eq(before, from));
    V s0 = hn::Zero(d), s1 = s0;
    char* to = weights + v / kLanes * 1024;
    for (int64_t k = 0; k < n; k += 32, to += kPanelStepBytes)
      for (int64_t q = 0; q < 16; ++q) {
        const float* const at = scores + (k + 2 * q) * kPanel + v;
        const V w0 = Exp2Short(hn::MulSub(hn::Load(d, at), f, from)),
                w1 = Exp2Short(hn::MulSub(hn::Load(d, at + kPanel), f, from));
        s0 = hn::Add(s0, w0);
        s1 = hn::Add(s1, w1);
        hn::Store(RoundPair(w0, w1), du, reinterpret_cast<uint32_t*>(to + q * 64));
      }
    hn::Store(hn::MulAdd(hn::Load(d, sums + v), shrink, hn::Add(s0, s1)), d, sums + v);
  }
  return grown;
}

// A panel of queries against keys [key, key + n), which are in the unit's panels.
void StepBf16(const Bf16Unit& u, int64_t panel, int64_t rows, int64_t key, int64_t n) {
  const AttentionShape& s = u.call->shape;
  const int64_t query = u.first + panel * kPanel, whole = steps_of(n) * kPanel, dim_steps = steps_of(s.dim);
  for (int64_t j = 0; j < n; j += kPanel)
    u.block(dim_steps, u.key + j / kPanel * panel_bytes(s.dim), u.query + panel * panel_bytes(s.dim), kPanel, kPanel,
            u.scores + j * kPanel, kPanel, false);
  float factor = static_cast<float>(s.scale * kLog2e);
  if (factor <= 0 || u.call->mask.data != nullptr) {
    ScaleScores(n, factor, u.scores);
    factor = 1;
  }
  for (int64_t j = 0; j < n && u.call->mask.data != nullptr; j += kKeys) {
    const int64_t m = min64(kKeys, n - j);
    const MaskBlock mask = MaskFor<2>(u.call->mask, s.dtype, u.batch, u.head, query, rows, key + j, m, u.mask_room);
    if (mask.data != nullptr) ApplyMask<2>(mask, m, u.scores + j * kPanel);
  }
  if (s.causal && key + n - 1 > query) ApplyCausal<2>(query, key, n, u.scores);
  for (int64_t i = n * kPanel; i < whole * kPanel; ++i) u.scores[i] = -kInfinity;
  float* const result = u.result + panel * u.result_rows() * kPanel;
  const bool grown =
      SoftmaxBf16(whole, u.scores, factor, u.greatest + panel * kPanel, u.sums + panel * kPanel, u.scale, u.weights);
  if (grown && key != 0) {
    const V f0 = hn::Load(d, u.scale), f1 = hn::Load(d, u.scale + kLanes);
    for (int64_t p = 0; p < s.value_dim * kPanel; p += kPanel) {
      hn::Store(hn::Mul(hn::Load(d, result + p), f0), d, result + p);
      hn::Store(hn::Mul(hn::Load(d, result + p + kLanes), f1), d, result + p + kLanes);
    }
  }
  for (int64_t p = 0; p < s.value_dim; p += kPanel)
    u.block(steps_of(n), u.value + p / kPanel * panel_bytes(kBlockKeys), u.weights, kPanel, kPanel, result + p * kPanel,
            kPanel, key != 0);
}

void Bf16ForwardUnit(const ForwardCall& call, PanelLevel level, int64_t batch, int64_t head, int64_t first,
                     int64_t count) {
  const AttentionShape& s = call.shape;
  const int64_t panels = ceil_div(count, kPanel), dim_panel = panel_bytes(s.dim), value_panels = steps_of(s.value_dim),
                key_panels = kBlockKeys / kPanel;
  const int64_t mask = call.mask.data != nullptr ? 2 * kKeys * kPanel : 0;
  const int64_t bytes =
      (panels + key_panels) * dim_panel + value_panels * panel_bytes(kBlockKeys) + panel_bytes(kBlockKeys);
  ScratchArray<char> room(bytes + 4 * (panels * (value_panels * kPanel + 2) * kPanel + (kBlockKeys + 1) * kPanel +
                                       mask + kPanel * s.value_dim));
  char* at = room.get();
  const auto take = [&](int64_t n) { return std::exchange(at, at + n); };
  const auto take_floats = [&](int64_t n) { return reinterpret_cast<float*>(take(4 * n)); };
  Bf16Unit u{&call, bf16_panel_block(level), batch, head, first, count};
  u.query = take(panels * dim_panel);
  u.key = take(key_panels * dim_panel);
  u.value = take(value_panels * panel_bytes(kBlockKeys));
  u.weights = take(panel_bytes(kBlockKeys));
  u.result = take_floats(panels * u.result_rows() * kPanel);
  u.greatest = take_floats(panels * kPanel);
  u.sums = take_floats(panels * kPanel);
  u.scores = take_floats(kBlockKeys * kPanel);
  u.scale = take_floats(kPanel);
  u.mask_room = take_floats(mask);
  float* const out_room = take_floats(kPanel * s.value_dim);
  const int64_t kv_head = head / (s.heads / s.kv_heads);
  const Rows q = head_of(call.query, batch, head, 2), k = head_of(call.key, batch, kv_head, 2),
             v = head_of(call.value, batch, kv_head, 2);
  for (int64_t i = 0; i < panels; ++i)
    pack_panel_b(2, q.data + (first + i * kPanel) * q.stride * 2, q.stride, 1, min64(kPanel, count - i * kPanel), s.dim,
                 u.query + i * dim_panel);
  for (int64_t i = 0; i < panels * kPanel; ++i) {
    u.greatest[i] = -kInfinity;
    u.sums[i] = 0;
  }
  const TileScope tiles(level);
  const int64_t end = key_limit(s, first + count - 1);
  for (int64_t key = 0; key < end; key += kBlockKeys) {
    const int64_t n = min64(kBlockKeys, end - key);
    for (int64_t j = 0; j < n; j += kPanel)
      pack_panel_a(2, k.data + (key + j) * k.stride * 2, k.stride, 1, min64(kPanel, n - j), s.dim, 0,
                   u.key + j / kPanel * dim_panel);
    for (int64_t p = 0; p < s.value_dim; p += kPanel)
      pack_panel_a(2, v.data + (key * v.stride + p) * 2, 1, v.stride, min64(kPanel, s.value_dim - p), n, 0,
                   u.value + p / kPanel * panel_bytes(kBlockKeys));
    for (int64_t i = 0; i < panels; ++i) {
      const int64_t rows = min64(kPanel, count - i * kPanel), limit = key_limit(s, first + i * kPanel + rows - 1);
      if (key < limit) StepBf16(u, i, rows, key, min64(n, limit - key));
    }
  }
  for (int64_t i = 0; i < panels; ++i)
    FinishQueries<2>(call, batch, head, first + i * kPanel, min64(kPanel, count - i * kPanel), u.sums + i * kPanel,
                     u.greatest + i * kPanel, u.result + i * u.result_rows() * kPanel, out_room);
}

}  // namespace

bool ForwardBf16(const ForwardCall& call) {
  const PanelLevel level = bf16_panel_level();
  const AttentionShape& s = call.shape;
  if (level == PanelLevel::kNone || s.keys == 0) return false;
  const int64_t panels = ceil_div(s.queries, kPanel), all = s.batch * s.heads * panels,
                per_unit = max64(1, min64(8, min64(panels, all / 16)));
  const int64_t size = per_unit * kPanel, units = ceil_div(s.queries, size),
                work = size * s.keys * (s.dim + s.value_dim + 64);
  parallel_for(s.batch * s.heads * units, max64(1, (1 << 21) / work), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t first = i % units * size;
      Bf16ForwardUnit(call, level, i / units / s.heads, i / units % s.heads, first, min64(size, s.queries - first));
    }
  });
  return true;
}
#else
bool ForwardBf16(const ForwardCall&) { return false; }
#endif
}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu::internal
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::cpu::internal {

TESSERA_SIMD_TABLE(ForwardBf16);

bool attention_forward_bf16(const ForwardCall& call) { return TESSERA_SIMD(ForwardBf16)(call); }

}  // namespace tessera::cpu::internal
#endif
