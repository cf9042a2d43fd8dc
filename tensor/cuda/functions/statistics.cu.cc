// Counting values in bins, ordering rows.
#include <array>
#include <utility>

#include "tensor/cuda/support/block.h"
#include "tensor/cuda/functions/engines.h"
#include "tensor/cuda/sort/engines.h"
#include "tensor/cuda/support/types.h"

namespace tessera::cuda {
namespace {

using cpu::HistogramBins;
using cpu::Operand;
using Count = unsigned long long;

// --- histograms ---

// The bin of x; bins.count outside of all.
__device__ int32_t bin_of(const HistogramBins& bins, double x) {
  const double low = bins.edges ? bins.edges[0] : bins.low, high = bins.edges ? bins.edges[bins.count] : bins.high;
  if (!(x >= low && x <= high)) return static_cast<int32_t>(bins.count);
  int64_t bin = 0;
  if (bins.edges) {
    // The last edge that is not above x.
    for (int64_t left = bins.count + 1; left > 1;) {
      const int64_t half = left / 2;
      if (bins.edges[bin + half] <= x) bin += half;
      left -= half;
    }
  } else {
    bin = static_cast<int64_t>((x - low) / (high - low) * static_cast<double>(bins.count));
  }
  return static_cast<int32_t>(bin < bins.count ? bin : bins.count - 1);
}

constexpr int64_t kSharedBins = 8192;

// Counts of a block in shared memory, then added to those of all.
__global__ void count_in_blocks(HistogramBins bins, int64_t n, const double* values, Count* counts) {
  unsigned* mine = static_cast<unsigned*>(dynamic_shared());
  for (int64_t b = threadIdx.x; b < bins.count; b += blockDim.x) mine[b] = 0;
  __syncthreads();
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += step) {
    const int32_t b = bin_of(bins, values[i]);
    if (b < bins.count) atomicAdd(mine + b, 1u);
  }
  __syncthreads();
  for (int64_t b = threadIdx.x; b < bins.count; b += blockDim.x)
    if (mine[b]) atomicAdd(counts + b, Count{mine[b]});
}

struct CountOne {
  HistogramBins bins;
  const double* values;
  Count* counts;
  __device__ void operator()(int64_t i) const {
    const int32_t b = bin_of(bins, values[i]);
    if (b < bins.count) atomicAdd(counts + b, Count{1});
  }
};
struct WriteCount {
  const Count* counts;
  double* out;
  __device__ void operator()(int64_t i) const { out[i] = static_cast<double>(counts[i]); }
};

void count_values(const HistogramBins& bins, int64_t n, const double* values, double* out) {
  const Buffer counts(bins.count * sizeof(Count));
  fill_bytes(counts.get(), 0, bins.count * sizeof(Count));
  if (bins.count <= kSharedBins)
    launch_blocks(count_in_blocks, blocks_for(n, kThreads * 16), dim3(kThreads), bins.count * sizeof(unsigned), bins, n,
                  values, counts.as<Count>());
  else
    for_each(n, CountOne{bins, values, counts.as<Count>()});
  for_each(bins.count, WriteCount{counts.as<Count>(), out});
}

// Weights are brought together by bin, in their order, and each bin is summed by a group of threads: the same sum on
// every run.
struct FindBin {
  HistogramBins bins;
  const double* values;
  int32_t* found;
  __device__ void operator()(int64_t i) const { found[i] = bin_of(bins, values[i]); }
};
struct SortedWeights {
  const int32_t* bins;
  const int64_t* order;
  const double* weights;
  int64_t n;
  // How many lie in bins below b.
  __device__ int64_t before(int64_t b) const {
    int64_t first = 0, last = n;
    while (first < last) {
      const int64_t middle = first + (last - first) / 2;
      if (bins[middle] < b)
        first = middle + 1;
      else
        last = middle;
    }
    return first;
  }
};
__global__ void sum_bins(SortedWeights w, int64_t count, int group, double* out) {
  const int of_block = static_cast<int>(blockDim.x) / group, mine = static_cast<int>(threadIdx.x) / group,
            lane = static_cast<int>(threadIdx.x) % group;
  for (int64_t first = int64_t{blockIdx.x} * of_block; first < count; first += int64_t{gridDim.x} * of_block) {
    const int64_t b = first + mine;
    double sum = 0;
    if (b < count) {
      const int64_t end = w.before(b + 1);
      for (int64_t i = w.before(b) + lane; i < end; i += group) sum += w.weights[w.order[i]];
    }
    sum = group_reduce(
        sum, [](double x, double y) { return x + y; }, group);
    if (lane == 0 && b < count) out[b] = sum;
  }
}

void sum_weights(const HistogramBins& bins, int64_t n, const double* values, const double* weights, double* out) {
  const Buffer found(n * sizeof(int32_t)), sorted(n * sizeof(int32_t)), order(n * sizeof(int64_t));
  for_each(n, FindBin{bins, values, found.as<int32_t>()});
  const std::array<int64_t, 1> shape{n}, small{sizeof(int32_t)}, wide{sizeof(int64_t)};
  cuda::run_sort(shape, 0, false, Operand{sorted.get(), DType::kInt32, small.data()},
                 Operand{order.get(), DType::kInt64, wide.data()}, Operand{found.get(), DType::kInt32, small.data()});
  const int group = n / bins.count < 256 ? 32 : kThreads;
  launch_blocks(sum_bins, blocks_for(bins.count, kThreads / group), dim3(kThreads), 0,
                SortedWeights{sorted.as<int32_t>(), order.as<int64_t>(), weights, n}, bins.count, group, out);
}

// --- rows ---

// Merge sort: runs of `width` rows are in order; each row finds its place in the two runs joined by a binary search in
// the other one.
template <class T>
struct MergeRows {
  const T* rows;
  int64_t n, cols, width;
  const int64_t* from;
  int64_t* to;

  __device__ static bool less(Compute<T> a, Compute<T> b) { return a < b || (b != b && a == a); }  // a NaN comes last
  // -1, 0, 1
  __device__ int compare(int64_t a, int64_t b) const {
    for (int64_t i = 0; i < cols; ++i) {
      const Compute<T> x = load(rows + a * cols + i), y = load(rows + b * cols + i);
      if (less(x, y)) return -1;
      if (less(y, x)) return 1;
    }
    return 0;
  }
  __device__ void operator()(int64_t i) const {
    const int64_t start = i / (2 * width) * (2 * width), middle = start + width < n ? start + width : n,
                  end = middle + width < n ? middle + width : n;
    const bool left = i < middle;
    const int64_t row = from[i], other = left ? middle : start;
    int64_t first = other, last = left ? end : middle;
    while (first < last) {
      const int64_t at = first + (last - first) / 2;
      const int c = compare(from[at], row);
      if (c < 0 || (c == 0 && !left))
        first = at + 1;
      else
        last = at;
    }
    to[start + (i - (left ? start : middle)) + (first - other)] = row;
  }
};
struct Iota {
  int64_t* out;
  __device__ void operator()(int64_t i) const { out[i] = i; }
};

}  // namespace

void run_histogram(const HistogramBins& bins, int64_t n, const double* values, const double* weights, double* counts) {
  TESSERA_CHECK(bins.count < INT32_MAX, "histogram: too many bins: ", bins.count);
  if (n == 0)
    fill_bytes(counts, 0, bins.count * sizeof(double));
  else if (weights)
    sum_weights(bins, n, values, weights, counts);
  else
    count_values(bins, n, values, counts);
}

void run_sort_rows(DType dtype, int64_t n, int64_t cols, const void* rows, int64_t* order) {
  int passes = 0;
  for (int64_t width = 1; width < n; width *= 2) ++passes;
  const Buffer other(n * sizeof(int64_t));
  int64_t *from = passes % 2 ? other.as<int64_t>() : order,
          *to = passes % 2 ? order : other.as<int64_t>();  // the last pass writes `order`
  for_each(n, Iota{from});
  const DType as = dtype == DType::kBool ? DType::kUInt8 : dtype;
  visit<kInts | kWideInts | kAllFloats>(as, "unique_dim", [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (int64_t width = 1; width < n; width *= 2) {
      for_each(n, MergeRows<T>{static_cast<const T*>(rows), n, cols, width, from, to});
      std::swap(from, to);
    }
  });
}

}  // namespace tessera::cuda
