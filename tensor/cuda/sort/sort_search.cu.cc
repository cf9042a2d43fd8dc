// Binary search in sorted rows, a thread for each value.
#include "tensor/cuda/sort/engines.h"
#include "tensor/cuda/support/index_elements.h"

namespace tessera::cuda {
namespace {

template <class T>
struct Search {
  const T* boundaries;
  const T* values;
  const int64_t* sorter;
  void* out;
  int64_t m, n;
  bool shared, right, out_int32;
  Report* slot;

  __device__ bool before(int64_t row, int64_t at, Compute<T> value) const {
    if (sorter) {
      at = sorter[row * m + at];
      if (at < 0 || at >= m) {
        report(slot, ReportKind::kIndexOutOfBounds, at, 0, m);
        return false;
      }
    }
    const Compute<T> boundary = load(boundaries + row * m + at);
    return right ? !(boundary > value) : !(boundary >= value);  // a NaN among the values goes past the end
  }
  __device__ void operator()(int64_t i) const {
    const int64_t row = shared ? 0 : quotient(i, n);
    const Compute<T> value = load(values + i);
    int64_t base = 0;
    for (int64_t left = m; left > 1;) {
      const int64_t half = left / 2;
      if (before(row, base + half - 1, value)) base += half;
      left -= half;
    }
    if (m > 0 && before(row, base, value)) ++base;
    if (out_int32)
      static_cast<int32_t*>(out)[i] = static_cast<int32_t>(base);
    else
      static_cast<int64_t*>(out)[i] = base;
  }
};

}  // namespace

void run_searchsorted(DType dtype, const void* boundaries, int64_t m, bool shared_boundaries, const int64_t* sorter,
                      const void* values, int64_t rows, int64_t n, bool right, bool out_int32, void* out) {
  const DType as = dtype == DType::kBool ? DType::kUInt8 : dtype;
  visit<kInts | kWideInts | kAllFloats>(as, "searchsorted_out_cuda", [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_each(rows * n, Search<T>{static_cast<const T*>(boundaries), static_cast<const T*>(values), sorter, out, m, n,
                                 shared_boundaries, right, out_int32, report_slot()});
  });
}

}  // namespace tessera::cuda
