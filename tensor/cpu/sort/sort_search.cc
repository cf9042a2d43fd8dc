// Binary search in sorted rows.
#include <algorithm>

#include "tensor/core/error.h"
#include "tensor/core/parallel.h"
#include "tensor/cpu/sort/sort.h"

namespace tessera::cpu {
namespace {

struct Search {
  const void* boundaries;
  int64_t m;
  bool shared;
  const int64_t* sorter;
  const void* values;
  int64_t n;
  bool right, out_int32;
  void* out;
};

// Is the boundary before the value's place? Written so that a NaN among the values goes past the end.
template <class T>
bool before(T boundary, T value, bool right) {
  return right ? !(+boundary > +value) : !(+boundary >= +value);  // halves compare as float
}

constexpr int64_t kTogether = 8;

// kTogether searches in step, without branches, so that their cache misses overlap. The number of steps depends on m
// alone.
template <bool kRight, class T>
void positions(const T* row, const int64_t* sorter, int64_t m, const T* values, int64_t count, int64_t* out) {
  T v[kTogether];
  int64_t base[kTogether] = {};
  for (int64_t j = 0; j < kTogether; ++j) v[j] = values[j < count ? j : 0];
  int64_t left = m;
  while (left > 1) {
    const int64_t half = left / 2;
    for (int64_t j = 0; j < kTogether; ++j) {
      const int64_t mid = base[j] + half - 1;
      base[j] += -static_cast<int64_t>(before(row[sorter ? sorter[mid] : mid], v[j], kRight)) & half;
    }
    left -= half;
  }
  for (int64_t j = 0; j < count; ++j)
    out[j] = m == 0 ? 0 : base[j] + before(row[sorter ? sorter[base[j]] : base[j]], v[j], kRight);
}

template <class T>
void search(const Search& s, int64_t begin, int64_t end) {
  int64_t found[kTogether];
  for (int64_t i = begin; i < end;) {
    const int64_t row = s.shared ? 0 : i / s.n;
    const int64_t count = std::min({kTogether, end - i, s.shared ? end - i : (row + 1) * s.n - i});
    const T* boundaries = static_cast<const T*>(s.boundaries) + row * s.m;
    const T* values = static_cast<const T*>(s.values) + i;
    const int64_t* sorter = s.sorter ? s.sorter + row * s.m : nullptr;
    s.right ? positions<true>(boundaries, sorter, s.m, values, count, found)
            : positions<false>(boundaries, sorter, s.m, values, count, found);
    for (int64_t j = 0; j < count; ++j, ++i) {
      if (s.out_int32) {
        static_cast<int32_t*>(s.out)[i] = static_cast<int32_t>(found[j]);
      } else {
        static_cast<int64_t*>(s.out)[i] = found[j];
      }
    }
  }
}

}  // namespace

void run_searchsorted(DType dtype, const void* boundaries, int64_t m, bool shared_boundaries, const int64_t* sorter,
                      const void* values, int64_t rows, int64_t n, bool right, bool out_int32, void* out) {
  void (*fn)(const Search&, int64_t, int64_t) = nullptr;
  switch (dtype) {
    case DType::kBool:
    case DType::kUInt8:
      fn = search<uint8_t>;
      break;
    case DType::kInt8:
      fn = search<int8_t>;
      break;
    case DType::kInt16:
      fn = search<int16_t>;
      break;
    case DType::kUInt16:
      fn = search<uint16_t>;
      break;
    case DType::kInt32:
      fn = search<int32_t>;
      break;
    case DType::kUInt32:
      fn = search<uint32_t>;
      break;
    case DType::kInt64:
      fn = search<int64_t>;
      break;
    case DType::kUInt64:
      fn = search<uint64_t>;
      break;
    case DType::kFloat16:
      fn = search<Half>;
      break;
    case DType::kBFloat16:
      fn = search<BFloat16>;
      break;
    case DType::kFloat32:
      fn = search<float>;
      break;
    case DType::kFloat64:
      fn = search<double>;
      break;
    default:
      break;
  }
  TESSERA_CHECK_NOT_IMPLEMENTED(fn != nullptr, "\"searchsorted_out_cpu\" not implemented for '", type_name_of(dtype),
                                "'");
  const int64_t count = rows * n;
  if (sorter != nullptr && count > 0) {
    const int64_t entries = shared_boundaries ? m : rows * m;
    for (int64_t i = 0; i < entries; ++i)
      TESSERA_CHECK(sorter[i] >= 0 && sorter[i] < m, "torch.searchsorted(): sorter index out of range");
  }
  const Search s{boundaries, m, shared_boundaries, sorter, values, n, right, out_int32, out};
  parallel_for(count, 4096, [&](int64_t begin, int64_t end) { fn(s, begin, end); });
}

}  // namespace tessera::cpu
