// Visiting dtypes, and loops: what the files of the index engines share.
#pragma once

#include <complex>
#include <cstdint>

#include "tensor/core/dtype.h"
#include "tensor/core/error.h"
#include "tensor/core/half.h"
#include "tensor/core/visit.h"
#include "tensor/cpu/index/index.h"
#include "tensor/cpu/support/strided_nest.h"

namespace tessera::cpu {

// f(T{}) for dtypes with arithmetic; nothing for others.
template <class F>
void visit_arithmetic(DType t, F&& f) {
  switch (t) {
    case DType::kBool:
      f(bool{});
      return;
    case DType::kUInt8:
      f(uint8_t{});
      return;
    case DType::kInt8:
      f(int8_t{});
      return;
    case DType::kInt16:
      f(int16_t{});
      return;
    case DType::kInt32:
      f(int32_t{});
      return;
    case DType::kInt64:
      f(int64_t{});
      return;
    case DType::kUInt16:
      f(uint16_t{});
      return;
    case DType::kUInt32:
      f(uint32_t{});
      return;
    case DType::kUInt64:
      f(uint64_t{});
      return;
    case DType::kFloat16:
      f(Half{});
      return;
    case DType::kBFloat16:
      f(BFloat16{});
      return;
    case DType::kFloat32:
      f(float{});
      return;
    case DType::kFloat64:
      f(double{});
      return;
    case DType::kComplex32:
      f(ComplexHalf{});
      return;
    case DType::kComplex64:
      f(std::complex<float>{});
      return;
    case DType::kComplex128:
      f(std::complex<double>{});
      return;
    default:
      return;
  }
}

// reverse_elements past the caches; stream_fence() afterwards.
void stream_reversed(int64_t item_size, void* to, const void* last, int64_t n);

// A factor of added values.
struct Alpha {
  KernelParam value;
  bool one;
};
// *(self + i * self_step + index[i] * self_scale) (op)= src[i], n times in order; steps in bytes.
using ScatterFn = void (*)(char* self, const char* src, const char* index, int64_t n, int64_t self_step,
                           int64_t src_step, int64_t index_step, int64_t self_scale, const Alpha& alpha);
// Throws NotImplementedError where the mode has no meaning for the dtype.
ScatterFn choose_scatter(ScatterMode mode, DType t);

// Nests over (self, other, index): self is addressed by its strides and by index * self_scale; indices are below
// size_at_index.
void gather_nest(const Nest<3>& nest, int64_t self_scale, int64_t size_at_index, const Operand& out,
                 const Operand& self, const Operand& index);
// free: the dimensions along which two iterations never meet in self (threads share these out); ordered: the others,
// walked in row-major order.
void scatter_nests(ScatterFn fn, Nest<3> free, Nest<3> ordered, int64_t self_scale, const Operand& self,
                   const Operand& src, const Operand& index, const Alpha& alpha);

}  // namespace tessera::cpu
