#include "fft/gradients.h"

#include "fft/fft_ops.h"

namespace tessera::autograd::formulas {
namespace {

// Frequencies that have a mirrored conjugate, times `factor`: those between 0 and n / 2 along dim.
Tensor weigh_mirrored(const Tensor& half, int64_t dim, int64_t n, double factor) {
  const int64_t frequencies = n / 2 + 1, alone = 1 - n % 2;
  if (frequencies - 1 - alone <= 0) return half;
  std::vector<Tensor> parts{narrow(half, dim, 0, 1),
                            mul(narrow(half, dim, 1, frequencies - 1 - alone), Scalar(factor))};
  if (alone) parts.push_back(narrow(half, dim, frequencies - 1, 1));
  return cat(parts, dim);
}

// The dimension whose lines have half a spectrum. (A transform that a batching rule completed was called without any.)
int64_t last_of(IntList dim) {
  TESSERA_CHECK(!dim.empty(), "fft: expected at least one dimension to transform");
  return dim.back();
}

}  // namespace

// x is real: its gradient is the real part of the inverse transform of the cotangents. Of a half spectrum that is the
// transform to real numbers, which counts each frequency that has a mirrored one twice.
Tensor fft_r2c_backward(const Tensor& grad, IntList dim, int64_t normalization, bool onesided, SymIntList sizes) {
  if (!onesided) {
    const std::vector<SymInt> dims(dim.begin(), dim.end());
    return real(_fft_c2c(grad, dims, normalization, false));
  }
  const int64_t last = last_of(dim);
  const SymInt& n = sizes[static_cast<size_t>(wrap_dim(last, static_cast<int64_t>(sizes.size())))];
  const Tensor half = weigh_mirrored(grad, last, n.guard_int(), 0.5);
  return _fft_c2r(half, dim, normalization, n);
}

Tensor fft_c2r_backward(const Tensor& grad, IntList dim, int64_t normalization) {
  const int64_t last = last_of(dim), n = grad.size(last);
  return weigh_mirrored(_fft_r2c(grad, dim, normalization, true), last, n, 2);
}

}  // namespace tessera::autograd::formulas
