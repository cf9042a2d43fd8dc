// Samplers on raw memory: the numbers of PyTorch's CPU generator, for every dtype and size.
//
// A tensor is given as in pointwise.h: a shape and an operand with byte strides. A sampler that takes its numbers one
// after another walks the elements in memory order (the dimension with the smallest stride is the innermost), which is
// row-major order only for a row-major tensor; so a transposed tensor receives the same numbers at the same addresses
// as its untransposed self. Elements must not overlap.
//
// Each call locks the generator once. Arguments are checked here, before anything is drawn or written, with the
// documented messages. Dtypes that a distribution does not exist for: NotImplementedError or Error, as documented.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "tensor/core/dtype.h"
#include "tensor/core/generator/generator.h"
#include "tensor/cpu/support/operand.h"

namespace tessera::cpu {

using Shape = std::span<const int64_t>;

// [from, to): float16/bfloat16/float32/float64. One 32-bit number an element (two for float64).
void random_uniform(Shape shape, const Operand& out, double from, double to, const Generator& gen);

// mean + std N(0, 1); std >= 0. Sixteen or more contiguous elements are made sixteen at a time from uniform numbers of
// their own dtype; fewer, or strided ones, singly in double precision, where the second of each pair waits in the
// generator for the next call.
void random_normal(Shape shape, const Operand& out, double mean, double std, const Generator& gen);
// exp of a normal number.
void random_log_normal(Shape shape, const Operand& out, double mean, double std, const Generator& gen);

// 0 or 1, for all dtypes but complex ones: 1 with probability p. 64 random bits an element.
void random_bernoulli(Shape shape, const Operand& out, double p, const Generator& gen);
// The same with a floating tensor of probabilities, broadcast to shape through 0 strides; 64 random bits an element
// where it is float64, else 32.
void random_bernoulli_tensor(Shape shape, const Operand& out, const Operand& p, const Generator& gen);

void random_exponential(Shape shape, const Operand& out, double lambda, const Generator& gen);
void random_cauchy(Shape shape, const Operand& out, double median, double sigma, const Generator& gen);
// Number of trials up to the first success, 1, 2 ...; integer and floating dtypes.
void random_geometric(Shape shape, const Operand& out, double p, const Generator& gen);

// random_(): every value of an integer dtype that is not negative; 0 .. 2^digits for floating ones.
void random_full(Shape shape, const Operand& out, const Generator& gen);
// What random_(from, to) draws from: [from, to), where no `to` means up to the largest value (inclusive). random_(to)
// is (0, to), and so is randint.
struct RandomRange {
  uint64_t size;        // number of values, 0 for all 2^64
  int64_t base;         // the smallest one
  std::string warning;  // not empty: to be given to the user (before the draw), because the floating dtype cannot
                        // represent a bound
};
// Checks the bounds for the dtype and throws the documented errors.
RandomRange random_range(DType t, int64_t from, std::optional<int64_t> to);
void random_integers(Shape shape, const Operand& out, const RandomRange& range, const Generator& gen);

// A random permutation of 0 .. n-1, `out` being one-dimensional.
void random_permutation(int64_t n, const Operand& out, const Generator& gen);

// n_sample indices (out: int64, [rows, n_sample]) for each row of weights (floating, [rows, categories]), with both
// strides given. Weights must be finite, not negative, and not all 0.
void random_multinomial(int64_t rows, int64_t categories, const Operand& weights, int64_t n_sample, bool replacement,
                        const Operand& out, const Generator& gen);

// Poisson numbers of the given rates (same dtype as out, floating).
void random_poisson(Shape shape, const Operand& out, const Operand& rate, const Generator& gen);
// Gamma numbers of the given concentrations and rate 1 (float32 or float64, same dtype as out), at least the smallest
// normal number.
void random_gamma(Shape shape, const Operand& out, const Operand& concentration, const Generator& gen);
// Binomial numbers (float32 or float64; count and probability of the same dtype as out).
void random_binomial(Shape shape, const Operand& out, const Operand& count, const Operand& probability,
                     const Generator& gen);

}  // namespace tessera::cpu
