// Transforms of uniform numbers of double precision, in SIMD. The results may differ by roundings between SIMD levels.
#pragma once

#include <cstdint>

namespace tessera::cpu::random_internal {

// Numbers in [0, 1): v[i] from the low `digits` bits (at most 24) of words[i]; from the low 53 bits of words 2 i (the high one) and 2 i + 1. The same bits at every SIMD level.
void unit_floats(const uint32_t* words, int64_t n, int digits, float* v);
void unit_doubles(const uint32_t* words, int64_t n, double* v);
// v[i] = words[i] % size + base.
void remainders(const uint32_t* words, int64_t n, uint32_t size, int64_t base, int64_t* v);

// Blocks of 16 uniform numbers into normal ones: numbers j and j + 8 of a block are a pair.
void box_muller_blocks(double* data, int64_t blocks, double mean, double std);
// v = scale log(1 - v): exponential numbers where scale is -1 / lambda.
void exponential_numbers(double* v, int64_t n, double scale);
// v = median + sigma tan(pi (v - 1/2)).
void cauchy_numbers(double* v, int64_t n, double median, double sigma);

}  // namespace tessera::cpu::random_internal
