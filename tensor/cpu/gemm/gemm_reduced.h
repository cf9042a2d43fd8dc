// Products whose C is in reduced floats, rounded once from sums in float.
#pragma once

#include <cstdint>

#include "tensor/cpu/gemm/gemm_internal.h"

namespace tessera::cpu::internal {

// c = round(beta c + alpha a b) in the format `kind` (kHalf, kBFloat16); g.c is not used, its strides are c's, and
// columns of c follow each other (g.c_col is 1). A and B of g in reduced floats.
void gemm_rounded(const GemmProblem<float>& g, SourceKind kind, uint16_t* c);

// to = beta to + alpha sum in the format `kind`; beta == 0 does not read it.
void store_reduced(SourceKind kind, int64_t n, float alpha, float beta, const float* sum, uint16_t* to);

}  // namespace tessera::cpu::internal
