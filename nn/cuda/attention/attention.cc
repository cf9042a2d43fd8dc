// Attention on a device: which kernels serve a shape.
#include <limits>
#include <optional>

#include "tensor/core/error.h"
#include "nn/cuda/attention/attention.h"
#include "tensor/cuda/libraries/blas.h"
#include "nn/cuda/attention/attention_engines.h"

namespace tessera::cuda {
namespace {

using attention::Arithmetic;
using attention::Job;
using cpu::AttentionMask;
using cpu::AttentionOperand;
using cpu::AttentionShape;

constexpr int64_t kMostTiled = 256;  // features
constexpr int64_t kMostPositions = std::numeric_limits<int>::max() / 4;

// Do all rows begin at multiples of 16 bytes?
bool has_vectors(const AttentionOperand& o, int64_t heads, int64_t positions, const AttentionShape& s) {
  const int64_t item = item_size(s.dtype);
  const auto fits = [&](int64_t stride, int64_t n) { return n <= 1 || stride * item % 16 == 0; };
  return reinterpret_cast<uintptr_t>(o.data) % 16 == 0 && fits(o.batch_stride, s.batch) && fits(o.head_stride, heads) &&
         fits(o.position_stride, positions);
}

// The arithmetic of the kernels with tiles; none for shapes and dtypes that they do not serve.
std::optional<Arithmetic> tiled(const AttentionShape& s) {
  if (s.dim > kMostTiled || s.value_dim > kMostTiled || s.queries > kMostPositions || s.keys > kMostPositions)
    return std::nullopt;
  switch (s.dtype) {
    case DType::kFloat16:
      return Arithmetic::kHalf;
    case DType::kBFloat16:
      return Arithmetic::kBFloat16;
    case DType::kFloat32:
      return blas_settings().allow_tf32 ? Arithmetic::kTf32 : Arithmetic::kFloat32;
    default:
      return std::nullopt;
  }
}

Job make_job(const AttentionShape& shape, const AttentionOperand& query, const AttentionOperand& key,
             const AttentionOperand& value, const AttentionMask& mask, const AttentionOperand& out) {
  TESSERA_CHECK(shape.kv_heads > 0 && shape.heads % shape.kv_heads == 0, "attention: ", shape.kv_heads,
                " heads of key and value do not divide ", shape.heads, " heads of query");
  Job job{};
  job.shape = shape;
  job.query = query;
  job.key = key;
  job.value = value;
  job.mask = mask;
  job.out = out;
  job.pack = 1;
  job.splits = 1;
  job.query_vectors = has_vectors(query, shape.heads, shape.queries, shape);
  job.key_vectors = has_vectors(key, shape.kv_heads, shape.keys, shape);
  job.value_vectors = has_vectors(value, shape.kv_heads, shape.keys, shape);
  return job;
}

void forward(Job job, void* logsumexp) {
  const AttentionShape& shape = job.shape;
  job.logsumexp = logsumexp;
  const std::optional<Arithmetic> arithmetic = tiled(shape);
  // A tile with one or two rows of float32 would be mostly idle: rows of warps read the keys as fast.
  const bool few = shape.dtype == DType::kFloat32 && shape.queries <= 2;
  if (arithmetic && !few && attention::tiled_forward(job, *arithmetic)) return;
  attention::rows_forward(job);
}

void backward(Job job, const void* logsumexp, const AttentionOperand& grad_out, const AttentionOperand& grad_query,
              const AttentionOperand& grad_key, const AttentionOperand& grad_value) {
  const AttentionShape& shape = job.shape;
  job.logsumexp = const_cast<void*>(logsumexp);
  job.grad_out = grad_out;
  job.grad_query = grad_query;
  job.grad_key = grad_key;
  job.grad_value = grad_value;
  job.grad_vectors = has_vectors(grad_out, shape.heads, shape.queries, shape);
  const Buffer delta(
      static_cast<size_t>(shape.batch * shape.heads * shape.queries * (shape.dtype == DType::kFloat64 ? 8 : 4)));
  job.delta = delta.get();
  attention::run_delta(job);
  if (const std::optional<Arithmetic> arithmetic = tiled(shape);
      arithmetic && attention::tiled_backward(job, *arithmetic))
    return;
  attention::rows_backward(job);
}

attention::Drop drop_of(double p, const uint64_t* words) { return {words, static_cast<float>(1 - p), 1 / (1 - p)}; }

}  // namespace

void attention_forward(const AttentionShape& shape, const AttentionOperand& query, const AttentionOperand& key,
                       const AttentionOperand& value, const AttentionMask& mask, const AttentionOperand& out,
                       void* logsumexp) {
  if (shape.batch == 0 || shape.heads == 0 || shape.queries == 0) return;
  forward(make_job(shape, query, key, value, mask, out), logsumexp);
}

void attention_backward(const AttentionShape& shape, const AttentionOperand& query, const AttentionOperand& key,
                        const AttentionOperand& value, const AttentionMask& mask, const AttentionOperand& out,
                        const void* logsumexp, const AttentionOperand& grad_out, const AttentionOperand& grad_query,
                        const AttentionOperand& grad_key, const AttentionOperand& grad_value) {
  if (shape.batch == 0 || shape.heads == 0) return;
  backward(make_job(shape, query, key, value, mask, out), logsumexp, grad_out, grad_query, grad_key, grad_value);
}

void attention_dropout_forward(const AttentionShape& shape, const AttentionOperand& query, const AttentionOperand& key,
                               const AttentionOperand& value, const AttentionMask& mask, double p, const Generator& gen,
                               const AttentionOperand& out, void* logsumexp, uint64_t* words) {
  attention::draw_words(gen, static_cast<uint64_t>(attention::ceil_div(shape.keys, 4)), words);
  if (shape.batch == 0 || shape.heads == 0 || shape.queries == 0) return;
  Job job = make_job(shape, query, key, value, mask, out);
  job.drop = drop_of(p, words);
  forward(job, logsumexp);
}

void attention_dropout_backward(const AttentionShape& shape, const AttentionOperand& query, const AttentionOperand& key,
                                const AttentionOperand& value, const AttentionMask& mask, double p,
                                const uint64_t* words, const AttentionOperand& out, const void* logsumexp,
                                const AttentionOperand& grad_out, const AttentionOperand& grad_query,
                                const AttentionOperand& grad_key, const AttentionOperand& grad_value) {
  if (shape.batch == 0 || shape.heads == 0) return;
  Job job = make_job(shape, query, key, value, mask, out);
  job.drop = drop_of(p, words);
  backward(job, logsumexp, grad_out, grad_query, grad_key, grad_value);
}

void attention_dropout_kept(const AttentionShape& shape, double p, const uint64_t* words, bool* kept) {
  Job job{};
  job.shape = shape;
  job.drop = drop_of(p, words);
  attention::write_kept(job, kept);
}

}  // namespace tessera::cuda
