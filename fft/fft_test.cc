// Fourier transforms as C++ programs write them; python/tests/test_fft.py has the rest.
#include "fft/fft.h"

#include <complex>
#include <vector>

#include "autograd/autograd.h"
#include "gtest/gtest.h"
#include "tensor/ops/api.h"

namespace tessera {
namespace {

using Complex = std::complex<double>;

Tensor doubles(std::vector<double> v) {
  const int64_t size[] = {static_cast<int64_t>(v.size())};
  Tensor t = empty_kernel(size, DType::kFloat64);
  std::copy(v.begin(), v.end(), t.data<double>());
  return t;
}
void expect_values(const Tensor& t, const std::vector<Complex>& wanted) {
  ASSERT_EQ(t.numel(), static_cast<int64_t>(wanted.size()));
  const Tensor c = t.is_complex() ? t : t.to(DType::kComplex128);
  for (size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(std::abs(c.data<Complex>()[i] - wanted[i]), 0, 1e-14) << i;
}

TEST(Fft, FunctionsOfTheNamespace) {
  const Tensor x = doubles({1, 2, 3, 4});
  expect_values(fft::rfft(x), {{10, 0}, {-2, 2}, {-2, 0}});
  expect_values(fft::fft(x), {{10, 0}, {-2, 2}, {-2, 0}, {-2, -2}});
  expect_values(fft::irfft(fft::rfft(x), SymInt(4)), {1, 2, 3, 4});
  expect_values(fft::fft(x, SymInt(2), -1, "ortho"), {3 / std::sqrt(2.0), -1 / std::sqrt(2.0)});
  expect_values(fft::fftshift(fft::fftfreq(4, 1.0, DType::kFloat64)), {-0.5, -0.25, 0, 0.25});
}

TEST(Fft, Gradient) {
  Tensor x = doubles({1, 2, 3}).requires_grad_();
  sum(abs(fft::rfft(x)).square()).backward();
  // Of |X0|^2 + |X1|^2.
  expect_values(x.grad(), {12 - 3, 12 + 0, 12 + 3});
}

TEST(Fft, Errors) {
  EXPECT_THROW(fft::fft(doubles({1, 2}), SymInt(0)), Error);
  EXPECT_THROW(fft::fft(doubles({1, 2}), std::nullopt, 1), IndexError);
  EXPECT_THROW(fft::fft(doubles({1, 2}), std::nullopt, -1, "none"), Error);
}

}  // namespace
}  // namespace tessera
