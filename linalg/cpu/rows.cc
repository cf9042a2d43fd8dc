#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "linalg/cpu/rows.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "linalg/cpu/rows-inl.h"
#include "tensor/cpu/support/simd.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::internal {
namespace HWY_NAMESPACE {

void DotF32(const Rows<float>& a, const float* const* x, float* const* out) { DotRows(a, x, out); }
void DotF64(const Rows<double>& a, const double* const* x, double* const* out) { DotRows(a, x, out); }
void AxpyF32(const Rows<float>& a, const float* const* c, float* const* y) { AxpyRows(a, c, y); }
void AxpyF64(const Rows<double>& a, const double* const* c, double* const* y) { AxpyRows(a, c, y); }
void TriangleF32(const Rows<float>& a, int64_t width, const float* const* c, float* const* y, const float* const* x,
                 float* const* out) {
  TriangleRows(a, width, c, y, x, out);
}
void TriangleF64(const Rows<double>& a, int64_t width, const double* const* c, double* const* y,
                 const double* const* x, double* const* out) {
  TriangleRows(a, width, c, y, x, out);
}
void RotateF32(float* first, int64_t stride, int64_t n, int64_t count, const float* c, const float* s) {
  Rotate(first, stride, n, count, c, s);
}
void RotateF64(double* first, int64_t stride, int64_t n, int64_t count, const double* c, const double* s) {
  Rotate(first, stride, n, count, c, s);
}

}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu::internal
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::cpu::internal {

TESSERA_SIMD_TABLE(DotF32);
TESSERA_SIMD_TABLE(DotF64);
TESSERA_SIMD_TABLE(AxpyF32);
TESSERA_SIMD_TABLE(AxpyF64);
TESSERA_SIMD_TABLE(TriangleF32);
TESSERA_SIMD_TABLE(TriangleF64);
TESSERA_SIMD_TABLE(RotateF32);
TESSERA_SIMD_TABLE(RotateF64);

void rows_dot(const Rows<float>& a, const float* const* x, float* const* out) { TESSERA_SIMD(DotF32)(a, x, out); }
void rows_dot(const Rows<double>& a, const double* const* x, double* const* out) { TESSERA_SIMD(DotF64)(a, x, out); }
void rows_axpy(const Rows<float>& a, const float* const* c, float* const* y) { TESSERA_SIMD(AxpyF32)(a, c, y); }
void rows_axpy(const Rows<double>& a, const double* const* c, double* const* y) { TESSERA_SIMD(AxpyF64)(a, c, y); }
void rows_triangle(const Rows<float>& a, int64_t width, const float* const* c, float* const* y, const float* const* x,
                   float* const* out) {
  TESSERA_SIMD(TriangleF32)(a, width, c, y, x, out);
}
void rows_triangle(const Rows<double>& a, int64_t width, const double* const* c, double* const* y,
                   const double* const* x, double* const* out) {
  TESSERA_SIMD(TriangleF64)(a, width, c, y, x, out);
}
void rotate_rows(float* first, int64_t stride, int64_t n, int64_t count, const float* c, const float* s) {
  TESSERA_SIMD(RotateF32)(first, stride, n, count, c, s);
}
void rotate_rows(double* first, int64_t stride, int64_t n, int64_t count, const double* c, const double* s) {
  TESSERA_SIMD(RotateF64)(first, stride, n, count, c, s);
}

}  // namespace tessera::cpu::internal
#endif
