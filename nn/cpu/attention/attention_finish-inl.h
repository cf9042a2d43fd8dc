// The end of a panel of attention's forward, for one SIMD target and one type of the arithmetic.
#if defined(TENSOR_CPU_ATTENTION_FINISH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TENSOR_CPU_ATTENTION_FINISH_INL_H_
#undef TENSOR_CPU_ATTENTION_FINISH_INL_H_
#else
#define TENSOR_CPU_ATTENTION_FINISH_INL_H_
#endif

#include "hwy/highway.h"
#include "nn/cpu/attention/attention_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::internal {
namespace HWY_NAMESPACE {
namespace {

// Results and logsumexp of queries [query, query + rows) from sums of exponentials, greatest scores and sums of values
// (value_dim rows of the panel's width). room: rows x value_dim.
template <int kVecs>
HWY_NOINLINE void FinishQueries(const ForwardCall& call, int64_t batch, int64_t head, int64_t query, int64_t rows,
                                const T* sums, const T* greatest, const T* result, T* room) {
  constexpr int64_t kWidth = kVecs * kLanes;
  const AttentionShape& s = call.shape;
  const int64_t item = item_size(s.dtype);
  HWY_ALIGN T logs[kWidth], factors[kWidth];
  for (int64_t v = 0; v < kWidth; v += kLanes) {
    const V sum = hn::LoadU(d, sums + v);
    hn::StoreU(hn::IfThenZeroElse(hn::Eq(sum, hn::Zero(d)), hn::Div(hn::Set(d, T{1}), sum)), d, factors + v);
    if (call.logsumexp != nullptr)
      hn::StoreU(hn::MulAdd(hn::LoadU(d, greatest + v), hn::Set(d, static_cast<T>(kLn2)), hn::Log(d, sum)), d,
                 logs + v);
  }
  if (call.logsumexp != nullptr) {
    T* const to = static_cast<T*>(call.logsumexp) + (batch * s.heads + head) * s.queries + query;
    for (int64_t i = 0; i < rows; ++i) to[i] = sums[i] == T{0} ? -kInfinity : logs[i];
  }
  const Rows out = head_of(call.out, batch, head, item);
  char* const to = const_cast<char*>(out.data) + query * out.stride * item;
  if (item == sizeof(T))
    return FromPanel<kVecs>(result, rows, s.value_dim, factors, reinterpret_cast<T*>(to), out.stride);
  FromPanel<kVecs>(result, rows, s.value_dim, factors, room, s.value_dim);
  for (int64_t i = 0; i < rows; ++i) Narrow(s.dtype, room + i * s.value_dim, s.value_dim, to + i * out.stride * item);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu::internal
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
