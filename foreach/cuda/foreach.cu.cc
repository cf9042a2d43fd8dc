// One function of many tensors, some sixty of them in a launch: their addresses travel with it. The results are those
// of the elementwise engine.
#include "foreach/cuda/foreach.h"

#include <algorithm>
#include <cmath>

#include "tensor/core/error.h"
#include "tensor/cuda/support/block.h"
#include "tensor/cuda/support/math.h"
#include "tensor/cuda/support/types.h"

namespace tessera::cuda {
namespace {

constexpr int kTensors = 60;      // of one launch, in at most 4 KiB of arguments
constexpr int64_t kPiece = 4096;  // elements of a block
constexpr int kMostPieces = 1 << 30;

// Tensor i has the pieces [first[i], first[i + 1]).
struct Batch {
  void* out[kTensors];
  const void* operands[3][kTensors];
  int64_t size[kTensors];
  double number[kTensors];
  const void* number_at[kTensors];  // on the device, a factor of it; null: none
  int first[kTensors + 1];
  int count;

  __device__ int tensor_of(int piece) const {
    int low = 0, high = count;
    while (high - low > 1) {
      const int middle = (low + high) / 2;
      if (first[middle] <= piece)
        low = middle;
      else
        high = middle;
    }
    return low;
  }
};

// How many operands a function reads.
constexpr int operands_of(ListOp op) {
  switch (op) {
    case ListOp::kFill:
      return 0;
    case ListOp::kAdd:
    case ListOp::kMul:
    case ListOp::kDiv:
    case ListOp::kMax:
    case ListOp::kMin:
    case ListOp::kPow:
    case ListOp::kLerp:
    case ListOp::kCopy:
      return 2;
    case ListOp::kAddcmul:
    case ListOp::kAddcdiv:
    case ListOp::kLerpEach:
      return 3;
    default:
      return 1;
  }
}

// A nan stays; of two equal numbers (zeros) the one of the tensor.
template <class A>
__device__ A at_least(A x, A low) {
  return low != low ? low : low > x ? low : x;
}
template <class A>
__device__ A at_most(A x, A high) {
  return high != high ? high : high < x ? high : x;
}
template <class A>
__device__ A interpolated(A start, A end, A w) {
  const A change = end - start;
  return std::fabs(w) < A(0.5) ? std::fma(w, change, start) : std::fma(-change, 1 - w, end);
}

// Functions with numbers or other tensors, and short ones of one tensor.
template <class A>
struct Arithmetic {
  __device__ static A call(ListOp op, A x, A y, A z, A s) {
    switch (op) {
      case ListOp::kAdd:
        return std::fma(s, y, x);
      case ListOp::kAddNumber:
        return x + s;
      case ListOp::kMul:
        return x * y;
      case ListOp::kMulNumber:
        return x * s;
      case ListOp::kDiv:
        return x / y;
      case ListOp::kDivNumber:
        return x / s;
      case ListOp::kMax:
        return at_least(x, y);
      case ListOp::kMaxNumber:
        return at_least(x, s);
      case ListOp::kMin:
        return at_most(x, y);
      case ListOp::kMinNumber:
        return at_most(x, s);
      case ListOp::kAddcmul:
        return std::fma(s * y, z, x);
      case ListOp::kAddcdiv:
        return x + s * y / z;
      case ListOp::kLerp:
        return interpolated(x, y, s);
      case ListOp::kLerpEach:
        return interpolated(x, y, z);
      case ListOp::kCopy:
        return y;
      case ListOp::kFill:
        return s;
      case ListOp::kAbs:
        return std::fabs(x);
      case ListOp::kNeg:
        return -x;
      case ListOp::kSign:
        return static_cast<A>((x > 0) - (x < 0));
      case ListOp::kReciprocal:
        return 1 / x;
      case ListOp::kSqrt:
        return std::sqrt(x);
      case ListOp::kRsqrt:
        return 1 / std::sqrt(x);
      case ListOp::kCeil:
        return std::ceil(x);
      case ListOp::kFloor:
        return std::floor(x);
      case ListOp::kRound:
        return std::nearbyint(x);
      case ListOp::kTrunc:
        return std::trunc(x);
      case ListOp::kFrac:
        return x - std::trunc(x);
      default:
        return x;
    }
  }
};
// Long ones, in kernels of their own so that the others need few registers.
template <class A>
struct Mathematics {
  __device__ __attribute__((noinline)) static A call(ListOp op, A x, A y, A, A s) {
    switch (op) {
      case ListOp::kPow:
        return std::pow(x, y);
      case ListOp::kPowNumber:
        return s == 2 ? x * x : std::pow(x, s);
      case ListOp::kNumberPow:
        return std::pow(s, x);
      case ListOp::kAcos:
        return std::acos(x);
      case ListOp::kAsin:
        return std::asin(x);
      case ListOp::kAtan:
        return std::atan(x);
      case ListOp::kCos:
        return std::cos(x);
      case ListOp::kCosh:
        return std::cosh(x);
      case ListOp::kErf:
        return std::erf(x);
      case ListOp::kErfc:
        return std::erfc(x);
      case ListOp::kExp:
        return std::exp(x);
      case ListOp::kExpm1:
        return std::expm1(x);
      case ListOp::kLgamma:
        return math::lgamma(x);
      case ListOp::kLog:
        return std::log(x);
      case ListOp::kLog10:
        return std::log10(x);
      case ListOp::kLog1p:
        return std::log1p(x);
      case ListOp::kLog2:
        return std::log2(x);
      case ListOp::kSigmoid:
        return math::logistic(x);
      case ListOp::kSin:
        return std::sin(x);
      case ListOp::kSinh:
        return std::sinh(x);
      case ListOp::kTan:
        return std::tan(x);
      default:
        return std::tanh(x);
    }
  }
};
bool is_long(ListOp op) {
  switch (op) {
    case ListOp::kPow:
    case ListOp::kPowNumber:
    case ListOp::kNumberPow:
    case ListOp::kAcos:
    case ListOp::kAsin:
    case ListOp::kAtan:
    case ListOp::kCos:
    case ListOp::kCosh:
    case ListOp::kErf:
    case ListOp::kErfc:
    case ListOp::kExp:
    case ListOp::kExpm1:
    case ListOp::kLgamma:
    case ListOp::kLog:
    case ListOp::kLog10:
    case ListOp::kLog1p:
    case ListOp::kLog2:
    case ListOp::kSigmoid:
    case ListOp::kSin:
    case ListOp::kSinh:
    case ListOp::kTan:
    case ListOp::kTanh:
      return true;
    default:
      return false;
  }
}

template <class T, class F, int kCount>
__device__ inline void apply_at(ListOp op, int operands, void* out, const void* const (&in)[3], int64_t i,
                                Compute<T> s) {
  using A = Compute<T>;
  struct alignas(sizeof(T) * kCount) Group {
    T v[kCount];
  };
  Group group[3];
#pragma unroll
  for (int k = 0; k < 3; ++k)
    if (k < operands) group[k] = *reinterpret_cast<const Group*>(static_cast<const T*>(in[k]) + i);
  Group result;
#pragma unroll
  for (int k = 0; k < kCount; ++k) {
    const A x = operands > 0 ? load(&group[0].v[k]) : A{0}, y = operands > 1 ? load(&group[1].v[k]) : A{0},
            z = operands > 2 ? load(&group[2].v[k]) : A{0};
    store(&result.v[k], F::call(op, x, y, z, s));
  }
  *reinterpret_cast<Group*>(static_cast<T*>(out) + i) = result;
}

template <class T, class F>
__global__ void list_kernel(Batch batch, ListOp op, int operands, const T* number_on_device) {
  const int piece = static_cast<int>(blockIdx.x), t = batch.tensor_of(piece);
  void* const out = batch.out[t];
  const void* in[3];
  uintptr_t bits = reinterpret_cast<uintptr_t>(out);
  for (int k = 0; k < 3; ++k) {
    in[k] = batch.operands[k][t];
    bits |= reinterpret_cast<uintptr_t>(in[k]);
  }
  Compute<T> s = number_on_device ? load(number_on_device) : static_cast<Compute<T>>(batch.number[t]);
  if (batch.number_at[t]) s *= load(static_cast<const T*>(batch.number_at[t]));
  const int64_t begin = (piece - batch.first[t]) * kPiece,
                end = begin + kPiece < batch.size[t] ? begin + kPiece : batch.size[t];
  constexpr int kCount = 16 / sizeof(T);
  int64_t i = begin;
  if (bits % 16 == 0) {
    for (i += threadIdx.x * kCount; i + kCount <= end; i += blockDim.x * kCount)
      apply_at<T, F, kCount>(op, operands, out, in, i, s);
    i = end - (end - begin) % kCount;
  }
  for (i += threadIdx.x; i < end; i += blockDim.x) apply_at<T, F, 1>(op, operands, out, in, i, s);
}

// ---- Norms ----

// Each piece gives a partial result; those of a tensor are combined in their order.
template <class T>
__global__ void partial_norms(Batch batch, ListOp op, double* partial) {
  const int piece = static_cast<int>(blockIdx.x), t = batch.tensor_of(piece);
  const T* const x = static_cast<const T*>(batch.operands[0][t]);
  const int64_t begin = (piece - batch.first[t]) * kPiece,
                end = begin + kPiece < batch.size[t] ? begin + kPiece : batch.size[t];
  Compute<T> sum = 0;
  for (int64_t i = begin + threadIdx.x; i < end; i += blockDim.x) {
    const Compute<T> v = load(x + i);
    if (op == ListOp::kNorm2)
      sum += v * v;
    else if (op == ListOp::kNorm1)
      sum += std::fabs(v);
    else
      sum = at_least(sum, std::fabs(v));
  }
  const double total = block_reduce(
      static_cast<double>(sum), [op](double a, double b) { return op == ListOp::kNormMax ? at_least(a, b) : a + b; });
  if (threadIdx.x == 0) partial[piece] = total;
}
template <class T>
__global__ void finish_norms(Batch batch, ListOp op, const double* partial) {
  const int t = static_cast<int>(blockIdx.x);
  const auto both = [op](double a, double b) { return op == ListOp::kNormMax ? at_least(a, b) : a + b; };
  double sum = 0;
  for (int p = batch.first[t] + static_cast<int>(threadIdx.x); p < batch.first[t + 1];
       p += static_cast<int>(blockDim.x))
    sum = both(sum, partial[p]);
  sum = block_reduce(sum, both);
  if (threadIdx.x == 0)
    store(static_cast<T*>(batch.out[t]), static_cast<Compute<T>>(op == ListOp::kNorm2 ? std::sqrt(sum) : sum));
}

// ---- Launches ----

template <class T>
void add_tensor(Batch& batch, const ListCall& call, int64_t i, int64_t done, int64_t size, bool reduces) {
  const int b = batch.count++;
  batch.out[b] = reduces ? call.out[i] : static_cast<T*>(call.out[i]) + done;
  for (int k = 0; k < operands_of(call.op); ++k)
    batch.operands[k][b] = static_cast<const T*>(call.operands[k][i]) + done;
  batch.size[b] = size;
  batch.number[b] = call.numbers ? call.numbers[i] : call.number;
  batch.number_at[b] = call.numbers_on_device ? call.numbers_on_device[i] : nullptr;
  batch.first[b + 1] = batch.first[b] + static_cast<int>((size + kPiece - 1) / kPiece);
}

template <class T>
void run_elementwise(const ListCall& call) {
  const T* const number = static_cast<const T*>(call.number_on_device);
  int64_t i = 0, done = 0;  // the tensor that comes next, and how many of its elements are in earlier launches
  while (i < call.count) {
    Batch batch{};
    while (i < call.count && batch.count < kTensors && batch.first[batch.count] < kMostPieces) {
      const int64_t size = std::min(call.sizes[i] - done, kMostPieces * kPiece);
      if (size > 0) add_tensor<T>(batch, call, i, done, size, false);
      done += size;
      if (done >= call.sizes[i]) ++i, done = 0;
    }
    if (batch.count == 0) continue;
    launch(is_long(call.op) ? list_kernel<T, Mathematics<Compute<T>>> : list_kernel<T, Arithmetic<Compute<T>>>,
           dim3(static_cast<unsigned>(batch.first[batch.count])), dim3(256), batch, call.op, operands_of(call.op),
           number);
  }
}

template <class T>
void run_norms(const ListCall& call) {
  for (int64_t i = 0; i < call.count;) {
    Batch batch{};
    for (; i < call.count && batch.count < kTensors && batch.first[batch.count] < kMostPieces; ++i) {
      TESSERA_CHECK(call.sizes[i] <= kMostPieces * kPiece,
                    "_foreach_norm: a tensor has too many elements: ", call.sizes[i]);
      add_tensor<T>(batch, call, i, 0, call.sizes[i], true);
    }
    const Buffer partial(batch.first[batch.count] * sizeof(double));
    launch_blocks(partial_norms<T>, dim3(static_cast<unsigned>(batch.first[batch.count])), dim3(256), 0, batch, call.op,
                  partial.as<double>());
    launch_blocks(finish_norms<T>, dim3(static_cast<unsigned>(batch.count)), dim3(256), 0, batch, call.op,
                  partial.as<double>());
  }
}

}  // namespace

void list_call(const ListCall& call) {
  const bool reduces = call.op >= ListOp::kNorm1;
  visit<kAllFloats>(call.dtype, "_foreach",
                    [&]<class T>(Tag<T>) { reduces ? run_norms<T>(call) : run_elementwise<T>(call); });
}

void connect(foreach::Engines& engines) { engines.list_call = &list_call; }

}  // namespace tessera::cuda
