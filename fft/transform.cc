// The operators that transform: shapes, and lines in memory for the engine.
#include <algorithm>
#include <cmath>

#include "fft/engine/fft.h"
#include "fft/fft_kernels.h"
#include "tensor/ops/api.h"
#include "tensor/ops/create_kernels.h"

namespace tessera::kernels {
namespace {

// Each of dim from 0 on. IndexError for dimensions that are none, Error for one that is there twice.
template <class List>
IntVector wrapped(const List& dim, const Tensor& t) {
  IntVector dims;
  for (const auto& d : dim) {
    const int64_t w = wrap_dim(SymInt(d).guard_int(), t.dim());
    TESSERA_CHECK_INDEX(t.dim() > 0, "fft: Dimension ", w, " out of range: the tensor has no dimensions");
    TESSERA_CHECK(std::find(dims.begin(), dims.end(), w) == dims.end(), "fft: FFT dims must be unique, but got ", w,
                  " twice");
    dims.push_back(w);
  }
  return dims;
}

// What the results are multiplied by: `n` elements are transformed.
double scale_of(int64_t normalization, int64_t n) {
  TESSERA_CHECK(normalization >= 0 && normalization <= 2, "fft: expected a normalization of 0, 1 or 2, but got ",
                normalization);
  const double count = static_cast<double>(n);
  return normalization == 0 ? 1.0 : normalization == 1 ? 1 / std::sqrt(count) : 1 / count;
}

// All dimensions but `dim`; neighbours that lie like one dimension are one.
std::vector<cpu::FftDim> other_dims(const Tensor& in, const Tensor& out, int64_t dim) {
  std::vector<cpu::FftDim> dims;
  for (int64_t d = 0; d < in.dim(); ++d) {
    if (d == dim || in.sizes()[d] == 1) continue;
    const cpu::FftDim next{in.sizes()[d], in.strides()[d], out.strides()[d]};
    if (!dims.empty() && dims.back().in_stride == next.in_stride * next.size &&
        dims.back().out_stride == next.out_stride * next.size)
      dims.back() = {dims.back().size * next.size, next.in_stride, next.out_stride};
    else
      dims.push_back(next);
  }
  return dims;
}

// n: the length of the signal along dim.
void transform_lines(cpu::FftKind kind, const Tensor& in, const Tensor& out, int64_t dim, int64_t n, bool forward,
                     double scale) {
  if (in.numel() == 0 || out.numel() == 0) return;
  const auto dims = other_dims(in, out, dim);
  TESSERA_ON(in.device(), run_fft)
  ({to_real(in.dtype()), kind, forward, scale, n, in.strides()[dim], out.strides()[dim], dims}, in.data_ptr(),
   out.data_ptr());
}

// Along each of dims; the last first, whose lines most often lie in one piece.
void transform_complex(const Tensor& in, const Tensor& out, const IntVector& dims, bool forward, double scale) {
  const Tensor* from = &in;
  for (auto d = dims.rbegin(); d != dims.rend(); ++d) {
    transform_lines(cpu::FftKind::kComplex, *from, out, *d, out.sizes()[*d], forward, from == &in ? scale : 1);
    from = &out;
  }
  if (dims.empty()) copy__kernel(out, in, false);
}

int64_t count_of(const Tensor& t, const IntVector& dims) {
  int64_t n = 1;
  for (int64_t d : dims) n *= t.sizes()[d];
  return n;
}

void check_transformable(const Tensor& self, const IntVector& dims, bool complex) {
  TESSERA_CHECK(self.is_complex() == complex && (complex || self.is_floating_point()), "fft: expected a ",
                complex ? "complex" : "real floating point", " tensor, but got ", name_of(self.dtype()));
  for (int64_t d : dims)
    TESSERA_CHECK(self.sizes()[d] >= 1, "fft: Invalid number of data points (0) specified along dimension ", d);
}

}  // namespace

OutputSpec _fft_c2c_meta(const Tensor& self, SymIntList dim, int64_t normalization, bool) {
  check_transformable(self, wrapped(dim, self), true);
  scale_of(normalization, 1);
  return OutputSpec(self, self.sizes());
}
void fft_c2c(const Tensor& self, SymIntList dim, int64_t normalization, bool forward, const Tensor& out) {
  const IntVector dims = wrapped(dim, self);
  transform_complex(self, out, dims, forward, scale_of(normalization, count_of(self, dims)));
}

OutputSpec _fft_r2c_meta(const Tensor& self, IntList dim, int64_t normalization, bool onesided) {
  TESSERA_CHECK(!dim.empty(), "fft: expected at least one dimension to transform");
  const IntVector dims = wrapped(dim, self);
  check_transformable(self, dims, false);
  scale_of(normalization, 1);
  IntVector sizes = to_vector(self.sizes());
  if (onesided) sizes[dims.back()] = sizes[dims.back()] / 2 + 1;
  return OutputSpec(sizes, to_complex(self.dtype()), self.device());
}
void fft_r2c(const Tensor& self, IntList dim, int64_t normalization, bool onesided, const Tensor& out) {
  const IntVector dims = wrapped(dim, self);
  const double scale = scale_of(normalization, count_of(self, dims));
  if (!onesided) {
    const Tensor complex = empty_tensor(self.sizes(), {}, out.dtype(), out.device());
    copy__kernel(complex, self, false);
    return transform_complex(complex, out, dims, true, scale);
  }
  const int64_t last = dims.back();
  transform_lines(cpu::FftKind::kRealToHalf, self, out, last, self.sizes()[last], true, scale);
  const IntVector rest(dims.begin(), dims.end() - 1);
  if (!rest.empty()) transform_complex(out, out, rest, true, 1);
}

OutputSpec _fft_c2r_meta(const Tensor& self, IntList dim, int64_t normalization, SymInt last_dim_size) {
  TESSERA_CHECK(!dim.empty(), "fft: expected at least one dimension to transform");
  const IntVector dims = wrapped(dim, self);
  check_transformable(self, dims, true);
  scale_of(normalization, 1);
  const int64_t n = last_dim_size.guard_int();
  TESSERA_CHECK(n >= 1, "fft: Invalid number of data points (", n, ") specified");
  TESSERA_CHECK(self.sizes()[dims.back()] == n / 2 + 1, "fft: expected ", n / 2 + 1, " frequencies of ", n,
                " data points, but got ", self.sizes()[dims.back()]);
  IntVector sizes = to_vector(self.sizes());
  sizes[dims.back()] = n;
  return OutputSpec(sizes, to_real(self.dtype()), self.device());
}
void fft_c2r(const Tensor& self, IntList dim, int64_t normalization, SymInt, const Tensor& out) {
  const IntVector dims = wrapped(dim, self), rest(dims.begin(), dims.end() - 1);
  const double scale = scale_of(normalization, count_of(out, dims));
  Tensor spectrum = self;
  if (!rest.empty()) {
    spectrum = empty_tensor(self.sizes(), {}, self.dtype(), self.device());
    transform_complex(self, spectrum, rest, false, 1);
  }
  transform_lines(cpu::FftKind::kHalfToReal, spectrum, out, dims.back(), out.sizes()[dims.back()], false, scale);
}

}  // namespace tessera::kernels
