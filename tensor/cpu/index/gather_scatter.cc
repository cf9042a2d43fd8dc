// gather, scatter, index_select, index_add: one index per element (or per slice) along one dimension.
//
// All of them are a loop over the index's shape in which one operand ("self") is addressed by the index instead of the
// loop counter at `dim`. index_select and index_add broadcast a 1-d index over the other dimensions; then runs of
// elements share an index and move as a block.
#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>

#include "tensor/core/error.h"
#include "tensor/core/parallel.h"
#include "tensor/cpu/index/index.h"
#include "tensor/cpu/index/index_internal.h"
#include "tensor/cpu/index/index_simd.h"
#include "tensor/cpu/support/pieces.h"
#include "tensor/cpu/support/request.h"
#include "tensor/cpu/support/scratch.h"
#include "tensor/cpu/support/simd_move.h"
#include "tensor/cpu/support/strided_nest.h"

namespace tessera::cpu {
namespace {

constexpr int64_t kGrain = 8192;

// Runs over far memory go in parts, and what the next part needs is requested, to the second cache: the index, what
// lies in its order, and a share of the line of self that the next run will go to anywhere.
constexpr int64_t kPart = 128, kAhead = 512, kFarElements = int64_t{1} << 20;
void request_range(const char* from, int64_t bytes) {
  for (int64_t k = 0; k < bytes; k += 64) __builtin_prefetch(from + k, 0, 2);
}
// part(begin, end) for a run of n; next: the next run's line of self, of `bytes`.
template <class F>
void for_each_part(bool far, int64_t n, const char* next, int64_t bytes, F&& part) {
  if (!far) return part(0, n);
  for (int64_t i = 0; i < n; i += kPart) {
    const int64_t end = std::min(n, i + kPart), share = bytes / n;
    request_range(next + i * share, (end - i) * share);
    part(i, end);
  }
}

// Is 0 <= index < size for all? Negative numbers and those past the end set the sign bit of the "or".
bool all_within(const char* p, int64_t n, int64_t step, int64_t size) {
  if (step == static_cast<int64_t>(sizeof(int64_t)))
    return indices_within(reinterpret_cast<const int64_t*>(p), n, size);
  int64_t bad = 0;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t v = *reinterpret_cast<const int64_t*>(p + i * step);
    bad |= v < 0 ? v : size - 1 - v;
  }
  return bad >= 0;
}

// Checks every index once (broadcast dimensions need no second look).
template <class Fail>
void check_indices(std::span<const int64_t> shape, const Operand& index, int64_t size, Fail&& fail) {
  Nest<1> nest;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 0) return;
    if (index.strides[d] != 0) nest.push(shape[d], {index.strides[d]});
  }
  nest.sort_by(0);
  nest.coalesce();
  parallel_ranges(nest.count(), kGrain, [&](int64_t begin, int64_t end) {
    for_each_run(nest, begin, end, [&](const int64_t(&offset)[1], int64_t len) {
      const char* p = at_byte(index.data, offset[0]);
      const int64_t step = nest.inner_stride(0);
      if (all_within(p, len, step, size)) return;
      for (int64_t i = 0; i < len; ++i) {
        const int64_t v = *reinterpret_cast<const int64_t*>(p + i * step);
        if (v < 0 || v >= size) fail(v);
      }
    });
  });
}
// A RuntimeError, unlike for the other forms of indexing.
void check_bounds(std::span<const int64_t> shape, const Operand& index, int dim, int64_t size) {
  check_indices(shape, index, size, [&](int64_t v) {
    TESSERA_CHECK(false, "index ", v, " is out of bounds for dimension ", dim, " with size ", size);
  });
}
void check_rows(const int64_t* index, int64_t n, int64_t size) {
  if (indices_within(index, n, size)) return;
  for (int64_t i = 0; i < n; ++i) TESSERA_CHECK_INDEX(index[i] >= 0 && index[i] < size, "index out of range in self");
}

// ---- gather

template <class T>
void gather_along(char* out, const char* self, const char* index, int64_t n, int64_t out_step, int64_t self_step,
                  int64_t self_scale, int64_t index_step, int64_t size) {
  constexpr int64_t kSize = sizeof(T);
  if constexpr (kSize == 4 || kSize == 8) {
    if (out_step == kSize && index_step == 8 && self_step == 0 && self_scale == kSize) {
      gather_elements(kSize, out, self, reinterpret_cast<const int64_t*>(index), n, size);
      return;
    }
  }
  if (out_step == kSize && index_step == 8 && self_scale % kSize == 0 && (self_step == 0 || self_step == kSize)) {
    T* o = reinterpret_cast<T*>(out);
    const T* s = reinterpret_cast<const T*>(self);
    const int64_t* x = reinterpret_cast<const int64_t*>(index);
    const int64_t scale = self_scale / kSize;
    if (self_step != 0) {
      for (int64_t i = 0; i < n; ++i) o[i] = s[i + x[i] * scale];
    } else if (scale == 1) {
      for (int64_t i = 0; i < n; ++i) o[i] = s[x[i]];
    } else {
      for (int64_t i = 0; i < n; ++i) o[i] = s[x[i] * scale];
    }
    return;
  }
  for (int64_t i = 0; i < n; ++i) {
    const int64_t at = *reinterpret_cast<const int64_t*>(index + i * index_step);
    *reinterpret_cast<T*>(out + i * out_step) = *reinterpret_cast<const T*>(self + i * self_step + at * self_scale);
  }
}
using GatherFn = void (*)(char*, const char*, const char*, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t);

void gather(std::span<const int64_t> shape, int dim, int64_t size, const Operand& out, const Operand& self,
            const Operand& index) {
  Nest<3> nest;
  for (int d = 0; d < static_cast<int>(shape.size()); ++d)
    nest.push(shape[d], {d == dim ? 0 : self.strides[d], out.strides[d], index.strides[d]});
  nest.sort_by(1);
  nest.coalesce();
  gather_nest(nest, shape.empty() ? 0 : self.strides[dim], size, out, self, index);
}

// ---- scatter

template <class T>
struct Arithmetic {
  using type = T;
};
template <>
struct Arithmetic<Half> {
  using type = float;
};
template <>
struct Arithmetic<BFloat16> {
  using type = float;
};
template <>
struct Arithmetic<ComplexHalf> {
  using type = std::complex<float>;
};

template <class A>
constexpr bool kIsComplex = std::is_same_v<A, std::complex<float>> || std::is_same_v<A, std::complex<double>>;

template <class A>
A alpha_as(const Alpha& alpha) {
  if constexpr (kIsComplex<A>) {
    return A(static_cast<typename A::value_type>(alpha.value.c[0]),
             static_cast<typename A::value_type>(alpha.value.c[1]));
  } else if constexpr (std::is_floating_point_v<A>) {
    return static_cast<A>(alpha.value.f);
  } else {
    return static_cast<A>(alpha.value.i);
  }
}

// One step of accumulation in the dtype's arithmetic. Integers wrap; bool adds as "or", multiplies as "and".
template <ScatterMode kMode, class T>
T meet(T a, T b) {
  using A = typename Arithmetic<T>::type;
  if constexpr (std::is_same_v<T, bool>) {
    if constexpr (kMode == ScatterMode::kMultiply || kMode == ScatterMode::kMin) return a && b;
    return a || b;
  } else if constexpr (std::is_integral_v<T> && (kMode == ScatterMode::kAdd || kMode == ScatterMode::kMultiply)) {
    const uint64_t x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
    return static_cast<T>(kMode == ScatterMode::kAdd ? x + y : x * y);
  } else {
    const A x = static_cast<A>(a), y = static_cast<A>(b);
    if constexpr (kMode == ScatterMode::kAdd) return static_cast<T>(x + y);
    if constexpr (kMode == ScatterMode::kMultiply) return static_cast<T>(x * y);
    if constexpr (!kIsComplex<A>) {
      if constexpr (kMode == ScatterMode::kMax) return x >= y || x != x ? a : b;
      if constexpr (kMode == ScatterMode::kMin) return x <= y || x != x ? a : b;
    }
    return a;
  }
}

template <class T>
void assign_along(char* self, const char* src, const char* index, int64_t n, int64_t self_step, int64_t src_step,
                  int64_t index_step, int64_t self_scale, const Alpha&) {
  if (index_step == 0 && self_step == static_cast<int64_t>(sizeof(T)) && src_step == static_cast<int64_t>(sizeof(T))) {
    std::memcpy(self + *reinterpret_cast<const int64_t*>(index) * self_scale, src, n * sizeof(T));
    return;
  }
  for (int64_t i = 0; i < n; ++i) {
    const int64_t at = *reinterpret_cast<const int64_t*>(index + i * index_step);
    *reinterpret_cast<T*>(self + i * self_step + at * self_scale) = *reinterpret_cast<const T*>(src + i * src_step);
  }
}
// p[i] (op)= s[i], in blocks of fixed size that the compiler turns into vector code.
template <ScatterMode kMode, class T>
void meet_dense(T* p, const T* s, int64_t n) {
  constexpr int64_t kBlock = 16;
  int64_t i = 0;
  if constexpr (kMode == ScatterMode::kAdd) {
    if (add_elements(DTypeOf<T>::value, p, s, n)) return;
  }
  for (; i + kBlock <= n; i += kBlock) {
    T a[kBlock], b[kBlock];
    std::memcpy(a, p + i, sizeof(a));
    std::memcpy(b, s + i, sizeof(b));
    for (int64_t k = 0; k < kBlock; ++k) a[k] = meet<kMode, T>(a[k], b[k]);
    std::memcpy(p + i, a, sizeof(a));
  }
  for (; i < n; ++i) p[i] = meet<kMode, T>(p[i], s[i]);
}

template <ScatterMode kMode, class T>
void meet_along(char* self, const char* src, const char* index, int64_t n, int64_t self_step, int64_t src_step,
                int64_t index_step, int64_t self_scale, const Alpha& alpha) {
  using A = typename Arithmetic<T>::type;
  constexpr int64_t kSize = sizeof(T);
  if (alpha.one && src_step == kSize) {
    const T* s = reinterpret_cast<const T*>(src);
    if (index_step == 0 && self_step == kSize) {
      meet_dense<kMode, T>(reinterpret_cast<T*>(self + *reinterpret_cast<const int64_t*>(index) * self_scale), s, n);
      return;
    }
    if (index_step == 8 && self_step == 0 && self_scale == kSize) {
      T* p = reinterpret_cast<T*>(self);
      const int64_t* x = reinterpret_cast<const int64_t*>(index);
      const auto one = [&](int64_t i) {
        T* const to = p + x[i];
        *to = meet<kMode, T>(*to, s[i]);
      };
      int64_t i = 0;
      if constexpr (kMode == ScatterMode::kAdd && std::is_floating_point_v<T>) {
        for (; i + 4 <= n; i += 4) {
          one(i);
          one(i + 1);
          one(i + 2);
          one(i + 3);
        }
      }
      for (; i < n; ++i) one(i);
      return;
    }
  }
  const A scale = alpha_as<A>(alpha);
  for (int64_t i = 0; i < n; ++i) {
    const int64_t at = *reinterpret_cast<const int64_t*>(index + i * index_step);
    T* p = reinterpret_cast<T*>(self + i * self_step + at * self_scale);
    T v = *reinterpret_cast<const T*>(src + i * src_step);
    if constexpr (kMode == ScatterMode::kAdd) {
      if (!alpha.one) v = meet<ScatterMode::kMultiply, T>(v, static_cast<T>(scale));
    }
    *p = meet<kMode, T>(*p, v);
  }
}

template <ScatterMode kMode>
ScatterFn choose_meet(DType t) {
  ScatterFn fn = nullptr;
  visit_arithmetic(t, [&](auto v) {
    using T = decltype(v);
    constexpr bool kOrdered = kMode == ScatterMode::kMax || kMode == ScatterMode::kMin;
    if constexpr (!(kOrdered && kIsComplex<typename Arithmetic<T>::type>)) fn = meet_along<kMode, T>;
  });
  return fn;
}

// Whole rows that share an index: each piece of work is a block of self's rows, to which it adds what belongs there.
// False if the rows are short or too few.
bool scatter_rows(ScatterFn fn, std::span<const int64_t> shape, int dim, int64_t self_rows, const Operand& self,
                  const Operand& src, const Operand& index, const Alpha& alpha) {
  Nest<2> row;
  for (int d = 0; d < static_cast<int>(shape.size()); ++d) {
    if (d == dim) continue;
    if (shape[d] > 1 && index.strides[d] != 0) return false;
    row.push(shape[d], {self.strides[d], src.strides[d]});
  }
  row.sort_by(0);
  row.coalesce();
  const int64_t len = row.inner_size(), n = shape[dim];
  // Every block looks at all indices.
  const int64_t blocks = std::min({n * len / (2 * kGrain), len / 32, self_rows, int64_t{8}});
  if (row.rank != 1 || row.inner_stride(0) == 0 || blocks < 4) return false;
  const int64_t none = 0, self_step = self.strides[dim], src_step = src.strides[dim], index_step = index.strides[dim];
  const bool far = n * len * item_size(self.dtype) > (int64_t{4} << 20);
  parallel_for(self_rows, (self_rows + blocks - 1) / blocks, [&](int64_t begin, int64_t end) {
    const auto target = [&](int64_t j) {
      return *reinterpret_cast<const int64_t*>(at_byte(index.data, j * index_step));
    };
    const auto next = [&](int64_t j) {  // the first index from j on that names a row of the block
      while (j < n && (target(j) < begin || target(j) >= end)) ++j;
      return j;
    };
    for (int64_t j = next(0); j < n;) {
      const int64_t after = next(j + 1);
      if (far && after < n)  // its rows begin on other pages
        for (int64_t k = 0; k < kRequestAhead; k += 64) {
          request_ahead(at_byte(self.data, target(after) * self_step), k);
          request_ahead(at_byte(src.data, after * src_step), k);
        }
      fn(at_byte(self.data, target(j) * self_step), at_byte(src.data, j * src_step),
         reinterpret_cast<const char*>(&none), len, row.inner_stride(0), row.inner_stride(1), 0, 0, alpha);
      j = after;
    }
  });
  return true;
}

void scatter(ScatterFn fn, std::span<const int64_t> shape, int dim, int64_t self_rows, const Operand& self,
             const Operand& src, const Operand& index, const Alpha& alpha) {
  if (!shape.empty() && scatter_rows(fn, shape, dim, self_rows, self, src, index, alpha)) return;
  Nest<3> free, ordered;
  for (int d = 0; d < static_cast<int>(shape.size()); ++d) {
    (d == dim ? ordered : free).push(shape[d], {d == dim ? 0 : self.strides[d], src.strides[d], index.strides[d]});
  }
  scatter_nests(fn, free, ordered, shape.empty() ? 0 : self.strides[dim], self, src, index, alpha);
}

// self / (1 + number of values met), where any were.
template <class T>
void divide_by(T* p, int64_t count) {
  using A = typename Arithmetic<T>::type;
  const int64_t n = count + 1;
  if constexpr (std::is_same_v<T, bool>) {
    return;
  } else if constexpr (std::is_integral_v<T>) {
    const T d = static_cast<T>(n);
    if (d == 0) return;
    T q = static_cast<T>(*p / d);
    if (std::is_signed_v<T> && *p % d != 0 && (*p < 0) != (d < 0)) q = static_cast<T>(q - 1);  // rounds down
    *p = q;
  } else if constexpr (kIsComplex<A>) {
    *p = static_cast<T>(static_cast<A>(*p) / static_cast<typename A::value_type>(n));
  } else {
    *p = static_cast<T>(static_cast<A>(*p) / static_cast<A>(n));
  }
}

void scatter_mean_divide(std::span<const int64_t> index_shape, int dim, int64_t self_dim_size, const Operand& self,
                         const Operand& index) {
  const int rank = static_cast<int>(index_shape.size());
  int64_t shape[kMaxNestRank], strides[kMaxNestRank], zeros[kMaxNestRank] = {};
  int64_t count = 1;
  for (int d = rank - 1; d >= 0; --d) {
    shape[d] = d == dim ? self_dim_size : index_shape[d];
    strides[d] = count * static_cast<int64_t>(sizeof(int64_t));
    count *= shape[d];
  }
  if (rank == 0) count = self_dim_size;
  const internal::ScratchArray<int64_t> met(count);
  std::fill(met.get(), met.get() + count, 0);
  const int64_t one = 1;
  scatter(choose_scatter(ScatterMode::kAdd, DType::kInt64), index_shape, dim, self_dim_size,
          {met.get(), DType::kInt64, strides}, {const_cast<int64_t*>(&one), DType::kInt64, zeros}, index, {{}, true});
  Nest<2> nest;
  for (int d = 0; d < rank; ++d) nest.push(shape[d], {self.strides[d], strides[d]});
  visit_arithmetic(self.dtype, [&](auto v) {
    using T = decltype(v);
    for_each_run(nest, 0, nest.count(), [&](const int64_t(&offset)[2], int64_t len) {
      for (int64_t i = 0; i < len; ++i) {
        const int64_t n = *reinterpret_cast<const int64_t*>(at_byte(met.get(), offset[1] + i * nest.inner_stride(1)));
        if (n > 0) divide_by(reinterpret_cast<T*>(at_byte(self.data, offset[0] + i * nest.inner_stride(0))), n);
      }
    });
  });
}

// A 1-d index as an operand of the whole shape.
struct Broadcast {
  int64_t strides[kMaxNestRank] = {};
  int64_t shape[kMaxNestRank];
  Broadcast(std::span<const int64_t> from, int dim, int64_t n) {
    for (size_t d = 0; d < from.size(); ++d) shape[d] = static_cast<int>(d) == dim ? n : from[d];
    if (!from.empty()) strides[dim] = sizeof(int64_t);
  }
};

}  // namespace

ScatterFn choose_scatter(ScatterMode mode, DType t) {
  ScatterFn fn = nullptr;
  switch (mode) {
    case ScatterMode::kAssign:
      visit_size(item_size(t), [&](auto tag) { fn = assign_along<typename decltype(tag)::type>; });
      break;
    case ScatterMode::kAdd:
    case ScatterMode::kMean:
      fn = choose_meet<ScatterMode::kAdd>(t);
      break;
    case ScatterMode::kMultiply:
      fn = choose_meet<ScatterMode::kMultiply>(t);
      break;
    case ScatterMode::kMax:
      fn = choose_meet<ScatterMode::kMax>(t);
      break;
    case ScatterMode::kMin:
      fn = choose_meet<ScatterMode::kMin>(t);
      break;
  }
  static constexpr const char* kNames[] = {"scatter_gather_tensor_cpu",
                                           "scatter_gather_tensor_cpu_reduce_add",
                                           "scatter_gather_tensor_cpu_reduce_multiply",
                                           "scatter_gather_tensor_cpu_reduce_mean",
                                           "scatter_gather_tensor_cpu_reduce_amax",
                                           "scatter_gather_tensor_cpu_reduce_amin"};
  TESSERA_CHECK_NOT_IMPLEMENTED(fn != nullptr, '"', kNames[static_cast<int>(mode)], "\" not implemented for '",
                                type_name_of(t), "'");
  return fn;
}

// The innermost dimension is dense and shares one index: slices are copied whole.
static void gather_slices(const Nest<3>& nest, int64_t self_scale, const Operand& out, const Operand& self,
                          const Operand& index) {
  const int64_t bytes = nest.inner_size() * item_size(out.dtype);
  Nest<3> outer = nest;
  --outer.rank;
  const int last = outer.rank - 1;
  // Slices lie anywhere: some KiB of short ones are asked for ahead of their copies.
  const int64_t ahead = bytes <= 2048 ? 4096 / bytes : INT64_MAX / 2;
  const bool stream = bytes > 2048 && 2 * outer.count() * bytes >= kStreamBytes;
  parallel_for(outer.count(), std::max<int64_t>(1, (stream ? kStreamedPiece : 2 * kGrain) / nest.inner_size()),
               [&](int64_t begin, int64_t end) {
                 for_each_run(outer, begin, end, [&](const int64_t(&offset)[3], int64_t len) {
                   char* o = at_byte(out.data, offset[1]);
                   const char* s = at_byte(self.data, offset[0]);
                   const char* x = at_byte(index.data, offset[2]);
                   const int64_t so = outer.stride[last][1], ss = outer.stride[last][0], sx = outer.stride[last][2];
                   const auto slice = [&](int64_t j) {
                     return s + j * ss + *reinterpret_cast<const int64_t*>(x + j * sx) * self_scale;
                   };
                   for (int64_t j = 0; j < len; ++j) {
                     if (j + ahead < len) {
                       const char* const next = slice(j + ahead);
                       for (int64_t k = 0; k < bytes; k += 64) __builtin_prefetch(next + k);
                     }
                     if (stream)
                       stream_copy(o + j * so, slice(j), bytes);
                     else
                       std::memcpy(o + j * so, slice(j), bytes);
                   }
                 });
                 if (stream) stream_fence();
               });
}

void gather_nest(const Nest<3>& nest, int64_t self_scale, int64_t size_at_index, const Operand& out,
                 const Operand& self, const Operand& index) {
  const int64_t size = item_size(out.dtype);
  if (nest.count() == 0) return;
  const GatherFn fn = visit_size(size, [](auto tag) -> GatherFn { return gather_along<typename decltype(tag)::type>; });
  if (nest.rank > 1 && nest.inner_stride(2) == 0 && nest.inner_stride(0) == size && nest.inner_stride(1) == size) {
    gather_slices(nest, self_scale, out, self, index);
    return;
  }
  const bool far = nest.rank > 1 && nest.inner_stride(0) == 0 && nest.count() > kFarElements &&
                   size_at_index / 4 <= nest.inner_size();
  const int64_t next = far ? nest.stride[nest.rank - 2][0] : 0, line = far ? std::abs(self_scale) * size_at_index : 0;
  const int64_t out_step = nest.inner_stride(1), self_step = nest.inner_stride(0), index_step = nest.inner_stride(2);
  parallel_ranges(nest.count(), kGrain, [&](int64_t begin, int64_t end) {
    for_each_run(nest, begin, end, [&](const int64_t(&offset)[3], int64_t len) {
      char* const o = at_byte(out.data, offset[1]);
      const char *const s = at_byte(self.data, offset[0]), *const x = at_byte(index.data, offset[2]);
      for_each_part(far, len, s + next, line, [&](int64_t b, int64_t e) {
        if (far) request_range(x + (b + kAhead) * index_step, kPart * index_step);
        fn(o + b * out_step, s + b * self_step, x + b * index_step, e - b, out_step, self_step, self_scale, index_step,
           size_at_index);
      });
    });
  });
}

// Where the inner loop runs over a free dimension, the ordered ones are walked for one block of it, so that rows move
// densely and stay in cache.
void scatter_nests(ScatterFn fn, Nest<3> free, Nest<3> ordered, int64_t self_scale, const Operand& self,
                   const Operand& src, const Operand& index, const Alpha& alpha) {
  free.sort_by(0);
  free.coalesce();
  ordered.coalesce();
  const int64_t times = ordered.count();
  if (times == 0) return;
  const bool ordered_inside =
      free.inner_size() < 4 || (ordered.rank > 0 && std::abs(ordered.inner_stride(1)) < std::abs(free.inner_stride(1)));
  const bool far = free.count() * times > kFarElements;
  // Rows are walked in parts of some KiB at least, or each step would be on a page of its own.
  const int64_t grain = std::max<int64_t>(ordered_inside ? 1 : 1024, kGrain / times);
  parallel_for(free.count(), grain, [&](int64_t begin, int64_t end) {
    for_each_run(free, begin, end, [&](const int64_t(&offset)[3], int64_t len) {
      char* p = at_byte(self.data, offset[0]);
      const char* s = at_byte(src.data, offset[1]);
      const char* x = at_byte(index.data, offset[2]);
      auto walk = [&](int64_t i) {
        for_each_run(ordered, 0, times, [&](const int64_t(&o)[3], int64_t n) {
          if (ordered_inside) {
            char* const row = p + i * free.inner_stride(0);
            const char *const from = s + i * free.inner_stride(1) + o[1], *const at =
                                                                              x + i * free.inner_stride(2) + o[2];
            const int64_t from_step = ordered.inner_stride(1), at_step = ordered.inner_stride(2);
            for_each_part(far, n, row + free.inner_stride(0), n * std::abs(self_scale), [&](int64_t b, int64_t e) {
              if (far) {
                request_range(from + (b + kAhead) * from_step, kPart * from_step);
                request_range(at + (b + kAhead) * at_step, kPart * at_step);
              }
              fn(row, from + b * from_step, at + b * at_step, e - b, 0, from_step, at_step, self_scale, alpha);
            });
            return;
          }
          for (int64_t j = 0; j < n; ++j) {
            fn(p, s + o[1] + j * ordered.inner_stride(1), x + o[2] + j * ordered.inner_stride(2), len,
               free.inner_stride(0), free.inner_stride(1), free.inner_stride(2), self_scale, alpha);
          }
        });
      };
      for (int64_t i = 0; i < (ordered_inside ? len : 1); ++i) walk(i);
    });
  });
}

void run_gather(std::span<const int64_t> index_shape, int dim, int64_t self_dim_size, const Operand& out,
                const Operand& self, const Operand& index) {
  check_bounds(index_shape, index, dim, self_dim_size);
  gather(index_shape, dim, self_dim_size, out, self, index);
}

void run_scatter(ScatterMode mode, std::span<const int64_t> index_shape, int dim, int64_t self_dim_size,
                 const Operand& self, const Operand& src, const Operand& index) {
  const ScatterFn fn = choose_scatter(mode, self.dtype);
  check_bounds(index_shape, index, dim, self_dim_size);
  scatter(fn, index_shape, dim, self_dim_size, self, src, index, {{}, true});
  if (mode == ScatterMode::kMean && element_count(index_shape) > 0)
    scatter_mean_divide(index_shape, dim, self_dim_size, self, index);
}

void run_index_select(std::span<const int64_t> shape, int dim, const Operand& out, const Operand& self,
                      const int64_t* index, int64_t n) {
  check_rows(index, n, shape.empty() ? 1 : shape[dim]);
  const Broadcast b(shape, dim, n);
  gather({b.shape, shape.size()}, dim, shape.empty() ? 1 : shape[dim], out, self,
         {const_cast<int64_t*>(index), DType::kInt64, b.strides});
}

void run_index_add(std::span<const int64_t> shape, int dim, const Operand& self, const Operand& src,
                   const int64_t* index, int64_t n, KernelParam alpha) {
  const ScatterFn fn = choose_scatter(ScatterMode::kAdd, self.dtype);
  check_rows(index, n, shape.empty() ? 1 : shape[dim]);
  const Category c = category_of(self.dtype);
  const bool one = c == Category::kComplex ? alpha.c[0] == 1 && alpha.c[1] == 0
                   : c == Category::kFloat ? alpha.f == 1
                                           : alpha.i == 1;
  const Operand index_op{const_cast<int64_t*>(index), DType::kInt64, nullptr};
  if (shape.empty()) {  // one element, n additions
    const int64_t zero = 0;
    fn(static_cast<char*>(self.data), static_cast<const char*>(src.data), reinterpret_cast<const char*>(&zero), n, 0, 0,
       0, 0, {alpha, one});
    return;
  }
  const Broadcast b(shape, dim, n);
  scatter(fn, {b.shape, shape.size()}, dim, shape[dim], self, src, {index_op.data, DType::kInt64, b.strides},
          {alpha, one});
}

}  // namespace tessera::cpu
