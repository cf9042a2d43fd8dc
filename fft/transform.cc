// The operators that transform: shapes, and lines in memory for the engine.
#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "fft/engine/fft.h"
#include "fft/fft_kernels.h"
#include "tensor/core/parallel.h"
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

// One of the transforms that make up one along several dimensions. n: the length of the signal along dim.
struct Stage {
  decltype(&cpu::run_fft) engine;
  cpu::FftKind kind;
  const Tensor &in, &out;
  int64_t dim, n;
  bool forward;
  double scale;
};

// A part of a stage: numbers [begin, end) of its first `lead` dimensions, taken as one. 0: all of it.
struct Part {
  int64_t lead = 0, begin = 0, end = 0;
};

bool follows(const cpu::FftDim& first, const cpu::FftDim& next) {
  return first.in_stride == next.in_stride * next.size && first.out_stride == next.out_stride * next.size;
}
cpu::FftDim dim_of(const Stage& s, int64_t d) { return {s.in.sizes()[d], s.in.strides()[d], s.out.strides()[d]}; }

void run(const Stage& s, Part part = {}) {
  if (s.in.numel() == 0 || s.out.numel() == 0) return;
  std::vector<cpu::FftDim> dims;  // all but s.dim; neighbours that lie like one dimension are one
  int64_t in_offset = 0, out_offset = 0;
  if (part.lead > 0) {
    const cpu::FftDim lead = dim_of(s, part.lead - 1);
    dims.push_back({part.end - part.begin, lead.in_stride, lead.out_stride});
    in_offset = part.begin * lead.in_stride * item_size(s.in.dtype());
    out_offset = part.begin * lead.out_stride * item_size(s.out.dtype());
  }
  for (int64_t d = part.lead; d < s.in.dim(); ++d) {
    if (d == s.dim || s.in.sizes()[d] == 1) continue;
    const cpu::FftDim next = dim_of(s, d);
    if (!dims.empty() && follows(dims.back(), next))
      dims.back() = {dims.back().size * next.size, next.in_stride, next.out_stride};
    else
      dims.push_back(next);
  }
  s.engine(
      {to_real(s.in.dtype()), s.kind, s.forward, s.scale, s.n, s.in.strides()[s.dim], s.out.strides()[s.dim], dims},
      static_cast<const char*>(s.in.data_ptr()) + in_offset, static_cast<char*>(s.out.data_ptr()) + out_offset);
}

// Bytes of results that go through all stages before the next ones, since they stay in the second cache.
constexpr int64_t kPartBytes = int64_t{400} << 10;

// One stage after the other. Where numbers are many and there are dimensions that are not transformed (or only at the
// end), by parts along those.
void run(std::span<const Stage> stages) {
  int64_t lead = 0, count = 1;
  const auto joined = [&](int64_t d) {
    return d == 0 || std::all_of(stages.begin(), stages.end(),
                                 [&](const Stage& s) { return follows(dim_of(s, d - 1), dim_of(s, d)); });
  };
  const auto transformed = [&](int64_t d) {
    return std::any_of(stages.begin(), stages.end(), [&](const Stage& s) { return s.dim == d; });
  };
  size_t together = stages.size();
  if (together > 1 && stages[0].in.device().is_cpu() && stages[0].out.numel() > 0) {
    const int64_t ndim = stages[0].in.dim();
    for (; lead < ndim && !transformed(lead) && joined(lead); ++lead) count *= stages[0].in.sizes()[lead];
    if (lead == 0 && stages.back().dim == 0) {
      lead = 1;
      count = stages.back().in.sizes()[0];
      --together;
    }
    const Tensor& out = stages[0].out;
    const int64_t each = out.numel() / count * item_size(out.dtype()), grain = std::max<int64_t>(1, kPartBytes / each);
    if (lead > 0 && together > 1 && count >= 4 * grain)
      parallel_for(count, grain, [&](int64_t begin, int64_t end) {
        for (const Stage& s : stages.first(together)) run(s, {lead, begin, end});
      });
    else
      together = 0;
  } else {
    together = 0;
  }
  for (const Stage& s : stages.subspan(together)) run(s);
}

// Along each of dims; the last first, whose lines most often lie in one piece.
void add_complex(std::vector<Stage>* stages, const Tensor& in, const Tensor& out, const IntVector& dims, bool forward,
                 double scale) {
  for (auto d = dims.rbegin(); d != dims.rend(); ++d) {
    const bool first = d == dims.rbegin();
    stages->push_back({TESSERA_ON(in.device(), run_fft), cpu::FftKind::kComplex, first ? in : out, out, *d,
                       out.sizes()[*d], forward, first ? scale : 1});
  }
}
void transform_complex(const Tensor& in, const Tensor& out, const IntVector& dims, bool forward, double scale) {
  std::vector<Stage> stages;
  add_complex(&stages, in, out, dims, forward, scale);
  run(stages);
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
  std::vector<Stage> stages{{TESSERA_ON(self.device(), run_fft), cpu::FftKind::kRealToHalf, self, out, last,
                             self.sizes()[last], true, scale}};
  add_complex(&stages, out, out, IntVector(dims.begin(), dims.end() - 1), true, 1);
  run(stages);
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
  // The inverse of a conjugate is a forward transform of what is in memory; other devices know one way to real numbers.
  const bool conjugate = self.is_conj() && !self.is_neg() && self.device().is_cpu();
  const Tensor given = conjugate ? self : resolve_neg(resolve_conj(self));
  const Tensor spectrum = rest.empty() ? given : empty_tensor(self.sizes(), {}, self.dtype(), self.device());
  std::vector<Stage> stages;
  add_complex(&stages, given, spectrum, rest, conjugate, 1);
  const int64_t last = dims.back();
  stages.push_back({TESSERA_ON(self.device(), run_fft_to_real), cpu::FftKind::kHalfToReal, spectrum, out, last,
                    out.sizes()[last], conjugate, scale});
  run(stages);
}

}  // namespace tessera::kernels
