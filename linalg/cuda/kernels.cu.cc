#include "linalg/cuda/kernels.h"

#include <algorithm>
#include <array>
#include <limits>

#include "linalg/cuda/engines.h"
#include "linalg/cuda/view.h"
#include "tensor/cuda/pointwise/engines.h"
#include "tensor/cuda/support/block.h"
#include "tensor/cuda/support/types.h"

namespace tessera::cuda {
namespace {

constexpr unsigned kTypes = kFloats | kComplexes;

struct Place {
  int64_t b, i, j;
};
// Number n of the elements, those that lie beside each other one after the other.
struct Numbering {
  int64_t rows, cols;
  bool by_rows;
  explicit Numbering(const MatrixBatch& m) : rows(m.rows), cols(m.cols), by_rows(m.col_stride <= m.row_stride) {}
  __device__ Place operator()(int64_t n) const {
    const int64_t size = rows * cols, rest = n % size;
    return by_rows ? Place{n / size, rest / cols, rest % cols} : Place{n / size, rest % rows, rest / rows};
  }
};
int64_t elements(const MatrixBatch& m) { return m.count * m.rows * m.cols; }

template <class T>
struct WriteTriangle {  // of `from`, zeros elsewhere
  View<T> to, from;
  Numbering numbering;
  bool upper;
  __device__ void operator()(int64_t n) const {
    const auto [b, i, j] = numbering(n);
    to(b, i, j) = (upper ? i <= j : i >= j) ? from(b, i, j) : T(0);
  }
};
void write_triangle(DType dtype, const MatrixBatch& to, const MatrixBatch& from, bool upper) {
  visit<kTypes>(dtype, "triangle", [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_each(elements(to), WriteTriangle<T>{View<T>(to), View<T>(from), Numbering(to), upper});
  });
}

template <class T>
struct WriteDiagonal {  // zeros elsewhere
  View<T> to;
  Numbering numbering;
  T value;
  __device__ void operator()(int64_t n) const {
    const auto [b, i, j] = numbering(n);
    to(b, i, j) = i == j ? value : T(0);
  }
};
void write_diagonal(DType dtype, const MatrixBatch& m, int value) {
  visit<kTypes>(dtype, "identity", [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_each(elements(m), WriteDiagonal<T>{View<T>(m), Numbering(m), T(static_cast<Real<T>>(value))});
  });
}

template <class T>
struct MakeReal {
  View<T> m;
  __device__ void operator()(int64_t n) const {
    T& d = m(n / m.rows, n % m.rows, n % m.rows);
    d = T(d.real());
  }
};

template <class T>
struct FindZero {
  View<T> m;
  int32_t* found;
  __device__ void operator()(int64_t b) const {
    const int64_t size = m.rows < m.cols ? m.rows : m.cols;
    int64_t i = 0;
    while (i < size && m(b, i, i) != T(0)) ++i;
    found[b] = i < size ? static_cast<int32_t>(i + 1) : 0;
  }
};

template <class R>
__device__ bool finite(R x) {
  return x - x == R(0);
}
template <class R>
__device__ bool finite(const Complex<R>& x) {
  return finite(x.real()) && finite(x.imag());
}

// A block for each matrix.
template <class T>
__global__ void replace_kernel(View<T> m, int64_t count, Part part, int32_t* bad) {
  const int64_t size = m.rows * m.cols;
  for (int64_t b = blockIdx.x; b < count; b += gridDim.x) {
    bool fine = true;
    for (int64_t n = threadIdx.x; n < size; n += blockDim.x) {
      const int64_t i = n % m.rows, j = n / m.rows;
      if ((part == Part::kLower && i < j) || (part == Part::kUpper && i > j)) continue;
      fine = fine && finite(m(b, i, j));
    }
    const bool replaced = __syncthreads_or(!fine) != 0;
    if (replaced)
      for (int64_t n = threadIdx.x; n < size; n += blockDim.x) {
        const int64_t i = n % m.rows, j = n / m.rows;
        m(b, i, j) = i == j ? T(1) : T(0);
      }
    if (threadIdx.x == 0) bad[b] = replaced ? -1 : 0;
  }
}

struct MergeInfos {
  const int32_t* bad;
  int32_t* info;
  __device__ void operator()(int64_t b) const {
    if (bad[b] != 0) info[b] = bad[b];
  }
};

template <class From, class To>
struct ConvertPivots {
  const From* from;
  To* to;
  __device__ void operator()(int64_t i) const { to[i] = static_cast<To>(from[i]); }
};

struct WriteAddresses {
  void** to;
  char* first;
  int64_t step;
  __device__ void operator()(int64_t i) const { to[i] = first + i * step; }
};

// What a determinant is made of.
template <class T>
struct Factors {
  T value, sign;
  double logabs;
};
template <class T>
struct MultiplyFactors {
  __device__ Factors<T> operator()(const Factors<T>& a, const Factors<T>& b) const {
    return {a.value * b.value, a.sign * b.sign, a.logabs + b.logabs};
  }
};
template <class T>
__device__ double size_of(T x) {
  return fabs(static_cast<double>(x));
}
template <class R>
__device__ double size_of(const Complex<R>& x) {
  return hypot(static_cast<double>(x.real()), static_cast<double>(x.imag()));
}
template <class T>
__global__ void determinant_kernel(View<T> lu, int64_t count, const int32_t* pivots, T* value, T* sign,
                                   Real<T>* logabs) {
  const MultiplyFactors<T> multiply;
  for (int64_t b = blockIdx.x; b < count; b += gridDim.x) {
    Factors<T> mine{T(1), T(1), 0};
    for (int64_t i = threadIdx.x; i < lu.rows; i += blockDim.x) {
      const T d = pivots[b * lu.rows + i] == i + 1 ? lu(b, i, i) : -lu(b, i, i);
      const double size = size_of(d);
      mine = multiply(mine, {d, size == 0 ? T(0) : T(d / static_cast<Real<T>>(size)), log(size)});
    }
    const Factors<T> all = block_reduce(mine, multiply);
    if (threadIdx.x != 0) continue;
    if (value) value[b] = all.value;
    if (sign) sign[b] = all.sign;
    if (logabs) logabs[b] = static_cast<Real<T>>(all.logabs);
  }
}

struct UnpackPivots {
  const int32_t* pivots;
  int64_t size, rows;
  int64_t* to;
  __device__ void operator()(int64_t b) const {
    int64_t* const order = to + b * rows;
    for (int64_t i = 0; i < rows; ++i) order[i] = i;
    for (int64_t i = 0; i < size; ++i) {
      const int64_t other = pivots[b * size + i] - 1;
      if (other < 0 || other >= rows) continue;
      const int64_t kept = order[i];
      order[i] = order[other];
      order[other] = kept;
    }
  }
};

template <class R>
struct UnpackVectors {
  View<R> pairs;
  const Complex<R>* w;
  View<Complex<R>> to;
  Numbering numbering;
  __device__ void operator()(int64_t n) const {
    const auto [b, i, j] = numbering(n);
    const R imag = w[b * to.cols + j].imag();
    Complex<R> v(pairs(b, i, j));
    // (What is no pair belongs to a matrix without results.)
    if (imag > 0 && j + 1 < to.cols) v = Complex<R>(pairs(b, i, j), pairs(b, i, j + 1));
    if (imag < 0 && j > 0) v = Complex<R>(pairs(b, i, j - 1), -pairs(b, i, j));
    to(b, i, j) = v;
  }
};

template <class T>
struct Spoil {
  const int32_t* info;
  View<T> m;
  Numbering numbering;
  T nan;
  __device__ void operator()(int64_t n) const {
    const auto [b, i, j] = numbering(n);
    if (info[b] != 0) m(b, i, j) = nan;
  }
};
template <class T>
void spoil(const int32_t* info, const MatrixBatch& m) {
  const auto nan = std::numeric_limits<Real<T>>::quiet_NaN();
  for_each(elements(m), Spoil<T>{info, View<T>(m), Numbering(m), T(nan, nan)});
}

dim3 blocks_of(int64_t count) { return dim3(static_cast<unsigned>(std::min<int64_t>(count, 1 << 16))); }

}  // namespace

void copy_matrices(DType dtype, const MatrixBatch& to, const MatrixBatch& from, bool conj) {
  const int64_t item = item_size(dtype);
  const std::array<int64_t, 3> shape{to.count, to.cols, to.rows};
  const auto bytes = [&](const MatrixBatch& m) {
    return std::array<int64_t, 3>{m.batch_stride * item, m.col_stride * item, m.row_stride * item};
  };
  const auto to_strides = bytes(to), from_strides = bytes(from);
  if (elements(to) > 0)
    cuda::copy_strided(shape, {to.data, dtype, to_strides.data()}, {from.data, dtype, from_strides.data()}, conj,
                       false);
}

Buffer addresses(DType dtype, void* data, int64_t count, int64_t step) {
  Buffer to(static_cast<size_t>(count) * sizeof(void*));
  for_each(count, WriteAddresses{to.as<void*>(), static_cast<char*>(data), step * item_size(dtype)});
  return to;
}

void widen_pivots(const int32_t* from, int64_t n, int64_t* to) {
  for_each(n, ConvertPivots<int32_t, int64_t>{from, to});
}
void narrow_pivots(const int64_t* from, int64_t n, int32_t* to) {
  for_each(n, ConvertPivots<int64_t, int32_t>{from, to});
}

void keep_triangle(DType dtype, const MatrixBatch& m, bool upper) { write_triangle(dtype, m, m, upper); }
void set_identity(DType dtype, const MatrixBatch& m) { write_diagonal(dtype, m, 1); }
void set_zero(DType dtype, const MatrixBatch& m) { write_diagonal(dtype, m, 0); }

void make_diagonal_real(DType dtype, const MatrixBatch& m) {
  visit<kTypes>(dtype, "diagonal", [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (is_complex_type<T>) for_each(m.count * m.rows, MakeReal<T>{View<T>(m)});
  });
}

void find_zero_on_diagonal(DType dtype, const MatrixBatch& m, int32_t* found) {
  visit<kTypes>(dtype, "diagonal", [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_each(m.count, FindZero<T>{View<T>(m), found});
  });
}

void replace_not_finite(DType dtype, const MatrixBatch& m, Part part, int32_t* bad) {
  visit<kTypes>(dtype, "finite", [&](auto tag) {
    using T = typename decltype(tag)::type;
    launch_blocks(replace_kernel<T>, blocks_of(m.count), dim3(256), 0, View<T>(m), m.count, part, bad);
  });
}

void merge_infos(const int32_t* bad, int64_t count, int32_t* info) { for_each(count, MergeInfos{bad, info}); }

void unpack_eigenvectors(DType dtype, const Columns& pairs, const void* w, const MatrixBatch& to) {
  visit<kFloats>(dtype, "eigenvectors", [&](auto tag) {
    using R = typename decltype(tag)::type;
    for_each(elements(to), UnpackVectors<R>{View<R>(pairs.batch()), static_cast<const Complex<R>*>(w),
                                            View<Complex<R>>(to), Numbering(to)});
  });
}

void spoil_failed(DType dtype, const int32_t* info, int64_t count, int64_t n, void* w, const MatrixBatch* v) {
  visit<kComplexes>(dtype, "eigenvalues", [&](auto tag) {
    using T = typename decltype(tag)::type;
    spoil<T>(info, {w, count, 1, n, n, 1, n});
    if (v) spoil<T>(info, *v);
  });
}

// --- engines

void run_upper_triangle(DType dtype, MatrixBatch from, MatrixBatch to) { write_triangle(dtype, to, from, true); }

void run_unpack_pivots(const int32_t* pivots, int64_t count, int64_t size, int64_t rows, int64_t* to) {
  for_each(count, UnpackPivots{pivots, size, rows, to});
}

void run_determinant(DType dtype, const MatrixBatch& lu, const int32_t* pivots, cpu::DeterminantResult to) {
  if (lu.count == 0) return;
  visit<kTypes>(dtype, "determinant", [&](auto tag) {
    using T = typename decltype(tag)::type;
    launch_blocks(determinant_kernel<T>, blocks_of(lu.count), dim3(128), 0, View<T>(lu), lu.count, pivots,
                  static_cast<T*>(to.value), static_cast<T*>(to.sign), static_cast<Real<T>*>(to.logabs));
  });
}

}  // namespace tessera::cuda
