// Choice by a mask, and the parts of complex numbers.
#include <numbers>

#include "tensor/cuda/pointwise/pointwise.h"

namespace tessera::pw {
extern __attribute__((weak)) const PointwiseOp where, masked_fill, conj_physical, angle;
}

namespace tessera::cuda {
namespace {

// These move bits, whatever they mean.
struct Where : Ternary {
  static constexpr unsigned kBoolInputs = 1;
  template <class T>
  static __device__ T call(const KernelParam*, uint8_t condition, T a, T b) {
    return condition != 0 ? a : b;
  }
};
struct MaskedFill : Binary {  // params: the value's bits
  static constexpr unsigned kBoolInputs = 2;
  template <class T>
  static __device__ T call(const KernelParam* p, T x, uint8_t mask) {
    T value;
    memcpy(&value, p, sizeof value);
    return mask != 0 ? value : x;
  }
};
void value_bits(KernelParam* p, DType t) {
  const KernelParam v = *p;
  if (is_complex(t))
    cpu::convert(t, p, DType::kComplex128, v.c, 1);
  else if (is_floating_point(t))
    cpu::convert(t, p, DType::kFloat64, &v.f, 1);
  else
    cpu::convert(t, p, DType::kInt64, &v.i, 1);
}

struct Angle : Unary {
  template <class T>
  static __device__ Real<T> call(const KernelParam*, T x) {
    if constexpr (is_complex_type<T>)
      return std::atan2(x.imag(), x.real());
    else
      return x != x ? x : x < 0 ? static_cast<T>(std::numbers::pi) : T{0};
  }
};

template <class F>
constexpr PointwiseEntry by_size(PointwiseEntry e) {
  return e.bits<F>()
      .template kernel<F, uint16_t>(DType::kFloat16)
      .template kernel<F, uint16_t>(DType::kBFloat16)
      .template kernel<F, uint32_t>(DType::kFloat32)
      .template kernel<F, uint32_t>(DType::kComplex32)
      .template kernel<F, uint64_t>(DType::kFloat64)
      .template kernel<F, uint64_t>(DType::kComplex64)
      .template kernel<F, Bytes16>(DType::kComplex128);
}

constexpr PointwiseEntry kEntries[] = {
    by_size<Where>({&pw::where}),
    by_size<MaskedFill>({&pw::masked_fill}).prepared(value_bits),
    PointwiseEntry{&pw::conj_physical}.copies().shortcut({DType::kComplex64, DType::kComplex128}, Shortcut::kConjugate),
    PointwiseEntry{&pw::angle}.floats<Angle>().complexes<Angle>(),
};

}  // namespace

PointwiseTable selection_kernels() { return kEntries; }

}  // namespace tessera::cuda
