#include "tensor/cpu/functions/statistics.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <numeric>
#include <type_traits>
#include <vector>

#include "tensor/core/visit.h"

namespace tessera::cpu {
namespace {

// A number that is less for a lesser x, as unsigned integers are compared; zeros are one, NaNs come last and are one.
template <class T>
auto place_of(T x) {
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
    return place_of(static_cast<float>(x));
  } else if constexpr (std::is_floating_point_v<T>) {
    using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
    constexpr Bits kSign = Bits{1} << (8 * sizeof(T) - 1);
    if (x != x) return ~Bits{0};
    const auto bits = std::bit_cast<Bits>(x == 0 ? T{0} : x);
    return bits & kSign ? static_cast<Bits>(~bits) : static_cast<Bits>(bits | kSign);
  } else if constexpr (std::is_same_v<T, bool>) {
    return static_cast<uint8_t>(x);
  } else {
    using Bits = std::make_unsigned_t<T>;
    return static_cast<Bits>(static_cast<Bits>(x) ^ static_cast<Bits>(std::numeric_limits<T>::min()));
  }
}

void put_largest_byte_first(uint8_t* to, uint64_t number, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) to[i] = static_cast<uint8_t>(number >> (8 * (bytes - 1 - i)));
}

// The bin of x, or -1.
int64_t even_bin(const HistogramBins& bins, double x) {
  if (!(x >= bins.low && x <= bins.high)) return -1;
  return std::min(static_cast<int64_t>((x - bins.low) / (bins.high - bins.low) * static_cast<double>(bins.count)),
                  bins.count - 1);
}
int64_t bin_between(const HistogramBins& bins, double x) {
  const double *first = bins.edges, *last = first + bins.count + 1;
  if (!(x >= *first && x <= last[-1])) return -1;
  // Edges are often even: then the bin is known without a search.
  const double place = (x - *first) / (last[-1] - *first) * static_cast<double>(bins.count);
  const int64_t guess = place >= 0 && place < static_cast<double>(bins.count) ? static_cast<int64_t>(place) : 0;
  if (first[guess] <= x && x < first[guess + 1]) return guess;
  return std::min<int64_t>(std::upper_bound(first, last, x) - first - 1, bins.count - 1);
}

}  // namespace

void run_histogram(const HistogramBins& bins, int64_t n, const double* values, const double* weights, double* counts) {
  std::fill_n(counts, bins.count, 0.0);
  for (int64_t i = 0; i < n; ++i) {
    const int64_t b = bins.edges ? bin_between(bins, values[i]) : even_bin(bins, values[i]);
    if (b >= 0) counts[b] += weights ? weights[i] : 1.0;
  }
}

void run_sort_rows(DType dtype, int64_t n, int64_t cols, const void* rows, int64_t* order) {
  // Rows become bytes that are compared as they lie there, so that there is one sort for all dtypes.
  std::vector<uint8_t> places;
  size_t bytes = 0;
  visit_dtype(dtype, [&]<class T>(TypeTag<T>) {
    if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
      constexpr size_t kBytes = sizeof(place_of(T{}));
      const T* const p = static_cast<const T*>(rows);
      bytes = static_cast<size_t>(cols) * kBytes;
      places.resize(static_cast<size_t>(n) * bytes);
      for (int64_t i = 0; i < n * cols; ++i)
        put_largest_byte_first(places.data() + static_cast<size_t>(i) * kBytes, place_of(p[i]), kBytes);
    } else {
      internal::raise<NotImplementedError>("\"unique_dim\" not implemented for '", type_name_of(dtype), "'");
    }
  });
  std::iota(order, order + n, int64_t{0});
  const uint8_t* const first = places.data();
  std::stable_sort(order, order + n, [=](int64_t a, int64_t b) {
    return std::memcmp(first + static_cast<size_t>(a) * bytes, first + static_cast<size_t>(b) * bytes, bytes) < 0;
  });
}

}  // namespace tessera::cpu
