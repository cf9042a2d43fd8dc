// Bags of embeddings: a thread has an element of a bag's result and goes through the bag in its order, as on the CPU.
#include <algorithm>

#include "nn/cuda/embedding_engines.h"
#include "tensor/cuda/support/report.h"
#include "tensor/cuda/support/types.h"

namespace tessera::cuda {
namespace {

using cpu::BagMode;
using nn::BagCall;

struct Bags {
  int64_t bags, n, rows, padding;
  bool has_end;
  const int64_t *index, *offsets;
  Report* bad;

  // Where bag b begins; where the last one ends, for b = bags. What is wrong becomes something harmless.
  __device__ int64_t limit(int64_t b) const {
    const int64_t v = b < bags || has_end ? offsets[b] : bags > 0 ? n : 0;
    return v < 0 ? 0 : v < n ? v : n;
  }
  __device__ void check(int64_t b) const {
    const int64_t v = b < bags || has_end ? offsets[b] : n;
    if (b == 0 && v != 0) report(bad, ReportKind::kBadBags, 0, 0, v);
    if (v > n || (b > 0 && v < offsets[b - 1])) report(bad, ReportKind::kBadBags, 1, 0, n);
  }
  // The row of an index, -1 for padding and for one that is out of range.
  __device__ int64_t row(int64_t at) const {
    const int64_t r = index[at];
    if (r >= 0 && r < rows) return r == padding ? -1 : r;
    report(bad, ReportKind::kIndexOutOfBounds, r, 0, rows);
    return -1;
  }
};

template <class T, BagMode kMode>
__global__ void bag_kernel(Bags bags, int64_t dim, const T* table, const T* scale, T* out, int64_t* sizes,
                           int64_t* places) {
  using A = Compute<T>;
  const int64_t column = int64_t{blockIdx.y} * blockDim.x + threadIdx.x;
  for (int64_t b = int64_t{blockIdx.x} * blockDim.y + threadIdx.y; b < bags.bags;
       b += int64_t{gridDim.x} * blockDim.y) {
    if (column == 0) {
      bags.check(b);
      if (b == bags.bags - 1) bags.check(b + 1);
    }
    A sum{0};
    int64_t count = 0, best = 0;
    const int64_t end = bags.limit(b + 1);
    for (int64_t at = bags.limit(b); at < end; ++at) {
      const int64_t r = bags.row(at);
      if (r < 0) continue;
      ++count;
      if (column >= dim) continue;
      const A v = load(table + r * dim + column);
      if constexpr (kMode == BagMode::kMax) {
        if (count == 1 || !(sum >= v || sum != sum)) {
          sum = v;
          best = r;
        }
      } else {
        sum += scale ? load(scale + at) * v : v;
      }
    }
    if (column < dim) {
      if (kMode == BagMode::kMean && count > 0) sum /= static_cast<A>(count);
      store(out + b * dim + column, sum);
      if (kMode == BagMode::kMax) places[b * dim + column] = best;
    }
    if (column == 0) {
      sizes[b] = count;
      if (kMode != BagMode::kMax) places[b] = 0;
    }
  }
}

void number_bags(const Bags& bags, int64_t* bag_of) {
  for_each(bags.n, [=] __device__(int64_t i) {
    int64_t low = 0, high = bags.bags;  // the first bag that begins behind i
    while (low < high) {
      const int64_t middle = low + (high - low) / 2;
      if (bags.limit(middle) > i)
        high = middle;
      else
        low = middle + 1;
    }
    bag_of[i] = low > 0 && i < bags.limit(bags.bags) ? low - 1 : -1;
  });
}

template <class T, BagMode kMode>
void start(const Bags& bags, const BagCall& call) {
  const int64_t width = std::max<int64_t>(call.dim, 1);
  const dim3 threads(32, 8),
      blocks(blocks_for(call.bags, threads.y).x, static_cast<unsigned>(std::min<int64_t>((width + 31) / 32, 65535)));
  TESSERA_CHECK(width <= int64_t{65535} * 32, "embedding_bag: rows of ", call.dim, " elements are too long");
  launch(bag_kernel<T, kMode>, blocks, threads, bags, call.dim, static_cast<const T*>(call.table),
         static_cast<const T*>(call.scale), static_cast<T*>(call.out), call.sizes, call.places);
}

}  // namespace

void embedding_bag(const BagCall& call) {
  const Bags bags{call.bags, call.n, call.rows, call.padding, call.has_end, call.index, call.offsets, report_slot()};
  visit<kAllFloats>(call.dtype, "embedding_bag", [&]<class T>(Tag<T>) {
    if (call.bags > 0) {
      if (call.mode == BagMode::kSum) start<T, BagMode::kSum>(bags, call);
      if (call.mode == BagMode::kMean) start<T, BagMode::kMean>(bags, call);
      if (call.mode == BagMode::kMax) start<T, BagMode::kMax>(bags, call);
    }
  });
  number_bags(bags, call.bag_of);
}

}  // namespace tessera::cuda
