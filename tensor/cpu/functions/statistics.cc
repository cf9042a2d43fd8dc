#include "tensor/cpu/functions/statistics.h"

#include <algorithm>
#include <numeric>

#include "tensor/core/visit.h"

namespace tessera::cpu {
namespace {

template <class T>
bool less(T a, T b) {
  return a < b || (b != b && a == a);
}  // a NaN comes last

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
  std::iota(order, order + n, int64_t{0});
  visit_dtype(dtype, [&]<class T>(TypeTag<T>) {
    if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
      const T* p = static_cast<const T*>(rows);
      std::stable_sort(order, order + n, [&](int64_t a, int64_t b) {
        for (int64_t i = 0; i < cols; ++i) {
          if (less(p[a * cols + i], p[b * cols + i])) return true;
          if (less(p[b * cols + i], p[a * cols + i])) return false;
        }
        return false;
      });
    } else {
      internal::raise<NotImplementedError>("\"unique_dim\" not implemented for '", type_name_of(dtype), "'");
    }
  });
}

}  // namespace tessera::cpu
