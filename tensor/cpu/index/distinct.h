// Counting integers, and finding the distinct ones.
#pragma once

#include <cstdint>
#include <vector>

namespace tessera::cpu {

// How often 0, 1, 2, ... occur, up to the greatest of the n numbers. Throws Error with this message for a negative one.
std::vector<int64_t> count_integers(const int64_t* x, int64_t n, const char* if_negative);
std::vector<int64_t> count_bytes(const uint8_t* x, int64_t n);

// The distinct numbers among n > 0, ascending; if asked, the place of each x[i] among them (inverse, n elements) and
// how often each occurs. Works through a table of all numbers from the least to the greatest: false, and nothing done,
// if that would be far larger than n.
struct Distinct {
  std::vector<int64_t> values, counts;
};
bool distinct_integers(const int64_t* x, int64_t n, int64_t* inverse, bool want_counts, Distinct& result);

}  // namespace tessera::cpu
