// linalg::solve and all others.
//
//   const Tensor x = linalg::solve(a, b);  // a x = b
//   const auto [u, s, vh] = linalg::svd(a, /*full_matrices=*/false);
//   const Tensor again = u.mul(s).matmul(vh);
#pragma once

#include "linalg/linalg.h"
