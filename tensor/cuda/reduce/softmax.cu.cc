// softmax and log_softmax, forward and backward.
//
// Lines of up to some thousand elements are read once: a group of threads holds a line in registers, eight elements a
// thread. Where lines lie side by side, neighbouring threads have neighbouring lines. Longer lines: their maximum and
// sum by the reduction engine, then one more pass.
#include <algorithm>
#include <cmath>
#include <limits>

#include "tensor/core/error.h"
#include "tensor/cuda/support/block.h"
#include "tensor/cuda/reduce/engines.h"
#include "tensor/cuda/reduce/reduce_elements.h"
#include "tensor/cuda/reduce/reduce_engine.h"
#include "tensor/cuda/reduce/reduce_input.h"
#include "tensor/cuda/reduce/reduce_log_sum_exp.h"
#include "tensor/cuda/reduce/reduce_sum.h"
#include "tensor/cuda/support/walk.h"

namespace tessera::cuda {
namespace {

constexpr int kMostThreads = 1024;

// Forward: 0 is the input. Backward: 0 is the gradient of the output, 1 the output. 2: the result.
struct Lines {
  int64_t count, length;
  Line operands[3];
  Walk<4> walk;  // where each line begins, and its place in an array of lines in the order of the tensor's dimensions
  bool columns;  // neighbouring lines are closer than the elements of a line
  bool log;
};

// x to the result, given the line's maximum and 1 / sum(exp(x - max)) or, for log_softmax, the log of that sum. A
// maximum that is not finite makes the line NaN.
template <class V>
__device__ void normalise(V (&x)[kBatch], V max, V scale, bool log) {
  for (int j = 0; j < kBatch; ++j) x[j] = log ? (x[j] - max) - scale : std::exp(x[j] - max) * scale;
}
// g to the gradient of the input, given the result y and sum(g * y) or, for log_softmax, sum(g).
template <class V>
__device__ void differentiate(V (&g)[kBatch], const V (&y)[kBatch], V sum, bool log) {
  for (int j = 0; j < kBatch; ++j) g[j] = log ? g[j] - std::exp(y[j]) * sum : y[j] * (g[j] - sum);
}
template <class V, class F>
__device__ V of_eight(const V (&x)[kBatch], F f) {
  return f(f(f(x[0], x[1]), f(x[2], x[3])), f(f(x[4], x[5]), f(x[6], x[7])));
}

// The values of a line's threads combined, for each of them. Columns: thread t has member t / between.
template <class V, class F>
__device__ V combine(V v, F f, int group, bool columns) {
  if (!columns) return group_reduce(v, f, group);
  if (group == 1) return v;
  alignas(16) __shared__ unsigned char scratch[kMostThreads * sizeof(V)];
  V* all = reinterpret_cast<V*>(scratch);
  const int t = threadIdx.x, between = blockDim.x / group, member = t / between;
  __syncthreads();  // an earlier call may still be reading
  all[t] = v;
  __syncthreads();
  for (int d = 1; d < group; d *= 2) {
    if ((member & (2 * d - 1)) == 0) all[t] = f(all[t], all[t + d * between]);
    __syncthreads();
  }
  return all[t % between];
}

// A thread holds kPer batches of its line, `group` batches apart.
template <class V, int kPer>
__global__ void __launch_bounds__(kMostThreads / kPer, kPer) softmax_kernel(Lines lines, int group, bool backward) {
  const int t = threadIdx.x, per_block = blockDim.x / group;
  const int member = lines.columns ? t / per_block : t & (group - 1);
  const int64_t k = int64_t{blockIdx.x} * per_block + (lines.columns ? t & (per_block - 1) : t / group);
  const bool active = k < lines.count;
  int64_t o[4] = {};
  if (active) lines.walk.offsets(k, o);
  auto first = [&](int b) { return int64_t{member + b * group} * kBatch; };
  auto left = [&](int b) { return active ? lines.length - first(b) : 0; };
  auto plus = [](V a, V b) { return a + b; };
  V x[kPer][kBatch];
  if (backward) {
    V y[kPer][kBatch], sum = 0;
#pragma unroll
    for (int b = 0; b < kPer; ++b) {
      lines.operands[0].load<V>(o[0], first(b), left(b), V(0), x[b]);
      lines.operands[1].load<V>(o[1], first(b), left(b), V(0), y[b]);
    }
#pragma unroll
    for (int b = 0; b < kPer; ++b) {
      V products[kBatch];
      for (int j = 0; j < kBatch; ++j) products[j] = lines.log ? x[b][j] : x[b][j] * y[b][j];
      sum += of_eight(products, plus);
    }
    sum = combine(sum, plus, group, lines.columns);
#pragma unroll
    for (int b = 0; b < kPer; ++b) differentiate(x[b], y[b], sum, lines.log);
  } else {
    auto larger = [](V a, V b) { return a >= b || a != a ? a : b; };
    V max = -std::numeric_limits<V>::infinity(), sum = 0;
#pragma unroll
    for (int b = 0; b < kPer; ++b)
      lines.operands[0].load<V>(o[0], first(b), left(b), -std::numeric_limits<V>::infinity(), x[b]);
#pragma unroll
    for (int b = 0; b < kPer; ++b) max = larger(max, of_eight(x[b], larger));
    max = combine(max, larger, group, lines.columns);
#pragma unroll
    for (int b = 0; b < kPer; ++b) {
      V e[kBatch];
      for (int j = 0; j < kBatch; ++j) {
        e[j] = std::exp(x[b][j] - max);
        x[b][j] = lines.log ? x[b][j] - max : e[j];
      }
      sum += of_eight(e, plus);
    }
    sum = combine(sum, plus, group, lines.columns);
    const V shift = lines.log ? std::log(sum) : V(0), scale = lines.log ? V(1) : 1 / sum;
#pragma unroll
    for (int b = 0; b < kPer; ++b) {
      for (int j = 0; j < kBatch; ++j) x[b][j] = (x[b][j] - shift) * scale;
    }
  }
#pragma unroll
  for (int b = 0; b < kPer; ++b) lines.operands[2].store<V>(o[2], first(b), left(b), x[b]);
}

// A thread has one batch of a line. first, second: for each line its maximum and scale (forward), its sum (backward).
template <class V>
__global__ void __launch_bounds__(kThreads) apply_kernel(Lines lines, bool backward, const V* first, const V* second) {
  const int64_t batches = (lines.length + kBatch - 1) / kBatch, all = batches * lines.count,
                step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t w = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; w < all; w += step) {
    const int64_t across = lines.columns ? lines.count : batches, q = w / across, r = w - q * across;
    const int64_t k = lines.columns ? r : q, i = (lines.columns ? q : r) * kBatch, n = lines.length - i;
    int64_t o[4];
    lines.walk.offsets(k, o);
    V x[kBatch];
    lines.operands[0].load<V>(o[0], i, n, V(0), x);
    if (backward) {
      V y[kBatch];
      lines.operands[1].load<V>(o[1], i, n, V(0), y);
      differentiate(x, y, first[o[3]], lines.log);
    } else {
      normalise(x, first[o[3]], second[o[3]], lines.log);
    }
    lines.operands[2].store<V>(o[2], i, n, x);
  }
}

struct Problem {
  bool log;
  std::span<const int64_t> shape;
  int dim;
  Operand result;
  Operand in, y;  // backward: in is the gradient of y; forward: y is the input too
  bool backward;
};

Lines make_lines(const Problem& p, int64_t (&places)[64]) {
  TESSERA_CHECK(p.shape.size() <= 64, "tensors of more than 64 dimensions are not supported");
  const Operand* operands[3] = {&p.in, &p.y, &p.result};
  int64_t sizes[64], strides[4][64] = {}, count = 1;
  Lines l{};
  l.length = p.shape.empty() ? 1 : p.shape[p.dim];
  l.log = p.log;
  for (int k = 0; k < 3; ++k)
    l.operands[k] = {static_cast<char*>(operands[k]->data), operands[k]->dtype,
                     p.shape.empty() ? 0 : operands[k]->strides[p.dim]};
  for (size_t d = p.shape.size(); d-- > 0;) {
    places[d] = static_cast<int>(d) == p.dim ? 0 : count;
    if (static_cast<int>(d) != p.dim) count *= p.shape[d];
  }
  size_t rank = 0;
  for (size_t d = 0; d < p.shape.size(); ++d) {
    if (static_cast<int>(d) == p.dim) continue;
    sizes[rank] = p.shape[d];
    for (int k = 0; k < 3; ++k) strides[k][rank] = operands[k]->strides[d];
    strides[3][rank++] = places[d];
  }
  l.walk = make_walk<4>(std::span<const int64_t>(sizes, rank), {strides[0], strides[1], strides[2], strides[3]}, false);
  l.count = l.walk.numel;
  l.columns = l.walk.rank > 0 && reduction::reach(l.walk.strides[0][0]) < reduction::reach(l.operands[0].stride);
  return l;
}

template <class V>
void run_long(const Problem& p, const Lines& lines, int64_t (&places)[64]) {
  const DType dtype = sizeof(V) == 4 ? DType::kFloat32 : DType::kFloat64;
  const Buffer buffer(2 * lines.count * sizeof(V));
  V *first = buffer.as<V>(), *second = first + lines.count;
  for (int64_t& s : places) s *= sizeof(V);
  const Operand outs[2] = {{first, dtype, places}, {second, dtype, places}};
  const uint64_t mask = uint64_t{1} << p.dim;
  if (!p.backward) {
    using reduction::LogSumExpResult;
    reduction::run(reduction::LogSumExp<V>{p.log ? LogSumExpResult::kLog : LogSumExpResult::kScale}, p.shape, mask,
                   p.in, outs[0], outs[1]);
  } else {
    const reduction::ProductInput<V> in{static_cast<const char*>(p.in.data), static_cast<const char*>(p.y.data),
                                        p.in.dtype, p.y.dtype, p.log};
    reduction::run(reduction::Sum<V, true>{reduction::Term::kPlain, reduction::Ending::kNone, 0}, in, p.shape, mask,
                   {p.in, p.y}, {outs[0], reduction::kNoResult});
  }
  launch(apply_kernel<V>, blocks_for(lines.count * ((lines.length + kBatch - 1) / kBatch)), dim3(kThreads), lines,
         p.backward, first, second);
}

template <class V>
void run(const Problem& p) {
  int64_t places[64] = {};
  const Lines lines = make_lines(p, places);
  if (lines.count == 0 || lines.length == 0) return;
  using reduction::power_of_two;
  const int64_t batches = (lines.length + kBatch - 1) / kBatch;
  // Columns: at least 32 neighbouring lines in a block, if there are so many. Long rows: two batches a thread, so that
  // two blocks of them share a multiprocessor.
  const int64_t side_by_side = lines.columns ? power_of_two(lines.count, 32) : 1;
  const int per = sizeof(V) == 4 && !lines.columns && batches > kMostThreads / 4 ? 2 : 1;
  const int64_t group = power_of_two((batches + per - 1) / per, kMostThreads / per / side_by_side);
  if (group * per < batches) return run_long<V>(p, lines, places);
  const int64_t threads = std::max<int64_t>(kThreads, group * side_by_side), per_block = threads / group;
  const dim3 blocks(static_cast<unsigned>((lines.count + per_block - 1) / per_block)),
      of_block(static_cast<unsigned>(threads));
  if constexpr (sizeof(V) == 4) {
    if (per == 2)
      return launch_blocks(softmax_kernel<V, 2>, blocks, of_block, 0, lines, static_cast<int>(group), p.backward);
  }
  launch_blocks(softmax_kernel<V, 1>, blocks, of_block, 0, lines, static_cast<int>(group), p.backward);
}

// float32 arithmetic for the reduced floats.
void run_any(const char* name, DType t, const Problem& p) {
  TESSERA_CHECK_NOT_IMPLEMENTED(is_floating_point(t) && !is_float8(t), '"', name, "\" not implemented for '",
                                type_name_of(t), "'");
  if (t == DType::kFloat64)
    run<double>(p);
  else
    run<float>(p);
}

}  // namespace

void run_softmax(bool log, std::span<const int64_t> shape, int dim, const Operand& out, const Operand& in) {
  const DType t = in.dtype == DType::kFloat64 || !is_floating_point(in.dtype) ? in.dtype : out.dtype;
  run_any(log ? "log_softmax_cuda" : "softmax_cuda", t, Problem{log, shape, dim, out, in, in, false});
}

void run_softmax_backward(bool log, std::span<const int64_t> shape, int dim, const Operand& grad_in,
                          const Operand& grad, const Operand& out) {
  run_any(log ? "log_softmax_backward_cuda" : "softmax_backward_cuda", out.dtype,
          Problem{log, shape, dim, grad_in, grad, out, true});
}

}  // namespace tessera::cuda
