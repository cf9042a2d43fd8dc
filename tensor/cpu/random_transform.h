// Transforms of uniform numbers of double precision, in SIMD. The results may differ by roundings between SIMD levels.
#pragma once

#include <cstdint>

namespace tessera::cpu::random_internal {

// Blocks of 16 uniform numbers into normal ones: numbers j and j + 8 of a block are a pair.
void box_muller_blocks(double* data, int64_t blocks, double mean, double std);
// v = scale log(1 - v): exponential numbers where scale is -1 / lambda.
void exponential_numbers(double* v, int64_t n, double scale);
// v = median + sigma tan(pi (v - 1/2)).
void cauchy_numbers(double* v, int64_t n, double median, double sigma);

}  // namespace tessera::cpu::random_internal
