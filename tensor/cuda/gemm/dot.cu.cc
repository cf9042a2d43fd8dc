// Inner products: blocks sum fixed pieces, one block adds the pieces' sums in order.
#include "tensor/cuda/support/block.h"
#include "tensor/cuda/gemm/engines.h"
#include "tensor/cuda/support/types.h"

namespace tessera::cuda {
namespace {

constexpr int kItems = 16;  // per thread, at least
constexpr int kMostPieces = 1024;

struct Add {
  template <class S>
  __device__ S operator()(const S& a, const S& b) const {
    return a + b;
  }
};
struct Or {
  __device__ uint32_t operator()(uint32_t a, uint32_t b) const { return a | b; }
};

// What sums are kept in: real numbers in double where that costs nothing, integers modulo 2^64, bool as 0 or 1.
template <class T>
struct SumOf {
  using type = uint64_t;
};
template <>
struct SumOf<bool> {
  using type = uint32_t;
};
template <>
struct SumOf<Half> {
  using type = float;
};
template <>
struct SumOf<BFloat16> {
  using type = float;
};
template <>
struct SumOf<float> {
  using type = double;
};
template <>
struct SumOf<double> {
  using type = double;
};
template <>
struct SumOf<ComplexHalf> {
  using type = Complex<float>;
};
template <class R>
struct SumOf<Complex<R>> {
  using type = Complex<R>;
};

template <class T>
using Combine = std::conditional_t<std::is_same_v<T, bool>, Or, Add>;

template <class T, class S>
__device__ S product(const T& x, const T& y, bool conj_x) {
  if constexpr (std::is_same_v<T, bool>) {
    return x && y;
  } else if constexpr (is_complex_type<S>) {
    const S a = load(&x), b = load(&y);
    const Real<S> im = conj_x ? -a.imag() : a.imag();
    return S(a.real() * b.real() - im * b.imag(), a.real() * b.imag() + im * b.real());
  } else {
    return static_cast<S>(load(&x)) * static_cast<S>(load(&y));
  }
}

template <class T, class S>
__global__ void dot_kernel(int64_t n, int64_t piece, const T* x, int64_t xs, const T* y, int64_t ys, bool conj_x,
                           S* pieces, T* out) {
  const int64_t begin = blockIdx.x * piece, end = begin + piece < n ? begin + piece : n;
  S sum{};
  const Combine<T> op;
  for (int64_t i = begin + threadIdx.x; i < end; i += kThreads)
    sum = op(sum, product<T, S>(x[i * xs], y[i * ys], conj_x));
  sum = block_reduce(sum, op);
  if (threadIdx.x != 0) return;
  if (gridDim.x == 1)
    store(out, static_cast<Compute<T>>(sum));
  else
    pieces[blockIdx.x] = sum;
}

template <class T, class S>
__global__ void dot_finish_kernel(int count, const S* pieces, T* out) {
  S sum{};
  const Combine<T> op;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += kThreads) sum = op(sum, pieces[i]);
  sum = block_reduce(sum, op);
  if (threadIdx.x == 0) store(out, static_cast<Compute<T>>(sum));
}

template <class T>
void run_dot(int64_t n, const void* x, int64_t xs, const void* y, int64_t ys, bool conj_x, void* out) {
  using S = typename SumOf<T>::type;
  constexpr int64_t kLeast = int64_t{kThreads} * kItems;
  int64_t piece = (n + kMostPieces - 1) / kMostPieces;
  piece = (piece + kLeast - 1) / kLeast * kLeast;
  const int64_t count = n > piece ? (n + piece - 1) / piece : 1;
  const Buffer pieces(count > 1 ? static_cast<size_t>(count) * sizeof(S) : 0);
  launch_blocks(dot_kernel<T, S>, dim3(static_cast<unsigned>(count)), dim3(kThreads), 0, n, piece,
                static_cast<const T*>(x), xs, static_cast<const T*>(y), ys, conj_x, pieces.as<S>(),
                static_cast<T*>(out));
  if (count > 1)
    launch_blocks(dot_finish_kernel<T, S>, dim3(1), dim3(kThreads), 0, static_cast<int>(count), pieces.as<S>(),
                  static_cast<T*>(out));
}

}  // namespace

void dot(DType dtype, int64_t n, const void* x, int64_t xs, const void* y, int64_t ys, bool conj_x, void* out) {
  TESSERA_CHECK(n >= 0, "dot: the number of elements must not be negative, got ", n);
  TESSERA_CHECK_NOT_IMPLEMENTED(dtype <= DType::kComplex128, "dot is not implemented for dtype ", name_of(dtype));
  visit<kBools | kInts | kWideInts | kAllFloats | kComplexes | kComplexHalves>(
      dtype, "dot", [&](auto tag) { run_dot<typename decltype(tag)::type>(n, x, xs, y, ys, conj_x, out); });
}

}  // namespace tessera::cuda
