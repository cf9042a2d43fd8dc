// Bags of embeddings: a few vectors of a bag's result stay in registers while its rows go by.
#include "nn/cpu/embedding.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "tensor/core/error.h"
#include "tensor/core/half.h"
#include "tensor/core/parallel.h"
#include "tensor/cpu/support/types.h"
#include "tensor/cpu/support/scratch.h"
#include "tensor/cpu/support/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "nn/cpu/embedding.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

constexpr int64_t kAhead = 16;  // rows that are asked for before they are needed

// Sum of the rows of one bag, elements [0, kVectors * lanes) of each. scale may be null; `known` >= n indices can be
// read: those of the next bags.
template <int kVectors, class T>
HWY_INLINE void SumPart(const int64_t* index, int64_t n, int64_t known, int64_t padding, int64_t dim, const T* table,
                        const T* scale, T* out) {
  const hn::ScalableTag<T> d;
  constexpr int64_t kLanes = HWY_LANES(T);
  hn::Vec<hn::ScalableTag<T>> s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
  for (int64_t i = 0; i < n; ++i) {
    if (index[i] == padding) continue;
    if (i + kAhead < known) {
      const T* next = table + index[i + kAhead] * dim;
      for (int64_t k = 0; k < kVectors * kLanes; k += 64 / static_cast<int64_t>(sizeof(T)))
        __builtin_prefetch(next + k);
    }
    const T* row = table + index[i] * dim;
    const auto f = hn::Set(d, scale ? scale[i] : T{1});
    const auto part = [&](int k) HWY_ATTR {
      return scale ? hn::Mul(f, hn::LoadU(d, row + k * kLanes)) : hn::LoadU(d, row + k * kLanes);
    };
    s0 = hn::Add(s0, part(0));
    if constexpr (kVectors > 1) s1 = hn::Add(s1, part(1));
    if constexpr (kVectors > 2) s2 = hn::Add(s2, part(2)), s3 = hn::Add(s3, part(3));
  }
  hn::StoreU(s0, d, out);
  if constexpr (kVectors > 1) hn::StoreU(s1, d, out + kLanes);
  if constexpr (kVectors > 2) hn::StoreU(s2, d, out + 2 * kLanes), hn::StoreU(s3, d, out + 3 * kLanes);
}
template <class T>
void SumBag(const int64_t* index, int64_t n, int64_t known, int64_t padding, int64_t dim, const T* table,
            const T* scale, T* out) {
  constexpr int64_t kLanes = HWY_LANES(T);
  int64_t k = 0;
  for (; k + 4 * kLanes <= dim; k += 4 * kLanes) SumPart<4>(index, n, known, padding, dim, table + k, scale, out + k);
  for (; k + 2 * kLanes <= dim; k += 2 * kLanes) SumPart<2>(index, n, known, padding, dim, table + k, scale, out + k);
  for (; k + kLanes <= dim; k += kLanes) SumPart<1>(index, n, known, padding, dim, table + k, scale, out + k);
  for (; k < dim; ++k) {
    T s = 0;
    for (int64_t i = 0; i < n; ++i) {
      if (index[i] != padding) s += (scale ? scale[i] : T{1}) * table[index[i] * dim + k];
    }
    out[k] = s;
  }
}

template <class T>
void Divide(int64_t dim, T divisor, T* out) {
  const hn::ScalableTag<T> d;
  constexpr int64_t kLanes = HWY_LANES(T);
  int64_t k = 0;
  for (; k + kLanes <= dim; k += kLanes) hn::StoreU(hn::Div(hn::LoadU(d, out + k), hn::Set(d, divisor)), d, out + k);
  for (; k < dim; ++k) out[k] /= divisor;
}

// Greatest elements, NaN above all, and the rows that they come from, the first of equals.
template <class T>
void MaxBag(const int64_t* index, int64_t n, int64_t padding, int64_t dim, const T* table, T* out, int64_t* places) {
  using Place = hwy::MakeSigned<T>;
  const hn::ScalableTag<T> d;
  const hn::ScalableTag<Place> dp;
  constexpr int64_t kLanes = HWY_LANES(T);
  int64_t first = 0;
  while (first < n && index[first] == padding) ++first;
  if (first == n) {
    std::fill(out, out + dim, T{0});
    std::fill(places, places + dim, int64_t{0});
    return;
  }
  int64_t k = 0;
  for (; k + kLanes <= dim; k += kLanes) {
    auto best = hn::LoadU(d, table + index[first] * dim + k);
    auto at = hn::Set(dp, static_cast<Place>(first));
    for (int64_t i = first + 1; i < n; ++i) {
      if (index[i] == padding) continue;
      const auto v = hn::LoadU(d, table + index[i] * dim + k);
      const auto keep = hn::Or(hn::Ge(best, v), hn::IsNaN(best));
      best = hn::IfThenElse(keep, best, v);
      at = hn::IfThenElse(hn::RebindMask(dp, keep), at, hn::Set(dp, static_cast<Place>(i)));
    }
    hn::StoreU(best, d, out + k);
    HWY_ALIGN Place position[kLanes];
    hn::Store(at, dp, position);
    for (int64_t l = 0; l < kLanes; ++l) places[k + l] = index[position[l]];
  }
  for (; k < dim; ++k) {
    T best = table[index[first] * dim + k];
    int64_t at = first;
    for (int64_t i = first + 1; i < n; ++i) {
      const T v = table[index[i] * dim + k];
      if (index[i] != padding && !(best >= v || best != best)) best = v, at = i;
    }
    out[k] = best;
    places[k] = index[at];
  }
}

}  // namespace

void BagSum(DType t, const int64_t* index, int64_t n, int64_t known, int64_t padding, int64_t dim, const void* table,
            const void* scale, void* out) {
  if (t == DType::kFloat32)
    return SumBag(index, n, known, padding, dim, static_cast<const float*>(table), static_cast<const float*>(scale),
                  static_cast<float*>(out));
  SumBag(index, n, known, padding, dim, static_cast<const double*>(table), static_cast<const double*>(scale),
         static_cast<double*>(out));
}
void BagDivide(DType t, int64_t dim, int64_t divisor, void* out) {
  if (t == DType::kFloat32) return Divide(dim, static_cast<float>(divisor), static_cast<float*>(out));
  Divide(dim, static_cast<double>(divisor), static_cast<double*>(out));
}
void BagMax(DType t, const int64_t* index, int64_t n, int64_t padding, int64_t dim, const void* table, void* out,
            int64_t* places) {
  if (t == DType::kFloat32)
    return MaxBag(index, n, padding, dim, static_cast<const float*>(table), static_cast<float*>(out), places);
  MaxBag(index, n, padding, dim, static_cast<const double*>(table), static_cast<double*>(out), places);
}

}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::cpu {
namespace {

TESSERA_SIMD_TABLE(BagSum);
TESSERA_SIMD_TABLE(BagDivide);
TESSERA_SIMD_TABLE(BagMax);

// One bag of float16 or bfloat16.
template <class T>
void reduced_bag(BagMode mode, const int64_t* index, int64_t n, int64_t size, int64_t padding, int64_t dim,
                 const T* table, const T* scale, T* out, int64_t* places) {
  for (int64_t k = 0; k < dim; ++k) {
    float value = 0;
    int64_t at = -1;
    for (int64_t i = 0; i < n; ++i) {
      if (index[i] == padding) continue;
      const float v = static_cast<float>(table[index[i] * dim + k]);
      if (mode != BagMode::kMax) {
        value += scale ? v * static_cast<float>(scale[i]) : v;
      } else if (at < 0 || !(value >= v || value != value)) {
        value = v;
        at = index[i];
      }
    }
    out[k] = static_cast<T>(mode == BagMode::kMean && size > 0 ? value / static_cast<float>(size) : value);
    if (mode == BagMode::kMax) places[k] = std::max<int64_t>(at, 0);
  }
}

template <class T>
void bag_of(DType dtype, BagMode mode, const int64_t* index, int64_t n, int64_t known, int64_t size, int64_t padding,
            int64_t dim, const T* table, const T* scale, T* out, int64_t* places) {
  if constexpr (internal::kIsReduced<T>) {
    reduced_bag(mode, index, n, size, padding, dim, table, scale, out, places);
  } else if (mode == BagMode::kMax) {
    TESSERA_SIMD(BagMax)(dtype, index, n, padding, dim, table, out, places);
  } else {
    TESSERA_SIMD(BagSum)(dtype, index, n, known, padding, dim, table, scale, out);
    if (mode == BagMode::kMean && size > 1) TESSERA_SIMD(BagDivide)(dtype, dim, size, out);
  }
}

}  // namespace

void embedding_bag_forward(DType dtype, BagMode mode, const Bags& bags, int64_t dim, const void* table,
                           const void* scale, void* out, int64_t* sizes, int64_t* places) {
  internal::visit_floats("embedding_bag", dtype, [&](auto tag) {
    using T = decltype(tag);
    const int64_t rows = bags.count > 0 ? bags.begin[bags.count] / bags.count + 1 : 1;
    parallel_for(bags.count, std::max<int64_t>(1, 32768 / std::max<int64_t>(1, rows * dim)),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t b = begin; b < end; ++b) {
                     const int64_t first = bags.begin[b], n = bags.begin[b + 1] - first;
                     const int64_t* index = bags.index + first;
                     const int64_t size = bags.padding < 0 ? n : n - std::count(index, index + n, bags.padding);
                     sizes[b] = size;
                     bag_of<T>(dtype, mode, index, n, bags.begin[bags.count] - first, size, bags.padding, dim,
                               static_cast<const T*>(table), scale ? static_cast<const T*>(scale) + first : nullptr,
                               static_cast<T*>(out) + b * dim, places ? places + b * dim : nullptr);
                   }
                 });
  });
}

void one_hot(const int64_t* index, int64_t n, int64_t classes, int64_t* out) {
  parallel_for(n, std::max<int64_t>(1, 32768 / std::max<int64_t>(1, classes)), [&](int64_t begin, int64_t end) {
    std::memset(out + begin * classes, 0, static_cast<size_t>((end - begin) * classes) * sizeof(int64_t));
    for (int64_t i = begin; i < end; ++i) out[i * classes + index[i]] = 1;
  });
}

}  // namespace tessera::cpu
#endif
