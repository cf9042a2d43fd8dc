#include "signal/short_time.h"

#include <cmath>

#include "fft/fft_ops.h"
#include "tensor/core/warning.h"
#include "tensor/core/transforms.h"
#include "tensor/ops/api.h"

namespace tessera::signal {
namespace {

// Frames with their defaults filled in, checked.
struct Checked {
  int64_t n_fft, hop, width;
  Checked(const char* name, const Frames& f, const Tensor& like)
      : n_fft(f.n_fft), hop(f.hop_length.value_or(f.n_fft / 4)), width(f.win_length.value_or(f.n_fft)) {
    TESSERA_CHECK(n_fft > 0, name, ": expected n_fft > 0, but got n_fft=", n_fft);
    TESSERA_CHECK(hop > 0, name, ": expected hop_length > 0, but got hop_length=", hop);
    TESSERA_CHECK(0 < width && width <= n_fft, name, ": expected 0 < win_length <= n_fft, but got win_length=", width,
                  ", n_fft=", n_fft);
    if (!f.window.defined()) {
      warn(std::string("A window was not provided to ") + name +
           ". A rectangular window will be applied, which is known to cause spectral leakage; pass "
           "window=ones(win_length) if that is meant");
      return;
    }
    TESSERA_CHECK(f.window.dim() == 1 && f.window.size(0) == width, name,
                  ": expected a 1D window tensor of size equal to win_length=", width, ", but got window with size ",
                  shape_string(f.window.sizes()));
    TESSERA_CHECK(f.window.device() == like.device(), name, ": expected the window on ", like.device().str(),
                  ", as the input, but got it on ", f.window.device().str());
  }
};

Tensor zeros_like_sized(const Tensor& like, IntVector sizes, int64_t last) {
  sizes.back() = last;
  const std::vector<SymInt> symbols(sizes.begin(), sizes.end());
  return zeros(symbols, like.dtype(), {}, like.device(), {});
}

// Zeros on both sides of the last dimension.
Tensor surrounded(const Tensor& x, int64_t left, int64_t right) {
  std::vector<Tensor> parts;
  if (left > 0) parts.push_back(zeros_like_sized(x, to_vector(x.sizes()), left));
  parts.push_back(x);
  if (right > 0) parts.push_back(zeros_like_sized(x, to_vector(x.sizes()), right));
  return parts.size() == 1 ? x : cat(parts, -1);
}

// The window in the middle of n_fft numbers; undefined for one of ones over all of them.
Tensor window_of(const Frames& f, const Checked& c, const Tensor& like) {
  Tensor w = f.window;
  if (!w.defined()) {
    if (c.width == c.n_fft) return w;
    const std::vector<SymInt> size{c.width};
    w = ones(size, to_real(like.dtype()), {}, like.device(), {});
  }
  const int64_t left = (c.n_fft - c.width) / 2;
  return surrounded(w, left, c.n_fft - c.width - left);
}

// The signal continued by `amount` numbers at both ends of the last dimension.
Tensor continued(const Tensor& x, int64_t amount, std::string_view mode) {
  if (mode == "constant") return surrounded(x, amount, amount);
  const bool reflect = mode == "reflect", circular = mode == "circular";
  TESSERA_CHECK_NOT_IMPLEMENTED(reflect || circular || mode == "replicate", "Unrecognised padding mode ", mode,
                                "; expected \"reflect\", \"constant\", \"replicate\" or \"circular\"");
  const int64_t n = x.size(-1);
  TESSERA_CHECK(reflect ? amount < n : n > 0 && (!circular || amount <= n), "stft: Padding size should be ",
                reflect ? "less than" : "at most", " the corresponding input dimension, but got: padding (", amount,
                ", ", amount, ") of a signal of length ", n);
  if (amount == 0) return x;
  std::vector<Tensor> parts(3, x);
  const auto edge = [&](int64_t from) {
    IntVector sizes = to_vector(x.sizes());
    sizes.back() = amount;
    const std::vector<SymInt> symbols(sizes.begin(), sizes.end());
    return narrow(x, -1, from, 1).expand(symbols);
  };
  const int64_t last[] = {-1};
  if (reflect) {
    parts[0] = flip(narrow(x, -1, 1, amount), last);
    parts[2] = flip(narrow(x, -1, n - 1 - amount, amount), last);
  } else if (circular) {
    parts[0] = narrow(x, -1, n - amount, amount);
    parts[2] = narrow(x, -1, 0, amount);
  } else {
    parts[0] = edge(0);
    parts[2] = edge(n - 1);
  }
  return cat(parts, -1);
}

}  // namespace

Tensor stft(const Tensor& signal, const Frames& f, std::string_view pad_mode, std::optional<bool> return_complex,
            std::optional<bool> align_to_window) {
  const Checked c("stft", f, signal);
  TESSERA_CHECK_NOT_IMPLEMENTED(signal.is_floating_point() || signal.is_complex(),
                                "stft: expected a tensor of floating point or complex values, but got ",
                                name_of(signal.dtype()));
  TESSERA_CHECK(signal.dim() == 1 || signal.dim() == 2, "stft: expected a 1D or 2D tensor, but got ", signal.dim(),
                "D");
  TESSERA_CHECK(!f.center || !align_to_window, "stft: align_to_window should only be set when center=False");
  const bool real = !signal.is_complex() && !(f.window.defined() && f.window.is_complex());
  TESSERA_CHECK(!f.onesided.value_or(false) || real, "Cannot have onesided output if window or input is complex");
  TESSERA_CHECK(return_complex || !real, "stft requires the return_complex parameter be given for real inputs");
  Tensor x = signal.dim() == 1 ? signal.unsqueeze(0) : signal;
  if (f.center) x = continued(x, c.n_fft / 2, pad_mode);
  Tensor w = window_of(f, c, signal);
  if (align_to_window.value_or(false)) {
    // Frames of the window's length that are filled up to n_fft numbers: the same as n_fft numbers of a signal that is
    // continued by as many zeros.
    const int64_t left = (c.n_fft - c.width) / 2;
    x = surrounded(x, left, c.n_fft - c.width - left);
  }
  TESSERA_CHECK(c.n_fft <= x.size(-1), "stft: expected 0 < n_fft <= ", x.size(-1), ", but got n_fft=", c.n_fft);
  Tensor frames = x.unfold(-1, c.n_fft, c.hop);
  if (w.defined()) frames = mul(frames, w);
  const int64_t dims[] = {2};
  const int64_t mode = f.normalized ? 1 : 0;
  Tensor spectrum;
  if (frames.is_complex()) {
    const std::vector<SymInt> symbols{2};
    spectrum = _fft_c2c(frames, symbols, mode, true);
  } else {
    spectrum = _fft_r2c(frames, dims, mode, f.onesided.value_or(true));
  }
  spectrum = transpose(spectrum, 1, 2);
  if (signal.dim() == 1) spectrum = spectrum.squeeze(0);
  if (return_complex.value_or(true)) return spectrum;
  warn_once(
      "stft with return_complex=False is deprecated: it gives real tensors with a last dimension of two; "
      "call view_as_real on the complex result instead");
  return view_as_real(spectrum);
}

Tensor istft(const Tensor& spectrum, const Frames& f, std::optional<int64_t> length, bool return_complex) {
  TESSERA_CHECK(spectrum.is_complex(),
                "istft requires a complex-valued input tensor matching the output from "
                "stft with return_complex=True, but got ",
                name_of(spectrum.dtype()));
  const Checked c("istft", f, spectrum);
  TESSERA_CHECK(spectrum.dim() == 2 || spectrum.dim() == 3, "istft: expected a tensor with 2 or 3 dimensions, but got ",
                spectrum.dim());
  TESSERA_CHECK(spectrum.numel() > 0, "istft: input tensor cannot be empty.");
  TESSERA_CHECK(c.hop <= c.width, "istft: expected 0 < hop_length <= win_length, but got hop_length=", c.hop,
                ", win_length=", c.width);
  const int64_t bins = spectrum.size(-2), count = spectrum.size(-1);
  const bool onesided = f.onesided.value_or(bins != c.n_fft);
  TESSERA_CHECK(bins == (onesided ? c.n_fft / 2 + 1 : c.n_fft), "istft: expected ",
                onesided ? c.n_fft / 2 + 1 : c.n_fft, " frequencies (n_fft", onesided ? " / 2 + 1" : "",
                ", onesided=", onesided ? "True" : "False", "), but got ", bins);
  TESSERA_CHECK(!return_complex || !onesided, "Cannot have onesided output if window or input is complex");
  TESSERA_CHECK(return_complex || !f.window.defined() || !f.window.is_complex(),
                "Complex windows are incompatible with return_complex=False");
  Tensor x = transpose(spectrum.dim() == 2 ? spectrum.unsqueeze(0) : spectrum, 1, 2);
  const int64_t mode = f.normalized ? 1 : 2;
  const int64_t dims[] = {2};
  if (return_complex) {
    const std::vector<SymInt> symbols{2};
    x = _fft_c2c(x, symbols, mode, false);
  } else {
    if (!onesided) x = narrow(x, 2, 0, c.n_fft / 2 + 1);
    x = _fft_c2r(x, dims, mode, SymInt(c.n_fft));
  }
  Tensor w = window_of(f, c, spectrum);
  const std::vector<SymInt> size{c.n_fft};
  if (!w.defined()) w = ones(size, to_real(spectrum.dtype()), {}, spectrum.device(), {});
  const int64_t total = c.n_fft + c.hop * (count - 1);
  const auto overlapped = [&](const Tensor& frames) {
    const std::vector<SymInt> sizes{frames.size(0), total};
    return unfold_backward(frames, sizes, 1, c.n_fft, c.hop);
  };
  const std::vector<SymInt> all{1, count, c.n_fft};
  const Tensor sum = overlapped(mul(x, w)), squares = overlapped(mul(w, w).expand(all));
  const int64_t start = f.center ? c.n_fft / 2 : 0;
  const int64_t end = length ? start + *length : total - start, have = std::min(end, total);
  TESSERA_CHECK(!length || *length >= 0, "istft: expected a length of at least 0, but got ", *length);
  const Tensor weight = narrow(squares, 1, start, std::max<int64_t>(0, have - start));
  if (weight.numel() > 0 && !values_unknown(weight) && !is_transformed(weight)) {
    const double least = amin(abs(weight)).item_scalar().to_double();
    TESSERA_CHECK(least > 1e-11, "istft: the windows leave a gap (window overlap add min: ", least,
                  "); choose a window and hop_length whose squares add up to more than 0 everywhere");
  }
  Tensor y = div(narrow(sum, 1, start, std::max<int64_t>(0, have - start)), weight);
  if (end > total) {
    warn(
        "The length of signal is shorter than the length parameter. Result is being padded with zeros in "
        "the tail. Please check your center and hop_length settings.");
    y = surrounded(y, 0, end - total);
  }
  return spectrum.dim() == 2 ? y.squeeze(0) : y;
}

}  // namespace tessera::signal
