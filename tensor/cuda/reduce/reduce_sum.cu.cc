// Sums of real numbers and integers, of functions of them, and means. Floating numbers are added in float64.
#include <cmath>

#include "tensor/cuda/reduce/reduce_engine.h"
#include "tensor/cuda/reduce/reduce_kinds.h"
#include "tensor/cuda/reduce/reduce_sum.h"

namespace tessera::cuda::reduction {

template <class V>
void sum_of(Term term, Ending ending, double p, const Problem& c) {
  if (term == Term::kPlain)
    run(Sum<V, true>{term, ending, p}, c.shape, c.mask, c.in, c.out);
  else
    run(Sum<V, false>{term, ending, p}, c.shape, c.mask, c.in, c.out);
}

bool sum(Term term, Ending ending, double p, DType dtype, const Problem& c) {
  switch (dtype) {
    case DType::kFloat32:
      sum_of<float>(term, ending, p, c);
      return true;
    case DType::kFloat64:
      sum_of<double>(term, ending, p, c);
      return true;
    case DType::kInt64:
      run(Sum<int64_t, true>{Term::kPlain, Ending::kNone, p}, c.shape, c.mask, c.in, c.out);
      return true;
    default:
      return false;
  }
}

}  // namespace tessera::cuda::reduction
