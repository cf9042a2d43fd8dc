// The gradient of an embedding table: the occurrences of each row are brought together by a stable sort, then added in
// their order, as on the CPU; where a row has very many, whole segments of them first.
#include <algorithm>
#include <limits>

#include "nn/cuda/embedding_engines.h"
#include "tensor/cuda/sort/engines.h"
#include "tensor/cuda/support/report.h"
#include "tensor/cuda/support/types.h"

namespace tessera::cuda {
namespace {

// What the sort works on: narrower keys take fewer passes. Wrong indices become -1.
template <class K>
void make_keys(const int64_t* index, int64_t n, int64_t rows, K* keys) {
  Report* const bad = report_slot();
  for_each(n, [=] __device__(int64_t i) {
    const int64_t r = index[i];
    const bool good = r >= 0 && r < rows;
    if (!good) report(bad, ReportKind::kIndexOutOfBounds, r, 0, rows);
    keys[i] = good ? static_cast<K>(r) : K{-1};
  });
}

constexpr int kLanes = 32;            // threads side by side on the columns of a row
constexpr int kRowsOfBlock = 8;       // places in the sorted order, of which those that begin a row work
constexpr int kUnroll = 8;            // rows of dy on their way at a time
constexpr int64_t kSegment = 256;     // places that are added in a step of their own if all are of one row
constexpr int64_t kFewPlaces = 8192;  // of fewer none is worth that step

struct RowSums {
  int64_t n, dim, padding_idx;
  const int64_t* order;  // where the key at a place comes from
  bool scale_by_freq;
};

__device__ inline float add_scaled(float sum, float scale, float v) { return __fadd_rn(sum, __fmul_rn(scale, v)); }
__device__ inline double add_scaled(double sum, double scale, double v) { return __dadd_rn(sum, __dmul_rn(scale, v)); }

// The first place after `place` with another key. Most runs are short, so steps grow before they shrink.
template <class K>
__device__ inline int64_t end_of_run(const K* keys, int64_t place, int64_t n) {
  const K key = keys[place];
  int64_t step = 1;
  while (place + step < n && keys[place + step] == key) step *= 2;
  int64_t same = place + step / 2, other = place + step < n ? place + step : n;
  while (other - same > 1) {
    const int64_t middle = same + (other - same) / 2;
    if (keys[middle] == key)
      same = middle;
    else
      other = middle;
  }
  return other;
}

// kVector columns a thread; dim is a multiple of it and rows are aligned for it. sum += scale * values of [place, end).
template <class T, int kVector>
__device__ inline void add_places(const RowSums& p, const T* dy, int64_t column, int64_t place, int64_t end,
                                  Compute<T> scale, Compute<T> (&sum)[kVector]) {
  struct alignas(sizeof(T) * kVector) Group {
    T v[kVector];
  };
  for (int64_t i = place; i < end; i += kUnroll) {
    Group g[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u)
      if (i + u < end) g[u] = *reinterpret_cast<const Group*>(dy + p.order[i + u] * p.dim + column);
#pragma unroll
    for (int u = 0; u < kUnroll; ++u)
      if (i + u < end)
        for (int k = 0; k < kVector; ++k) sum[k] = add_scaled(sum[k], scale, load(&g[u].v[k]));
  }
}

// fn(place, column) for all of a grid's places below n and their columns.
template <int kVector, class F>
__device__ inline void for_columns(int64_t n, int64_t dim, F&& fn) {
  for (int64_t place = int64_t{blockIdx.x} * kRowsOfBlock + threadIdx.y; place < n;
       place += int64_t{gridDim.x} * kRowsOfBlock)
    for (int64_t column = (int64_t{blockIdx.y} * kLanes + threadIdx.x) * kVector; column < dim;
         column += int64_t{gridDim.y} * kLanes * kVector)
      fn(place, column);
}

template <class T, class K, int kVector>
__global__ void segment_sums_kernel(RowSums p, const K* keys, const T* dy, Compute<T>* sums) {
  for_columns<kVector>(p.n / kSegment, p.dim, [&](int64_t segment, int64_t column) {
    const int64_t first = segment * kSegment;
    if (keys[first] != keys[first + kSegment - 1]) return;
    Compute<T> sum[kVector] = {};
    add_places<T, kVector>(p, dy, column, first, first + kSegment, 1, sum);
    for (int k = 0; k < kVector; ++k) sums[segment * p.dim + column + k] = sum[k];
  });
}

// sums: of the segments, or null.
template <class T, class K, int kVector>
__global__ void row_sums_kernel(RowSums p, const K* keys, const T* dy, const Compute<T>* sums, T* dweight) {
  using A = Compute<T>;
  for_columns<kVector>(p.n, p.dim, [&](int64_t place, int64_t column) {
    const K row = keys[place];
    if ((place > 0 && keys[place - 1] == row) || row < 0 || row == p.padding_idx) return;
    const int64_t end = end_of_run(keys, place, p.n);
    const A scale = p.scale_by_freq ? static_cast<A>(1.0 / static_cast<double>(end - place)) : A{1};
    const int64_t first = (place + kSegment - 1) / kSegment, last = end / kSegment;  // whole segments
    A sum[kVector] = {};
    if (sums && first < last) {
      add_places<T, kVector>(p, dy, column, place, first * kSegment, scale, sum);
      for (int64_t s = first; s < last; s += kUnroll) {
        A part[kUnroll][kVector];
#pragma unroll
        for (int u = 0; u < kUnroll; ++u)
          for (int k = 0; k < kVector; ++k) part[u][k] = s + u < last ? sums[(s + u) * p.dim + column + k] : A{0};
#pragma unroll
        for (int u = 0; u < kUnroll; ++u)
          for (int k = 0; k < kVector; ++k) sum[k] = add_scaled(sum[k], scale, part[u][k]);
      }
      add_places<T, kVector>(p, dy, column, last * kSegment, end, scale, sum);
    } else {
      add_places<T, kVector>(p, dy, column, place, end, scale, sum);
    }
    struct alignas(sizeof(T) * kVector) Group {
      T v[kVector];
    } out;
    for (int k = 0; k < kVector; ++k) store(&out.v[k], sum[k]);
    *reinterpret_cast<Group*>(dweight + static_cast<int64_t>(row) * p.dim + column) = out;
  });
}

template <class T, class K, int kVector>
void add_rows_of(const RowSums& p, const K* keys, const T* dy, T* dweight) {
  const int64_t columns = int64_t{kLanes} * kVector, segments = p.n < kFewPlaces ? 0 : p.n / kSegment;
  const auto grid = [&](int64_t places) {
    return dim3(blocks_for(places, kRowsOfBlock).x,
                static_cast<unsigned>(std::min<int64_t>((p.dim + columns - 1) / columns, 65535)));
  };
  const Buffer sums(static_cast<size_t>(segments * p.dim) * sizeof(Compute<T>));
  if (segments > 0)
    launch(segment_sums_kernel<T, K, kVector>, grid(segments), dim3(kLanes, kRowsOfBlock), p, keys, dy,
           sums.template as<Compute<T>>());
  launch(row_sums_kernel<T, K, kVector>, grid(p.n), dim3(kLanes, kRowsOfBlock), p, keys, dy,
         segments > 0 ? sums.template as<Compute<T>>() : nullptr, dweight);
}

template <class T, class K>
void add_rows(const RowSums& p, const K* keys, const T* dy, T* dweight) {
  constexpr int kVector = 8 / sizeof(T);  // 256 bytes of a row by a warp
  const bool aligned =
      p.dim % kVector == 0 && (reinterpret_cast<uintptr_t>(dy) | reinterpret_cast<uintptr_t>(dweight)) % 8 == 0;
  (aligned ? add_rows_of<T, K, kVector> : add_rows_of<T, K, 1>)(p, keys, dy, dweight);
}

template <class K>
void embedding_backward_keyed(DType dtype, const void* dy, const int64_t* index, int64_t n, int64_t dim, int64_t rows,
                              int64_t padding_idx, bool scale_by_freq, void* dweight) {
  const size_t count = static_cast<size_t>(n);
  const Buffer unsorted(count * sizeof(K)), sorted(count * sizeof(K)), order(count * sizeof(int64_t));
  make_keys(index, n, rows, unsorted.as<K>());
  const int64_t key_stride = sizeof(K), order_stride = sizeof(int64_t);
  cuda::run_sort({&n, 1}, 0, false, {sorted.get(), DTypeOf<K>::value, &key_stride},
                 {order.get(), DType::kInt64, &order_stride}, {unsorted.get(), DTypeOf<K>::value, &key_stride});
  const RowSums p{n, dim, padding_idx, order.as<int64_t>(), scale_by_freq};
  visit<kAllFloats>(dtype, "embedding_backward", [&]<class T>(Tag<T>) {
    add_rows<T, K>(p, sorted.as<K>(), static_cast<const T*>(dy), static_cast<T*>(dweight));
  });
}

}  // namespace

void embedding_backward(DType dtype, const void* dy, const int64_t* index, int64_t n, int64_t dim, int64_t rows_total,
                        int64_t padding_idx, bool scale_by_freq, void* dweight) {
  visit<kAllFloats>(dtype, "embedding_backward", [](auto) {});
  if (rows_total * dim > 0) fill_bytes(dweight, 0, static_cast<size_t>(rows_total * dim * item_size(dtype)));
  if (n == 0 || dim == 0) return;
  const bool narrow = rows_total <= std::numeric_limits<int32_t>::max();
  (narrow ? embedding_backward_keyed<int32_t> : embedding_backward_keyed<int64_t>)(dtype, dy, index, n, dim, rows_total,
                                                                                   padding_idx, scale_by_freq, dweight);
}

}  // namespace tessera::cuda
