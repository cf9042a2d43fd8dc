// Many parts joined by one kernel: where they lie travels with the launch.
#include <algorithm>
#include <limits>

#include "tensor/cuda/pointwise/engines.h"
#include "tensor/cuda/support/report.h"
#include "tensor/cuda/support/types.h"

namespace tessera::cuda {
namespace {

constexpr int kParts = 120;       // of a launch, in at most 4 KiB of arguments
constexpr int64_t kPiece = 4096;  // units of a block
constexpr int kJoinThreads = 256;

// Part i has the blocks [first[i], first[i + 1]).
struct Parts {
  const char* from[kParts];
  int64_t units[kParts];  // of a row
  int64_t at[kParts];     // where its rows begin in those of the result, in units
  int first[kParts + 1];
  int count = 0;
  int64_t rows, row_units;

  __device__ int part_of(int block) const {
    int low = 0, high = count;
    while (high - low > 1) {
      const int middle = (low + high) / 2;
      (first[middle] <= block ? low : high) = middle;
    }
    return low;
  }
};

// U: a number of bytes that all addresses and lengths are multiples of.
template <class U>
__global__ void __launch_bounds__(kJoinThreads) join_kernel(Parts p, U* out) {
  const int part = p.part_of(static_cast<int>(blockIdx.x));
  const U* const from = reinterpret_cast<const U*>(p.from[part]);
  const int64_t units = p.units[part], begin = int64_t{static_cast<int>(blockIdx.x) - p.first[part]} * kPiece,
                end = min(begin + kPiece, p.rows * units);
  for (int64_t i = begin + threadIdx.x; i < end; i += kJoinThreads) {
    const int64_t row = (i | units) >> 32 ? i / units : static_cast<uint32_t>(i) / static_cast<uint32_t>(units);
    out[row * p.row_units + p.at[part] + (i - row * units)] = from[i];
  }
}

template <class U>
void join(int64_t rows, int64_t row_bytes, std::span<const JoinedPart> parts, void* out) {
  constexpr int64_t kSize = sizeof(U);
  int64_t at = 0;
  for (size_t i = 0; i < parts.size();) {
    Parts p;
    p.rows = rows;
    p.row_units = row_bytes / kSize;
    p.first[0] = 0;
    for (; i < parts.size() && p.count < kParts; ++i) {
      const int64_t units = parts[i].bytes / kSize, blocks = (rows * units + kPiece - 1) / kPiece;
      if (units == 0) continue;
      if (p.count > 0 && p.first[p.count] + blocks > std::numeric_limits<int>::max()) break;
      TESSERA_CHECK(blocks <= std::numeric_limits<int>::max(), "cat: a tensor is too large: ", rows * parts[i].bytes,
                    " bytes");
      p.from[p.count] = static_cast<const char*>(parts[i].from);
      p.units[p.count] = units;
      p.at[p.count] = at;
      p.first[p.count + 1] = p.first[p.count] + static_cast<int>(blocks);
      ++p.count;
      at += units;
    }
    if (p.count > 0)
      launch(join_kernel<U>, dim3(static_cast<unsigned>(p.first[p.count])), dim3(kJoinThreads), p,
             static_cast<U*>(out));
  }
}

template <class T>
void check_probabilities(int64_t n, const T* x, Report* bad) {
  for_each(n, [=] __device__(int64_t i) {
    const Compute<T> v = load(x + i);
    if (!(v >= 0 && v <= 1)) report(bad, ReportKind::kNotBetween0And1);
  });
}

}  // namespace

void join_rows(int64_t rows, std::span<const JoinedPart> parts, void* out) {
  int64_t row_bytes = 0;
  uint64_t bits = reinterpret_cast<uintptr_t>(out) | 16;
  for (const JoinedPart& p : parts) {
    row_bytes += p.bytes;
    bits |= reinterpret_cast<uintptr_t>(p.from) | static_cast<uint64_t>(p.bytes);
  }
  if (rows == 0 || row_bytes == 0) return;
  visit_size(static_cast<int64_t>(bits & -bits),
             [&](auto tag) { join<typename decltype(tag)::type>(rows, row_bytes, parts, out); });
}

void check_elements(DType dtype, int64_t n, const void* x, ElementCheck) {
  visit<kAllFloats>(dtype, "check_elements",
                    [&]<class T>(Tag<T>) { check_probabilities(n, static_cast<const T*>(x), report_slot()); });
}

}  // namespace tessera::cuda
