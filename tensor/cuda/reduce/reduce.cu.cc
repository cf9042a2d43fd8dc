// run_reduce: which reduction a kind is, and how the work of reductions is cut.
#include <algorithm>
#include <cmath>

#include "tensor/core/error.h"
#include "tensor/cuda/reduce/engines.h"
#include "tensor/cuda/reduce/reduce_engine.h"
#include "tensor/cuda/reduce/reduce_kinds.h"

namespace tessera::cuda {
namespace reduction {

namespace {
constexpr int64_t kManyThreads = int64_t{1} << 18;  // about what a device holds at a time
constexpr int64_t kMostPieces = 1024;
}  // namespace

Cut make_cut(int64_t outputs, int64_t reduced, bool columns) {
  const int64_t batches = std::max<int64_t>(1, (reduced + kBatch - 1) / kBatch);
  // Columns: at least 32 neighbouring outputs in a block, if there are so many.
  const int64_t most = columns ? kThreads / power_of_two(outputs, 32) : kThreads;
  int64_t group = power_of_two(batches, most);
  while (group > 1 && outputs * (group / 2) >= kManyThreads && batches / group < 4) group /= 2;
  Cut c{outputs, reduced, static_cast<int>(group), columns, 0, 1};
  const int64_t threads = static_cast<int64_t>(c.blocks().x) * kThreads;
  int64_t pieces = 1;
  if (threads * 4 <= kManyThreads)
    pieces = std::clamp<int64_t>(std::min(batches / (group * 4), kManyThreads / threads), 1, kMostPieces);
  const int64_t rounds = (batches + pieces * group - 1) / (pieces * group);
  c.piece = rounds * group * kBatch;
  c.pieces = static_cast<int>(std::max<int64_t>(1, (reduced + c.piece - 1) / c.piece));
  return c;
}

namespace {
bool norm(double p, DType dtype, const Problem& c) {
  if (p == 0) {
    if (is_integral(dtype, true)) return false;
    count(Count::kNumber, c);
    return true;
  }
  if (std::isinf(p)) return extreme_of_abs(p > 0, dtype, c);
  const Term term = p == 1 ? Term::kAbs : p == 2 ? Term::kSquare : Term::kPower;
  if (is_complex(dtype)) return sum_of_abs(term, Ending::kRoot, p, dtype, c);
  if (is_integral(dtype, true)) return false;
  // Powers are taken in float64, so that they neither overflow nor lose digits for float32.
  return sum(term, Ending::kRoot, p, term == Term::kPower ? DType::kFloat64 : dtype, c);
}

bool reduce(cpu::ReduceKind kind, DType dtype, const KernelParam* params, const Problem& c) {
  const bool complex = is_complex(dtype), integral = is_integral(dtype, true);
  switch (kind) {
    case cpu::ReduceKind::kSum:
      return complex ? sum_complex(false, dtype, c) : sum(Term::kPlain, Ending::kNone, 0, dtype, c);
    case cpu::ReduceKind::kNanSum:
      return sum(Term::kNoNan, Ending::kNone, 0, dtype, c);
    case cpu::ReduceKind::kMean:
      return complex ? sum_complex(true, dtype, c) : !integral && sum(Term::kPlain, Ending::kMean, 0, dtype, c);
    case cpu::ReduceKind::kSumSquares:
      return complex ? sum_of_abs(Term::kSquare, Ending::kNone, 0, dtype, c)
                     : !integral && sum(Term::kSquare, Ending::kNone, 0, dtype, c);
    case cpu::ReduceKind::kProd:
      return product(dtype, c);
    case cpu::ReduceKind::kMax:
    case cpu::ReduceKind::kMin:
      return extreme(kind == cpu::ReduceKind::kMax, dtype, c);
    case cpu::ReduceKind::kAll:
      count(Count::kAll, c);
      return true;
    case cpu::ReduceKind::kAny:
      count(Count::kAny, c);
      return true;
    case cpu::ReduceKind::kCountNonzero:
      count(Count::kNumber, c);
      return true;
    case cpu::ReduceKind::kNorm:
      return norm(params[0].f, dtype, c);
    case cpu::ReduceKind::kLogSumExp:
      return log_sum_exp(dtype, c);
  }
  return false;
}

const char* name_of_kind(cpu::ReduceKind kind) {
  static constexpr const char* kNames[] = {"sum_cuda",         "nansum_cuda",     "prod_cuda",          "mean_cuda",
                                           "max_values_cuda",  "min_values_cuda", "and_cuda",           "or_cuda",
                                           "sum_squares_cuda", "norm_cuda",       "count_nonzero_cuda", "logsumexp"};
  return kNames[static_cast<int>(kind)];
}
}  // namespace
}  // namespace reduction

void run_reduce(cpu::ReduceKind kind, DType compute, std::span<const int64_t> shape, uint64_t reduce_mask,
                const Operand& out, const Operand& in, const KernelParam* params) {
  using namespace reduction;
  const bool extreme = kind == cpu::ReduceKind::kMax || kind == cpu::ReduceKind::kMin;
  // Sums of bool are counts.
  if (kind == cpu::ReduceKind::kSum && in.dtype == DType::kBool && is_integral(compute, true))
    return count(Count::kNumber, Problem{shape, reduce_mask, out, in});
  const bool done =
      reduce(kind, cpu::accumulation_dtype(compute, extreme), params, Problem{shape, reduce_mask, out, in});
  TESSERA_CHECK_NOT_IMPLEMENTED(done, '"', name_of_kind(kind), "\" not implemented for '", type_name_of(compute), "'");
}

}  // namespace tessera::cuda
