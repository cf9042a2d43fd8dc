// What the functions of torch.fft are, in terms of the three operators that transform.
#pragma once

#include <optional>
#include <string_view>
#include <type_traits>

#include "tensor/core/tensor.h"

namespace tessera::fft {

// What a function transforms: from where, to where, with which sign, and the operator that does it: a program that
// calls one function links the operator of that one.
struct Transform {
  const char* name;
  bool forward;
  bool real_in;   // real numbers to the first half of a spectrum, along the last dimension
  bool real_out;  // and back
  // sizes[k]: the length of the lines along dims[k], on the real side of the last if there is one.
  Tensor (*apply)(bool forward, const Tensor& x, const IntVector& dims, const IntVector& sizes, int64_t norm);
};
std::remove_pointer_t<decltype(Transform::apply)> complex_to_complex, real_to_half, half_to_real;
inline constexpr Transform kForward{"fft", true, false, false, &complex_to_complex},
    kInverse{"ifft", false, false, false, &complex_to_complex}, kRealForward{"rfft", true, true, false, &real_to_half},
    kRealInverse{"irfft", false, false, true, &half_to_real},
    kHermitianForward{"hfft", true, false, true, &half_to_real},
    kHermitianInverse{"ihfft", false, true, false, &real_to_half};

// Along one dimension; n: its size before (of real_out: after), cut or filled up with zeros. Integers become the
// default floating dtype. Error: n < 1, a norm that is none, a dtype that the transform does not take; IndexError: dim.
Tensor along(const Transform& what, const Tensor& self, std::optional<SymInt> n, int64_t dim,
             std::optional<std::string_view> norm);
// Along several. Error besides: a dimension twice, s and dim of different lengths.
Tensor along(const Transform& what, const Tensor& self, std::optional<SymIntList> s, std::optional<IntList> dim,
             std::optional<std::string_view> norm);

// out= of functions with real results. Error: out is complex, or integers.
void write_real(const Tensor& out, const Tensor& value);

// fft_fftfreq, fft_rfftfreq
Tensor frequencies(int64_t n, double d, std::optional<DType> dtype, std::optional<Device> device);
Tensor half_frequencies(int64_t n, double d, std::optional<DType> dtype, std::optional<Device> device);

// Rolls each of dim by half its size.
Tensor shift(const Tensor& self, std::optional<IntList> dim, bool back);

}  // namespace tessera::fft
