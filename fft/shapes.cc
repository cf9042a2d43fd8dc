#include "fft/shapes.h"

#include <algorithm>
#include <numeric>

#include "fft/fft_ops.h"
#include "tensor/ops/api.h"
#include "tensor/ops/structured.h"

namespace tessera::fft {
namespace {

// 0: results as they are; 1: divided by the root of the number of elements; 2: by the number.
int64_t normalization(const Transform& what, std::optional<std::string_view> norm) {
  if (!norm || *norm == "backward") return what.forward ? 0 : 2;
  if (*norm == "forward") return what.forward ? 2 : 0;
  TESSERA_CHECK(*norm == "ortho", what.name, ": Invalid normalization mode: \"", *norm,
                "\"; expected \"forward\", \"backward\" or \"ortho\"");
  return 1;
}

// Of a floating dtype, and complex where the transform wants that.
Tensor promoted(const Transform& what, const Tensor& self) {
  TESSERA_CHECK(!what.real_in || !self.is_complex(), what.name, " expects a real input tensor, but got ",
                name_of(self.dtype()));
  DType t = self.dtype();
  if (!self.is_floating_point() && !self.is_complex()) t = default_dtype();
  TESSERA_CHECK(t != DType::kFloat16 && t != DType::kBFloat16 && t != DType::kComplex32, what.name,
                ": Unsupported dtype ", name_of(t), "; convert to float32 or float64 first");
  if (!what.real_in) t = to_complex(t);
  return t == self.dtype() ? self : self.to(t);
}

// Dimension `dim` cut or filled up with zeros to `size`.
Tensor resized(const Tensor& x, int64_t dim, int64_t size) {
  const int64_t have = x.size(dim);
  if (have == size) return x;
  if (have > size) return narrow(x, dim, 0, size);
  IntVector missing = to_vector(x.sizes());
  missing[dim] = size - have;
  const std::vector<SymInt> symbols(missing.begin(), missing.end());
  const Tensor parts[] = {x, zeros(symbols, x.dtype(), {}, x.device(), {})};
  return cat(parts, dim);
}

Tensor transformed(const Transform& what, Tensor x, const IntVector& dims, const IntVector& sizes, int64_t norm) {
  for (size_t k = 0; k < dims.size(); ++k) {
    TESSERA_CHECK(sizes[k] >= 1, what.name, ": Invalid number of data points (", sizes[k],
                  ") specified; expected at least 1");
    const bool half = what.real_out && k + 1 == dims.size();
    x = resized(x, dims[k], half ? sizes[k] / 2 + 1 : sizes[k]);
  }
  return what.apply(what.forward, x, dims, sizes, norm);
}

int64_t default_size(const Transform& what, const Tensor& x, int64_t dim, bool last) {
  return what.real_out && last ? 2 * (x.size(dim) - 1) : x.size(dim);
}

void check_dims_unique(const Transform& what, const IntVector& dims) {
  IntVector sorted = dims;
  std::sort(sorted.begin(), sorted.end());
  TESSERA_CHECK(std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end(), what.name,
                ": FFT dims must be unique, but got ", shape_string(dims));
}

}  // namespace

Tensor complex_to_complex(bool forward, const Tensor& x, const IntVector& dims, const IntVector&, int64_t norm) {
  const std::vector<SymInt> symbols(dims.begin(), dims.end());
  return _fft_c2c(x, symbols, norm, forward);
}
// Spectra of real signals know one direction; the other one is its conjugate.
Tensor real_to_half(bool forward, const Tensor& x, const IntVector& dims, const IntVector&, int64_t norm) {
  const Tensor y = _fft_r2c(x, dims, norm, true);
  return forward ? y : conj(y);
}
Tensor half_to_real(bool forward, const Tensor& x, const IntVector& dims, const IntVector& sizes, int64_t norm) {
  return _fft_c2r(forward ? conj(x) : x, dims, norm, sizes.back());
}

Tensor along(const Transform& what, const Tensor& self, std::optional<SymInt> n, int64_t dim,
             std::optional<std::string_view> norm) {
  const int64_t mode = normalization(what, norm);
  dim = wrap_dim(dim, self.dim());
  TESSERA_CHECK_INDEX(self.dim() > 0, what.name, ": expected a tensor with at least one dimension, but got a scalar");
  const Tensor x = promoted(what, self);
  return transformed(what, x, {dim}, {n ? n->guard_int() : default_size(what, x, dim, true)}, mode);
}

Tensor along(const Transform& what, const Tensor& self, std::optional<SymIntList> s, std::optional<IntList> dim,
             std::optional<std::string_view> norm) {
  const int64_t mode = normalization(what, norm);
  IntVector dims;
  if (dim) {
    for (int64_t d : *dim) dims.push_back(wrap_dim(d, self.dim()));
    check_dims_unique(what, dims);
    TESSERA_CHECK(!s || s->size() == dims.size(), what.name,
                  ": When given, dim and shape arguments must have the same length, but got ", dims.size(), " and ",
                  s ? s->size() : 0);
  } else {
    const int64_t count = s ? static_cast<int64_t>(s->size()) : self.dim();
    TESSERA_CHECK(count <= self.dim(), what.name, ": Got shape with ", count, " values but input tensor only has ",
                  self.dim(), " dimensions");
    dims.resize(count);
    std::iota(dims.begin(), dims.end(), self.dim() - count);
  }
  TESSERA_CHECK(!what.real_in || !self.is_complex(), what.name, "n expects a real-valued input tensor, but got ",
                name_of(self.dtype()));
  const Tensor x = promoted(what, self);
  TESSERA_CHECK(!dims.empty() || (!what.real_in && !what.real_out), what.name,
                ": must transform at least one axis, but got none");
  IntVector sizes;
  for (size_t k = 0; k < dims.size(); ++k) {
    const int64_t given = s ? (*s)[k].guard_int() : -1;
    sizes.push_back(given != -1 ? given : default_size(what, x, dims[k], k + 1 == dims.size()));
  }
  return dims.empty() ? clone(x) : transformed(what, x, dims, sizes, mode);
}

void write_real(const Tensor& out, const Tensor& value) {
  TESSERA_CHECK(out.is_floating_point(), "fft: expects a floating point output tensor, but got ", name_of(out.dtype()));
  structured::store_out(out, value, OutDtype::kCast);
}

Tensor frequencies(int64_t n, double d, std::optional<DType> dtype, std::optional<Device> device) {
  TESSERA_CHECK(n >= 0, "fftfreq: expected a number of samples of at least 0, but got ", n);
  const DType t = dtype.value_or(default_dtype());
  TESSERA_CHECK(is_floating_point(t) || is_complex(t), "fftfreq requires a floating point or complex dtype, but got ",
                name_of(t));
  const Tensor f = arange(Scalar(n), t, {}, device, {});
  const int64_t negative = n / 2;
  narrow(f, 0, n - negative, negative).sub_(Scalar(n));
  return f.mul_(Scalar(1.0 / (static_cast<double>(n) * d)));
}

Tensor half_frequencies(int64_t n, double d, std::optional<DType> dtype, std::optional<Device> device) {
  TESSERA_CHECK(n >= 0, "rfftfreq: expected a number of samples of at least 0, but got ", n);
  const DType t = dtype.value_or(default_dtype());
  TESSERA_CHECK(is_floating_point(t) || is_complex(t), "rfftfreq requires a floating point or complex dtype, but got ",
                name_of(t));
  return arange(Scalar(n / 2 + 1), t, {}, device, {}).mul_(Scalar(1.0 / (static_cast<double>(n) * d)));
}

Tensor shift(const Tensor& self, std::optional<IntList> dim, bool back) {
  IntVector dims = dim ? to_vector(*dim) : IntVector(self.dim());
  if (!dim) std::iota(dims.begin(), dims.end(), 0);
  if (dims.empty()) return clone(self);
  std::vector<SymInt> shifts;
  for (int64_t d : dims) {
    const int64_t n = self.size(d);
    shifts.push_back(back ? (n + 1) / 2 : n / 2);
  }
  return roll(self, shifts, dims);
}

}  // namespace tessera::fft
