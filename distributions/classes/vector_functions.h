// What distributions of vectors and matrices are written with.
#pragma once

#include "distributions/classes/vectors.h"

namespace tessera::distributions {

// The sizes of x without its last `count` ones; one shape after the other.
IntVector without_last(const Tensor& x, size_t count);
IntVector joined(IntVector first, IntList second);
// x itself. Throws ValueError unless it has floating numbers, in `least` dimensions or more.
const Tensor& with_dimensions(const Tensor& x, int64_t least, const char* what);
// Throws the documented ValueError unless rows are not negative and have a sum.
void check_shares(const char* distribution, const Tensor& probs);

// The Cholesky factor of the covariance, from any of the matrices that describe it, which are checked if asked for.
Tensor scale_tril_of(const char* distribution, const Covariance& covariance, bool validate);
Tensor scale_tril_of(const char* distribution, const Precision& precision, bool validate);
Tensor scale_tril_of(const char* distribution, const ScaleTril& scale_tril, bool validate);

// inverse(factor) @ columns, for lower triangular matrices; batches broadcast.
Tensor solve_lower(const Tensor& factor, const Tensor& columns);
// The logarithm of the determinant of triangular matrices: half of that of the covariance.
Tensor half_log_det(const Tensor& factor);

}  // namespace tessera::distributions
