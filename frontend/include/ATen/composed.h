// Documented functions that are others under a second name, or made of others.
#pragma once

#include "ATen/core/Tensor.h"

// Over one dimension: 0 is no bool here, as it would be by conversion.
namespace at {
#define TESSERA_OVER_ONE(name) \
  template <std::integral I>   \
  requires(!std::is_same_v<I, bool>) Tensor name(const Tensor& t, I dim) { return t.name(dim); }
TESSERA_OVER_ONE(var)
TESSERA_OVER_ONE(std)
#undef TESSERA_OVER_ONE
#define TESSERA_OVER_ONE(name)                                                                 \
  template <std::integral I>                                                                   \
  requires(!std::is_same_v<I, bool>) std::tuple<Tensor, Tensor> name(const Tensor& t, I dim) { \
    const int64_t d = static_cast<int64_t>(dim);                                               \
    return name(t, OptionalIntArrayRef(IntArrayRef(d)));                                       \
  }
TESSERA_OVER_ONE(var_mean)
TESSERA_OVER_ONE(std_mean)
#undef TESSERA_OVER_ONE
}  // namespace at

// torch::special::erf and at::special_erf are at::erf.
#define TESSERA_SPECIAL(name, function)                                                                            \
  namespace torch::special {                                                                                       \
  inline at::Tensor name(const at::Tensor& self) { return at::function(self); }                                    \
  inline at::Tensor& name##_out(at::Tensor& out, const at::Tensor& self) { return at::function##_out(out, self); } \
  }                                                                                                                \
  namespace at {                                                                                                   \
  inline Tensor special_##name(const Tensor& self) { return at::function(self); }                                  \
  inline Tensor& special_##name##_out(Tensor& out, const Tensor& self) { return at::function##_out(out, self); }   \
  }
TESSERA_SPECIAL(digamma, digamma)
TESSERA_SPECIAL(psi, digamma)
TESSERA_SPECIAL(erf, erf)
TESSERA_SPECIAL(erfc, erfc)
TESSERA_SPECIAL(erfinv, erfinv)
TESSERA_SPECIAL(exp2, exp2)
TESSERA_SPECIAL(expit, sigmoid)
TESSERA_SPECIAL(expm1, expm1)
TESSERA_SPECIAL(gammaln, lgamma)
TESSERA_SPECIAL(i0, i0)
TESSERA_SPECIAL(log1p, log1p)
TESSERA_SPECIAL(sinc, sinc)
#undef TESSERA_SPECIAL
#define TESSERA_SPECIAL(name, parameters, call)                \
  namespace torch::special {                                   \
  inline at::Tensor name parameters { return at::call; }       \
  }                                                            \
  namespace at {                                               \
  inline Tensor special_##name parameters { return at::call; } \
  }
TESSERA_SPECIAL(gammainc, (const at::Tensor& self, const at::Tensor& other), igamma(self, other))
TESSERA_SPECIAL(gammaincc, (const at::Tensor& self, const at::Tensor& other), igammac(self, other))
TESSERA_SPECIAL(xlogy, (const at::Tensor& self, const at::Tensor& other), xlogy(self, other))
TESSERA_SPECIAL(xlogy, (const at::Tensor& self, const at::Scalar& other), xlogy(self, other))
TESSERA_SPECIAL(xlogy, (const at::Scalar& self, const at::Tensor& other), xlogy(self, other))
TESSERA_SPECIAL(polygamma, (int64_t n, const at::Tensor& self), polygamma(n, self))
TESSERA_SPECIAL(multigammaln, (const at::Tensor& self, int64_t p), mvlgamma(self, p))
TESSERA_SPECIAL(logit, (const at::Tensor& self, std::optional<double> eps = std::nullopt), logit(self, eps))
TESSERA_SPECIAL(logsumexp, (const at::Tensor& self, at::IntArrayRef dim, bool keepdim = false),
                logsumexp(self, dim, keepdim))
TESSERA_SPECIAL(softmax, (const at::Tensor& self, int64_t dim, std::optional<at::ScalarType> dtype = std::nullopt),
                softmax(self, dim, dtype))
TESSERA_SPECIAL(log_softmax, (const at::Tensor& self, int64_t dim, std::optional<at::ScalarType> dtype = std::nullopt),
                log_softmax(self, dim, dtype))
TESSERA_SPECIAL(round, (const at::Tensor& self, int64_t decimals = 0), round(self, decimals))
#undef TESSERA_SPECIAL

namespace at {

inline int64_t numel(const Tensor& t) { return t.numel(); }
inline int64_t get_device(const Tensor& t) { return t.get_device(); }
inline bool is_complex(const Tensor& t) { return t.is_complex(); }
inline bool is_floating_point(const Tensor& t) { return t.is_floating_point(); }
inline bool is_conj(const Tensor& t) { return t.is_conj(); }
inline bool is_neg(const Tensor& t) { return t.is_neg(); }
inline bool is_inference(const Tensor& t) { return t.is_inference(); }
inline bool is_signed(const Tensor& t) { return isSignedType(t.scalar_type()); }
inline bool is_same_size(const Tensor& a, const Tensor& b) { return a.sizes() == b.sizes(); }
// What two shapes broadcast to.
inline std::vector<int64_t> infer_size(IntArrayRef a, IntArrayRef b) {
  std::vector<int64_t> shape(std::max(a.size(), b.size()));
  for (size_t i = 1; i <= shape.size(); ++i) {
    const int64_t x = i <= a.size() ? a[a.size() - i] : 1, y = i <= b.size() ? b[b.size() - i] : 1;
    TORCH_CHECK(x == y || x == 1 || y == 1, "The size of tensor a (", x, ") must match the size of tensor b (", y,
                ") at non-singleton dimension ", shape.size() - i);
    shape[shape.size() - i] = x == 1 ? y : x;
  }
  return shape;
}

// The older form, which does not pad.
inline Tensor stft(const Tensor& self, int64_t n_fft, std::optional<int64_t> hop_length,
                   std::optional<int64_t> win_length, const std::optional<Tensor>& window, bool normalized,
                   std::optional<bool> onesided = std::nullopt, std::optional<bool> return_complex = std::nullopt) {
  return at::stft(self, n_fft, hop_length, win_length, window, false, "reflect", normalized, onesided, return_complex,
                  std::nullopt);
}

inline Tensor block_diag(TensorList tensors) {
  int64_t rows = 0, columns = 0;
  std::vector<Tensor> blocks;
  for (const Tensor& t : tensors) {
    TORCH_CHECK(t.dim() <= 2, "torch.block_diag: Input tensors must have 2 or fewer dimensions. Input ", blocks.size(),
                " has ", t.dim(), " dimensions");
    blocks.push_back(t.dim() == 2 ? t : t.reshape({1, -1}));
    rows += blocks.back().size(0);
    columns += blocks.back().size(1);
  }
  if (blocks.empty()) return at::empty({1, 0});
  ScalarType type = blocks[0].scalar_type();
  for (const Tensor& b : blocks) type = promoteTypes(type, b.scalar_type());
  std::vector<Tensor> padded;
  int64_t left = 0;
  for (const Tensor& b : blocks) {
    padded.push_back(at::constant_pad_nd(b.to(type), {left, columns - left - b.size(1)}));
    left += b.size(1);
  }
  return at::cat(padded);
}
inline Tensor cartesian_prod(TensorList tensors) {
  if (tensors.size() == 1) return tensors[0];
  std::vector<Tensor> flat;
  for (const Tensor& grid : at::meshgrid(tensors, "ij")) flat.push_back(grid.flatten());
  return at::stack(flat, 1);
}
inline Tensor combinations(const Tensor& self, int64_t r = 2, bool with_replacement = false) {
  TORCH_CHECK(self.dim() == 1 && r >= 0, "Expect a 1D vector and a non-negative number, got ", self.dim(),
              " dimensions and ", r);
  if (r == 0) return at::empty({0}, self.options());
  const int64_t n = self.numel();
  const Tensor numbers = at::arange(n, TensorOptions(kLong).device(self.device()));
  const std::vector<Tensor> grids = at::meshgrid(std::vector<Tensor>(static_cast<size_t>(r), numbers), "ij");
  Tensor keep = at::ones_like(grids[0], TensorOptions(kBool));
  for (size_t i = 1; i < grids.size(); ++i)
    keep = keep.logical_and(with_replacement ? grids[i - 1].le(grids[i]) : grids[i - 1].lt(grids[i]));
  std::vector<Tensor> chosen;
  for (const Tensor& g : grids) chosen.push_back(self.index_select(0, g.masked_select(keep)));
  return at::stack(chosen, 1);
}

inline std::vector<Tensor> nonzero_numpy(const Tensor& self) { return self.nonzero_numpy(); }
inline std::tuple<Tensor, Tensor, Tensor> unique_dim_consecutive(const Tensor& self, int64_t dim,
                                                                 bool return_inverse = false,
                                                                 bool return_counts = false) {
  return at::unique_consecutive(self, return_inverse, return_counts, dim);
}
// Lists of tensors as one row of all their elements, and back.
inline Tensor flatten_dense_tensors(TensorList tensors) {
  std::vector<Tensor> flat;
  for (const Tensor& t : tensors) flat.push_back(t.contiguous().view(-1));
  return at::cat(flat);
}
inline std::vector<Tensor> unflatten_dense_tensors(const Tensor& flat, TensorList like) {
  std::vector<Tensor> result;
  int64_t from = 0;
  for (const Tensor& t : like) {
    result.push_back(flat.narrow(0, from, t.numel()).view(t.sizes()));
    from += t.numel();
  }
  return result;
}
// Sparse tensors of compressed rows, columns, or blocks of them.
#define TESSERA_COMPRESSED(kind, layout_of)                                                                 \
  inline Tensor sparse_##kind##_tensor(const Tensor& compressed, const Tensor& plain, const Tensor& values, \
                                       IntArrayRef size, TensorOptions options = {}) {                      \
    return at::sparse_compressed_tensor(compressed, plain, values, size, options.layout(layout_of));        \
  }                                                                                                         \
  inline Tensor sparse_##kind##_tensor(const Tensor& compressed, const Tensor& plain, const Tensor& values, \
                                       TensorOptions options = {}) {                                        \
    return at::sparse_compressed_tensor(compressed, plain, values, options.layout(layout_of));              \
  }
TESSERA_COMPRESSED(csr, kSparseCsr)
TESSERA_COMPRESSED(csc, kSparseCsc)
TESSERA_COMPRESSED(bsr, kSparseBsr)
TESSERA_COMPRESSED(bsc, kSparseBsc)
#undef TESSERA_COMPRESSED

}  // namespace at
