#include "tensor/cpu/attention.h"

#include <cmath>
#include <limits>
#include <type_traits>

#include "tensor/core/half.h"
#include "tensor/core/parallel.h"
#include "tensor/cpu/attention_internal.h"
#include "tensor/cpu/scratch.h"

namespace tessera::cpu {
namespace {

using internal::ScratchArray;

template <class T> T* row(const AttentionOperand& x, int64_t b, int64_t h, int64_t i) { return static_cast<T*>(x.data) + b * x.batch_stride + h * x.head_stride + i * x.position_stride; }

// What the mask adds to a score.
template <class T, class S>
S mask_at(const AttentionMask& m, int64_t b, int64_t h, int64_t i, int64_t j) {
  const int64_t at = b * m.batch_stride + h * m.head_stride + i * m.query_stride + j * m.key_stride;
  if (m.dtype == DType::kBool) return static_cast<const uint8_t*>(m.data)[at] ? S{0} : -std::numeric_limits<S>::infinity();
  if (m.dtype == DType::kFloat32) return static_cast<S>(static_cast<const float*>(m.data)[at]);
  return static_cast<S>(static_cast<const T*>(m.data)[at]);
}

template <class T, class S>
void scores_of(const AttentionShape& s, const AttentionOperand& query, const AttentionOperand& key, const AttentionMask& mask, int64_t b, int64_t h, int64_t i, S* scores) {
  const T* q = row<T>(query, b, h, i);
  for (int64_t j = 0; j < s.keys; ++j) {
    const T* k = row<T>(key, b, h / (s.heads / s.kv_heads), j);
    S sum = 0;
    for (int64_t p = 0; p < s.dim; ++p) sum += static_cast<S>(q[p]) * static_cast<S>(k[p]);
    sum *= static_cast<S>(s.scale);
    if (mask.data) sum += mask_at<T, S>(mask, b, h, i, j);
    scores[j] = s.causal && j > i ? -std::numeric_limits<S>::infinity() : sum;
  }
}

template <class T, class S>
void backward(const AttentionShape& s, const AttentionOperand& query, const AttentionOperand& key, const AttentionOperand& value, const AttentionMask& mask, const AttentionOperand& out,
              const S* logsumexp, const AttentionOperand& grad_out, const AttentionOperand& grad_query, const AttentionOperand& grad_key, const AttentionOperand& grad_value) {
  const int64_t group = s.heads / s.kv_heads;
  parallel_for(s.batch * s.kv_heads, 1, [&](int64_t begin, int64_t end) {
    ScratchArray<S> scores(s.keys), dk(s.keys * s.dim), dv(s.keys * s.value_dim), dq(s.dim);
    for (int64_t at = begin; at < end; ++at) {
      const int64_t b = at / s.kv_heads, kv = at % s.kv_heads;
      for (int64_t j = 0; j < s.keys * s.dim; ++j) dk[j] = 0;
      for (int64_t j = 0; j < s.keys * s.value_dim; ++j) dv[j] = 0;
      for (int64_t h = kv * group; h < (kv + 1) * group; ++h)
        for (int64_t i = 0; i < s.queries; ++i) {
          scores_of<T, S>(s, query, key, mask, b, h, i, scores.get());
          const S lse = logsumexp[(b * s.heads + h) * s.queries + i];
          const T *q = row<T>(query, b, h, i), *o = row<T>(out, b, h, i), *g = row<T>(grad_out, b, h, i);
          S delta = 0;
          for (int64_t p = 0; p < s.value_dim; ++p) delta += static_cast<S>(g[p]) * static_cast<S>(o[p]);
          for (int64_t p = 0; p < s.dim; ++p) dq[p] = 0;
          for (int64_t j = 0; j < s.keys; ++j) {
            if (scores[j] == -std::numeric_limits<S>::infinity()) continue;
            const S w = std::exp(scores[j] - lse);
            const T *k = row<T>(key, b, kv, j), *v = row<T>(value, b, kv, j);
            S dp = 0;
            for (int64_t p = 0; p < s.value_dim; ++p) {
              dp += static_cast<S>(g[p]) * static_cast<S>(v[p]);
              dv[j * s.value_dim + p] += w * static_cast<S>(g[p]);
            }
            const S ds = w * (dp - delta) * static_cast<S>(s.scale);
            for (int64_t p = 0; p < s.dim; ++p) {
              dq[p] += ds * static_cast<S>(k[p]);
              dk[j * s.dim + p] += ds * static_cast<S>(q[p]);
            }
          }
          for (int64_t p = 0; p < s.dim; ++p) row<T>(grad_query, b, h, i)[p] = static_cast<T>(dq[p]);
        }
      for (int64_t j = 0; j < s.keys; ++j) {
        for (int64_t p = 0; p < s.dim; ++p) row<T>(grad_key, b, kv, j)[p] = static_cast<T>(dk[j * s.dim + p]);
        for (int64_t p = 0; p < s.value_dim; ++p) row<T>(grad_value, b, kv, j)[p] = static_cast<T>(dv[j * s.value_dim + p]);
      }
    }
  });
}

template <class F>
void by_dtype(DType t, F&& f) {
  switch (t) {
    case DType::kFloat64: return f(double{}, double{});
    case DType::kFloat16: return f(Half{}, float{});
    case DType::kBFloat16: return f(BFloat16{}, float{});
    default: return f(float{}, float{});
  }
}

}  // namespace

void attention_forward(const AttentionShape& shape, const AttentionOperand& query, const AttentionOperand& key, const AttentionOperand& value, const AttentionMask& mask,
                       const AttentionOperand& out, void* logsumexp) {
  if (shape.batch == 0 || shape.heads == 0 || shape.queries == 0) return;
  const internal::ForwardCall call{shape, query, key, value, out, mask, logsumexp};
  shape.dtype == DType::kFloat64 ? internal::attention_forward_f64(call) : internal::attention_forward_f32(call);
}

void attention_backward(const AttentionShape& shape, const AttentionOperand& query, const AttentionOperand& key, const AttentionOperand& value, const AttentionMask& mask,
                        const AttentionOperand& out, const void* logsumexp, const AttentionOperand& grad_out, const AttentionOperand& grad_query, const AttentionOperand& grad_key,
                        const AttentionOperand& grad_value) {
  by_dtype(shape.dtype, [&](auto t, auto s) {
    backward<decltype(t), decltype(s)>(shape, query, key, value, mask, out, static_cast<const decltype(s)*>(logsumexp), grad_out, grad_query, grad_key, grad_value);
  });
}

}  // namespace tessera::cpu
