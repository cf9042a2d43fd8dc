// The parts of run_reduce and run_var_mean, by kind of accumulator; each is compiled in a file of its own. dtype: of
// the arithmetic, after cpu::accumulation_dtype().
#pragma once

#include <cstdint>
#include <span>

#include "tensor/core/dtype.h"
#include "tensor/cpu/reduce/accumulate.h"
#include "tensor/cpu/reduce/reduce.h"

namespace tessera::cuda::reduction {

// A reduction of one tensor to one.
struct Problem {
  std::span<const int64_t> shape;
  uint64_t mask;
  cpu::Operand out, in;
};

// What is summed: x, x but 0 for NaN, |x|, |x|^2, |x|^p. |x| of complex numbers too.
enum class Term : uint8_t { kPlain, kNoNan, kAbs, kSquare, kPower };
// What becomes of the sum: it is the result, the mean, the p-th root.
enum class Ending : uint8_t { kNone, kMean, kRoot };

// Each returns false if there is no such reduction of the dtype.
bool sum(Term term, Ending ending, double p, DType dtype, const Problem& problem);  // real and integer dtypes
bool sum_complex(bool mean, DType dtype, const Problem& problem);
bool sum_of_abs(Term term, Ending ending, double p, DType dtype,
                const Problem& problem);  // of complex numbers; dtype: complex
bool product(DType dtype, const Problem& problem);
bool extreme(bool largest, DType dtype, const Problem& problem);
bool extreme_of_abs(bool largest, DType dtype, const Problem& problem);  // norms: 0 where nothing is reduced
bool log_sum_exp(DType dtype, const Problem& problem);

enum class Count : uint8_t { kAny, kAll, kNumber };
void count(Count what, const Problem& problem);

}  // namespace tessera::cuda::reduction
