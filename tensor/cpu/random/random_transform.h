// From random words to numbers of a distribution, in SIMD. The results may differ by roundings between SIMD levels.
#pragma once

#include <cstdint>

namespace tessera::cpu::random_internal {

// Numbers in [0, 1): v[i] from the low `digits` bits (at most 24) of words[i]; from the low 53 bits of words 2 i (the
// high one) and 2 i + 1. The same bits at every SIMD level.
void unit_floats(const uint32_t* words, int64_t n, int digits, float* v);
void unit_doubles(const uint32_t* words, int64_t n, double* v);
// v[i] = words[i] % size + base.
void remainders(const uint32_t* words, int64_t n, uint32_t size, int64_t base, int64_t* v);
// words[i] %= count - i, where count < 2^31 and count - i > 0.
void falling_remainders(uint32_t* words, int64_t n, int32_t count);

// Whether all numbers are in [0, 1].
bool all_in_unit(const float* p, int64_t n);
bool all_in_unit(const double* p, int64_t n);
// v[i] = 1 where a number in [0, 1) is below p, else 0: of the 24 low bits of a word; of two words as in unit_doubles.
void bernoulli_numbers(const uint32_t* words, int64_t n, const float* p, float* v);
void bernoulli_numbers(const uint32_t* words, int64_t n, double p, float* v);

// Blocks of 16 uniform numbers into normal ones: numbers j and j + 8 of a block are a pair.
void box_muller_blocks(double* data, int64_t blocks, double mean, double std);
// Of u as in unit_doubles: scale log(1 - u), exponential numbers where scale is -1 / lambda; median + sigma tan(pi (u -
// 1/2)).
void exponential_numbers(const uint32_t* words, int64_t n, double scale, float* v);
void exponential_numbers(const uint32_t* words, int64_t n, double scale, double* v);
void cauchy_numbers(const uint32_t* words, int64_t n, double median, double sigma, float* v);
void cauchy_numbers(const uint32_t* words, int64_t n, double median, double sigma, double* v);

}  // namespace tessera::cpu::random_internal
