// Short-time Fourier transforms.
#pragma once

#include <optional>
#include <string_view>

#include "tensor/core/tensor.h"

namespace tessera::signal {

// What stft and istft are told alike. Defaults: hop_length n_fft / 4, win_length n_fft, a window of ones, onesided
// for real signals and windows.
struct Frames {
  int64_t n_fft;
  std::optional<int64_t> hop_length, win_length;
  const Tensor& window;  // 1-d of win_length numbers, or undefined
  bool center, normalized;
  std::optional<bool> onesided;
};

// signal: (length,) or (batch, length), real or complex. Result (batch, frequencies, frames), complex, or with a last
// dimension of real and imaginary parts. center: frames begin n_fft / 2 earlier; the signal is continued at both ends
// as pad_mode ("reflect", "constant", "replicate", "circular") says. align_to_window (without center): frames are as
// long as the window, and those of n_fft numbers reach beyond them. Errors as documented.
Tensor stft(const Tensor& signal, const Frames& f, std::string_view pad_mode, std::optional<bool> return_complex,
            std::optional<bool> align_to_window);

// spectrum: (batch, frequencies, frames), complex. Result (batch, length), real unless return_complex. Error where the
// windows leave a gap.
Tensor istft(const Tensor& spectrum, const Frames& f, std::optional<int64_t> length, bool return_complex);

}  // namespace tessera::signal
