// Running sums, products, extrema and logsumexp along a dimension.
//
// A group of threads walks along a line, each thread with eight neighbouring elements at a time. Where lines lie side
// by side, a group is one thread, so that neighbouring threads read neighbouring elements. Few long lines are cut into
// pieces: the totals of the pieces, a scan of the totals, then the pieces with what lies before them. How lines are cut
// depends on shape and strides alone.
#include <algorithm>
#include <cmath>
#include <limits>

#include "tensor/core/error.h"
#include "tensor/cpu/reduce/accumulate.h"
#include "tensor/cuda/support/block.h"
#include "tensor/cuda/reduce/engines.h"
#include "tensor/cuda/support/math.h"
#include "tensor/cuda/reduce/reduce_elements.h"
#include "tensor/cuda/reduce/reduce_engine.h"
#include "tensor/cuda/support/walk.h"

namespace tessera::cuda {
namespace {

using cpu::ScanKind;

// Operators: Value is what is read and written, Acc the running value. merge() commutes.
template <class V>
using RunningType = std::conditional_t<is_complex_type<V>, Complex<double>,
                                       std::conditional_t<std::is_floating_point_v<V>, double, uint64_t>>;
template <class V>
__device__ RunningType<V> widened(V x) {
  return as_value<RunningType<V>>(x);
}

template <class V>
struct RunningSum {
  using Value = V;
  using Acc = RunningType<V>;
  static constexpr bool kIndexed = false;
  __device__ Acc identity() const { return Acc(0); }
  __device__ Acc of(V x, int64_t) const { return widened(x); }
  __device__ Acc merge(const Acc& a, const Acc& b) const { return a + b; }
  __device__ V value(const Acc& a) const { return as_value<V>(a); }
};

template <class V>
struct RunningProduct {
  using Value = V;
  using Acc = RunningType<V>;
  static constexpr bool kIndexed = false;
  __device__ Acc identity() const { return Acc(1); }
  __device__ Acc of(V x, int64_t) const { return widened(x); }
  __device__ Acc merge(const Acc& a, const Acc& b) const {
    if constexpr (is_complex_type<V>)
      return math::mul(a, b);
    else
      return a * b;
  }
  __device__ V value(const Acc& a) const { return as_value<V>(a); }
};

__device__ __attribute__((noinline)) double log_add_exp(double a, double x) {
  if (a != a || x != x) return a + x;
  const double low = a < x ? a : x, high = a < x ? x : a;
  return low == high && math::is_inf(low) ? high : high + std::log1p(std::exp(low - high));
}
__device__ __attribute__((noinline)) Complex<double> log_add_exp(Complex<double> a, Complex<double> x) {
  if (a.real() < x.real()) {
    const Complex<double> b = a;
    a = x;
    x = b;
  }
  const double none = -std::numeric_limits<double>::infinity();
  if (a.real() == none || x.real() == none) return a;  // log(0 + 0), log(exp(a) + 0)
  return a + math::log(Complex<double>(1, 0) + math::exp(x - a));
}

template <class V>
struct RunningLogSumExp {
  using Value = V;
  using Acc = RunningType<V>;
  static constexpr bool kIndexed = false;
  __device__ Acc identity() const { return as_value<Acc>(-std::numeric_limits<double>::infinity()); }
  __device__ Acc of(V x, int64_t) const { return widened(x); }
  __device__ Acc merge(const Acc& a, const Acc& b) const { return log_add_exp(a, b); }
  __device__ V value(const Acc& a) const { return as_value<V>(a); }
};

// The index is that of the last of equal elements; a NaN wins over all that follows but NaN.
template <class V>
struct RunningExtreme {
  using Value = V;
  struct Acc {
    V value;
    int64_t at;  // negative: no element
  };
  static constexpr bool kIndexed = true;
  bool largest;

  __device__ Acc identity() const { return {V(0), -1}; }
  __device__ Acc of(V x, int64_t at) const { return {x, at}; }
  __device__ Acc merge(const Acc& a, const Acc& b) const {
    const bool nan_a = a.value != a.value, nan_b = b.value != b.value, equal = nan_a ? nan_b : a.value == b.value;
    const bool wins = nan_a != nan_b ? nan_a : equal ? a.at > b.at : (a.value > b.value) == largest;
    const bool first = b.at < 0 || (a.at >= 0 && wins);
    return {first ? a.value : b.value, first ? a.at : b.at};
  }
  __device__ V value(const Acc& a) const { return a.value; }
};

struct Lines {
  int64_t count, length;
  Line in, out, indices;  // indices.data may be null
  Walk<3> walk;           // where each line begins: in, out, indices
};
struct ScanCut {
  int group;      // threads of a line
  int threads;    // of a block
  int64_t piece;  // elements of one block's lines, a multiple of group * kBatch
  int pieces;
  int per_block() const { return threads / group; }
};

ScanCut make_scan_cut(int64_t lines, int64_t length, bool columns) {
  constexpr int64_t kManyThreads = int64_t{1} << 19, kMostPieces = 4096;
  using reduction::power_of_two;
  const int64_t batches = (length + kBatch - 1) / kBatch;
  ScanCut c;
  c.group = static_cast<int>(columns ? 1 : power_of_two(batches, kThreads));
  c.threads = static_cast<int>(std::max<int64_t>(32, power_of_two(lines * c.group, kThreads)));
  const int64_t threads = (lines + c.per_block() - 1) / c.per_block() * c.threads;
  int64_t pieces = 1;
  if (threads * 4 <= kManyThreads)
    pieces = std::clamp<int64_t>(std::min(batches / (c.group * 4), kManyThreads / threads), 1, kMostPieces);
  c.piece = (batches + pieces * c.group - 1) / (pieces * c.group) * c.group * kBatch;
  c.pieces = static_cast<int>((length + c.piece - 1) / c.piece);
  return c;
}

// before: the running value at the begin of each piece, [piece][line], or null. totals: if not null, each piece's total
// goes there, and nothing else is written.
template <class Op>
__global__ void __launch_bounds__(kThreads)
    scan_kernel(Op op, ScanCut cut, Lines lines, const void* before, void* totals) {
  using V = typename Op::Value;
  using Acc = typename Op::Acc;
  auto merge = [&](const Acc& a, const Acc& b) { return op.merge(a, b); };
  const int member = threadIdx.x & (cut.group - 1);
  const int64_t k = int64_t{blockIdx.x} * (blockDim.x / cut.group) + threadIdx.x / cut.group;
  const bool active = k < lines.count;
  const int64_t begin = blockIdx.y * cut.piece,
                end = begin + cut.piece < lines.length ? begin + cut.piece : lines.length;
  int64_t o[3] = {};
  if (active) lines.walk.offsets(k, o);
  Acc carry =
      active && before != nullptr ? static_cast<const Acc*>(before)[blockIdx.y * lines.count + k] : op.identity();
  for (int64_t tile = begin; tile < end; tile += int64_t{cut.group} * kBatch) {
    const int64_t i = tile + member * kBatch, n = active ? end - i : 0;
    V x[kBatch];
    lines.in.load<V>(o[0], i, n, V(0), x);
    Acc a[kBatch];
    for (int j = 0; j < kBatch; ++j) {
      const Acc v = j < n ? op.of(x[j], i + j) : op.identity();
      a[j] = j == 0 ? v : op.merge(a[j == 0 ? 0 : j - 1], v);
    }
    if (totals != nullptr) {
      carry = op.merge(carry, a[kBatch - 1]);
      continue;
    }
    Acc prefix = carry;
    if (cut.group == 1) {
      carry = op.merge(carry, a[kBatch - 1]);
    } else {
      const Scanned<Acc> s = group_scan(a[kBatch - 1], merge, op.identity(), cut.group);
      prefix = op.merge(carry, s.before);
      carry = op.merge(carry, s.total);
    }
    int64_t at[kBatch];
    for (int j = 0; j < kBatch; ++j) {
      const Acc v = op.merge(prefix, a[j]);
      x[j] = op.value(v);
      if constexpr (Op::kIndexed) at[j] = v.at;
    }
    lines.out.store<V>(o[1], i, n, x);
    if constexpr (Op::kIndexed) {
      if (lines.indices.data != nullptr) lines.indices.store<int64_t>(o[2], i, n, at);
    }
  }
  if (totals == nullptr) return;
  carry = group_reduce(carry, merge, cut.group);
  if (active && member == 0) static_cast<Acc*>(totals)[blockIdx.y * lines.count + k] = carry;
}

// A block for each line: totals of pieces to what lies before them, in place.
template <class Op>
__global__ void __launch_bounds__(kThreads) scan_totals_kernel(Op op, int64_t lines, int pieces, void* totals) {
  using Acc = typename Op::Acc;
  Acc* all = static_cast<Acc*>(totals) + blockIdx.x;
  Acc carry = op.identity();
  for (int base = 0; base < pieces; base += kThreads) {
    const int i = base + threadIdx.x;
    const Scanned<Acc> s = block_scan(
        i < pieces ? all[i * lines] : op.identity(), [&](const Acc& a, const Acc& b) { return op.merge(a, b); },
        op.identity());
    if (i < pieces) all[i * lines] = op.merge(carry, s.before);
    carry = op.merge(carry, s.total);
  }
}

template <class Op>
void scan_lines(const Op& op, const Lines& lines, bool columns) {
  const ScanCut cut = make_scan_cut(lines.count, lines.length, columns);
  const dim3 blocks(static_cast<unsigned>((lines.count + cut.per_block() - 1) / cut.per_block()),
                    static_cast<unsigned>(cut.pieces));
  if (cut.pieces == 1)
    return launch_blocks(scan_kernel<Op>, blocks, dim3(cut.threads), 0, op, cut, lines, nullptr, nullptr);
  const Buffer totals(cut.pieces * lines.count * sizeof(typename Op::Acc));
  launch_blocks(scan_kernel<Op>, blocks, dim3(cut.threads), 0, op, cut, lines, nullptr, totals.get());
  launch_blocks(scan_totals_kernel<Op>, dim3(static_cast<unsigned>(lines.count)), dim3(kThreads), 0, op, lines.count,
                cut.pieces, totals.get());
  launch_blocks(scan_kernel<Op>, blocks, dim3(cut.threads), 0, op, cut, lines, totals.get(), nullptr);
}

template <template <class> class Op>
bool run_numbers(DType load, const Lines& lines, bool columns) {
  switch (load) {
    case DType::kFloat32:
      scan_lines(Op<float>(), lines, columns);
      return true;
    case DType::kFloat64:
      scan_lines(Op<double>(), lines, columns);
      return true;
    case DType::kComplex64:
      scan_lines(Op<Complex<float>>(), lines, columns);
      return true;
    case DType::kComplex128:
      scan_lines(Op<Complex<double>>(), lines, columns);
      return true;
    default:
      return false;
  }
}
bool run_extreme(bool largest, DType load, const Lines& lines, bool columns) {
  switch (load) {
    case DType::kFloat32:
      scan_lines(RunningExtreme<float>{largest}, lines, columns);
      return true;
    case DType::kFloat64:
      scan_lines(RunningExtreme<double>{largest}, lines, columns);
      return true;
    case DType::kInt64:
      scan_lines(RunningExtreme<int64_t>{largest}, lines, columns);
      return true;
    case DType::kUInt64:
      scan_lines(RunningExtreme<uint64_t>{largest}, lines, columns);
      return true;
    default:
      return false;
  }
}
bool run(ScanKind kind, DType load, const Lines& lines, bool columns) {
  const bool integers = load == DType::kInt64;
  switch (kind) {
    case ScanKind::kCumSum:
      return integers ? (scan_lines(RunningSum<int64_t>(), lines, columns), true)
                      : run_numbers<RunningSum>(load, lines, columns);
    case ScanKind::kCumProd:
      return integers ? (scan_lines(RunningProduct<int64_t>(), lines, columns), true)
                      : run_numbers<RunningProduct>(load, lines, columns);
    case ScanKind::kLogCumSumExp:
      return run_numbers<RunningLogSumExp>(load, lines, columns);
    case ScanKind::kCumMax:
    case ScanKind::kCumMin:
      return run_extreme(kind == ScanKind::kCumMax, load, lines, columns);
  }
  return false;
}

DType load_dtype(ScanKind kind, DType compute) {
  return cpu::accumulation_dtype(compute, kind == ScanKind::kCumMax || kind == ScanKind::kCumMin);
}

}  // namespace

void run_scan(ScanKind kind, DType compute, std::span<const int64_t> shape, int dim, const Operand& out,
              const Operand& indices, const Operand& in) {
  const bool indexed = (kind == ScanKind::kCumMax || kind == ScanKind::kCumMin) && indices.data != nullptr;
  TESSERA_CHECK(shape.size() <= 64, "tensors of more than 64 dimensions are not supported");
  TESSERA_CHECK_NOT_IMPLEMENTED(has_type(in.dtype) && has_type(out.dtype), "scans of '", type_name_of(in.dtype),
                                "' are not supported on CUDA devices");
  const Operand* operands[3] = {&in, &out, indexed ? &indices : nullptr};
  int64_t sizes[64], strides[3][64] = {}, along[3] = {};
  size_t rank = 0;
  for (size_t d = 0; d < shape.size(); ++d) {
    const bool line = static_cast<int>(d) == dim;
    for (int k = 0; k < 3; ++k) (line ? along[k] : strides[k][rank]) = operands[k] ? operands[k]->strides[d] : 0;
    if (!line) sizes[rank++] = shape[d];
  }
  Lines lines;
  lines.length = shape.empty() ? 1 : shape[dim];
  lines.walk = make_walk<3>(std::span<const int64_t>(sizes, rank), {strides[0], strides[1], strides[2]}, false);
  lines.count = lines.walk.numel;
  lines.in = {static_cast<char*>(in.data), in.dtype, along[0]};
  lines.out = {static_cast<char*>(out.data), out.dtype, along[1]};
  lines.indices = {indexed ? static_cast<char*>(indices.data) : nullptr, DType::kInt64, along[2]};
  static constexpr const char* kNames[] = {"cumsum_cuda", "cumprod_cuda", "cummax_cuda", "cummin_cuda",
                                           "logcumsumexp_cuda"};
  const bool columns = lines.walk.rank > 0 && reduction::reach(lines.walk.strides[0][0]) < reduction::reach(along[0]);
  const bool done = lines.length == 0 || lines.count == 0 || run(kind, load_dtype(kind, compute), lines, columns);
  TESSERA_CHECK_NOT_IMPLEMENTED(done, '"', kNames[static_cast<int>(kind)], "\" not implemented for '",
                                type_name_of(compute), "'");
}

}  // namespace tessera::cuda
