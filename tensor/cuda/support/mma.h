// Instructions for products of small tiles: tensor cores, loads of their operands from shared memory, asynchronous
// copies there. All lanes of a warp call the functions that take or give fragments together. A fragment's layout: tile
// c (16 x 8): lane 4 g + t holds {c[g][2t], c[g][2t+1], c[g+8][2t], c[g+8][2t+1]}.
#pragma once

#include <cstdint>

#include "tensor/cuda/support/types.h"

#if TESSERA_CUDA_EMULATED
#include "tensor/cuda/emulation/mma.h"
#endif

namespace tessera::cuda {

#if !TESSERA_CUDA_EMULATED
__device__ inline unsigned shared_address(const void* p) { return static_cast<unsigned>(__cvta_generic_to_shared(p)); }
#endif

// Four matrices of 8 x 8 16-bit elements: lane 8 i + r names row r (16 bytes, aligned) of matrix i; r[i]: elements 2t
// and 2t + 1 of row g of matrix i.
__device__ inline void load_matrices(unsigned (&r)[4], const void* row) {
#if TESSERA_CUDA_EMULATED
  emulation::load_matrices(r, row, false);
#else
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(row))
               : "memory");
#endif
}
// The same of the transposed matrices: column g of rows 2t and 2t + 1.
__device__ inline void load_matrices_transposed(unsigned (&r)[4], const void* row) {
#if TESSERA_CUDA_EMULATED
  emulation::load_matrices(r, row, true);
#else
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(row))
               : "memory");
#endif
}

// c += a b, tiles of 16 x 16 and 16 x 8: a = {[g][2t], [g+8][2t], [g][2t+8], [g+8][2t+8]} and the element to the right
// of each, b = {[2t][g], [2t+8][g]} and the one below.
__device__ inline void multiply(Tag<Half>, float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
#if TESSERA_CUDA_EMULATED
  emulation::multiply<16>(c, a, b0, b1,
                          [](unsigned w, int part) { return half_bits_to_float(emulation::half_of(w, part)); });
#else
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#endif
}
__device__ inline void multiply(Tag<BFloat16>, float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
#if TESSERA_CUDA_EMULATED
  emulation::multiply<16>(c, a, b0, b1,
                          [](unsigned w, int part) { return bfloat16_bits_to_float(emulation::half_of(w, part)); });
#else
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#endif
}

// float32 rounded to the 10 bits that tensor cores take of it ("tf32"), to nearest, ties away from zero.
__device__ inline unsigned to_tf32(float v) {
#if TESSERA_CUDA_EMULATED
  const unsigned bits = __float_as_uint(v);
  return v != v ? 0x7fffffffu : (bits + 0x1000u) & 0xffffe000u;
#else
  unsigned r;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(v));
  return r;
#endif
}
// c += a b, tiles of 16 x 8 and 8 x 8 of tf32: a = {[g][t], [g+8][t], [g][t+4], [g+8][t+4]}, b = {[t][g], [t+4][g]}.
__device__ inline void multiply_tf32(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
#if TESSERA_CUDA_EMULATED
  emulation::multiply<8>(c, a, b0, b1, [](unsigned w, int) { return __uint_as_float(w); });
#else
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#endif
}

// c += a b modulo 2^32, tiles of 16 x 32 and 32 x 8 of bytes: a = {[g][4t], [g+8][4t], [g][4t+16], [g+8][4t+16]},
// signed or not, and the three to the right of each, b = {[4t][g], [4t+16][g]}, signed, and the three below.
__device__ inline void multiply_bytes(int (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1, bool a_unsigned) {
#if TESSERA_CUDA_EMULATED
  emulation::multiply_bytes(c, a, b0, b1, a_unsigned);
#else
  if (a_unsigned)
    asm volatile(
        "mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
        "%3};"
        : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  else
    asm volatile(
        "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
        "%3};"
        : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#endif
}

// Begins a copy of `bytes` <= 16 bytes from global to shared memory, both aligned to 16; the rest of the 16 becomes
// zero. The thread sees it after wait_for_copies, others after a barrier more.
__device__ inline void copy_async(void* shared, const void* global, int bytes) {
#if TESSERA_CUDA_EMULATED
  emulation::copy_later(shared, global, bytes);
#else
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(shared)),
               "l"(__cvta_generic_to_global(global)), "r"(bytes)
               : "memory");
#endif
}
// Ends a group of copies.
__device__ inline void commit_copies() {
#if TESSERA_CUDA_EMULATED
  emulation::commit_copies();
#else
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
// Waits for all groups of this thread but the newest kLeft. A kernel must wait for all that it began.
template <int kLeft>
__device__ inline void wait_for_copies() {
#if TESSERA_CUDA_EMULATED
  emulation::finish_copies(kLeft);
#else
  asm volatile("cp.async.wait_group %0;" ::"n"(kLeft) : "memory");
#endif
}

// 2^x to about 22 bits; denormal results become zero.
__device__ inline float fast_exp2(float x) {
#if TESSERA_CUDA_EMULATED
  return exp2f(x);
#else
  float r;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
  return r;
#endif
}

}  // namespace tessera::cuda
