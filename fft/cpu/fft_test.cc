// Transforms against the definition, summed in long double.
#include "fft/cpu/fft.h"

#include <cmath>
#include <complex>
#include <functional>
#include <limits>
#include <numbers>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "tensor/core/parallel.h"

namespace tessera::cpu {
namespace {

using Wide = std::complex<long double>;

template <class T>
constexpr DType kType = sizeof(T) == 4 ? DType::kFloat32 : DType::kFloat64;

std::vector<Wide> by_definition(const std::vector<Wide>& x, bool forward, long double scale) {
  const auto n = static_cast<int64_t>(x.size());
  std::vector<Wide> root(n), y(n);
  for (int64_t k = 0; k < n; ++k) {
    const long double angle = 2 * std::numbers::pi_v<long double> * k / n;
    root[k] = {std::cos(angle), forward ? -std::sin(angle) : std::sin(angle)};
  }
  for (int64_t k = 0; k < n; ++k) {
    for (int64_t j = 0; j < n; ++j) y[k] += x[j] * root[j * k % n];
    y[k] *= scale;
  }
  return y;
}

template <class T>
std::vector<T> noise(int64_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<T> normal;
  std::vector<T> x(n);
  for (T& v : x) v = normal(random);
  return x;
}

// The distance of two signals, in units of rounding errors that grow with the logarithm of the length.
template <class T>
double error(const std::vector<Wide>& want, const std::function<std::complex<T>(int64_t)>& got) {
  long double difference = 0, size = 0;
  for (size_t k = 0; k < want.size(); ++k) {
    const auto z = got(static_cast<int64_t>(k));
    difference += std::norm(Wide(z.real(), z.imag()) - want[k]);
    size += std::norm(want[k]);
  }
  const double log = std::log2(static_cast<double>(want.size()) + 1) + 1;
  return static_cast<double>(std::sqrt(difference / (size + 1e-300L))) / std::numeric_limits<T>::epsilon() / log;
}

// `lines` lines of n numbers, `step` numbers apart along the line (lines interleaved if step > 1).
template <class T>
void check(FftKind kind, int64_t n, int64_t count, bool across, bool forward) {
  SCOPED_TRACE(testing::Message() << "n " << n << " count " << count << " across " << across << " forward " << forward
                                  << " kind " << static_cast<int>(kind) << " bytes " << sizeof(T));
  const int64_t half = n / 2 + 1, n_in = kind == FftKind::kHalfToReal ? half : n,
                n_out = kind == FftKind::kRealToHalf ? half : n;
  const int64_t parts_in = kind == FftKind::kRealToHalf ? 1 : 2, parts_out = kind == FftKind::kHalfToReal ? 1 : 2;
  const std::vector<T> x = noise<T>(n_in * count * parts_in, static_cast<unsigned>(n));
  std::vector<T> y(n_out * count * parts_out, T{-7});
  const FftDim dim{count, across ? 1 : n_in, across ? 1 : n_out};
  const double scale = 0.5;
  const FftLines lines{kType<T>, kind, forward, scale, n, across ? count : 1, across ? count : 1, {&dim, 1}};
  (kind == FftKind::kHalfToReal ? run_fft_to_real : run_fft)(lines, x.data(), y.data());
  for (int64_t l = 0; l < count; ++l) {
    std::vector<Wide> signal(n);
    for (int64_t i = 0; i < n_in; ++i) {
      const T* at = &x[parts_in * (across ? i * count + l : l * n_in + i)];
      signal[i] = {at[0], parts_in == 2 ? at[1] : T{0}};
    }
    if (kind == FftKind::kHalfToReal) {
      signal[0] = signal[0].real();
      if (n % 2 == 0) signal[n / 2] = signal[n / 2].real();
      for (int64_t k = half; k < n; ++k) signal[k] = std::conj(signal[n - k]);
    }
    std::vector<Wide> want = by_definition(signal, forward, scale);
    want.resize(n_out);
    EXPECT_LT(error<T>(want,
                       [&](int64_t k) {
                         const T* at = &y[parts_out * (across ? k * count + l : l * n_out + k)];
                         return std::complex<T>(at[0], parts_out == 2 ? at[1] : T{0});
                       }),
              1)
        << "line " << l;
  }
}

template <class T>
void check_kinds(int64_t n, int64_t count) {
  for (FftKind kind : {FftKind::kComplex, FftKind::kRealToHalf, FftKind::kHalfToReal})
    for (bool across : {false, true})
      for (bool forward : {true, false}) check<T>(kind, n, count, across, forward);
}

TEST(Fft, EveryShortLengthAgreesWithTheDefinition) {
  for (int64_t n = 1; n <= 70; ++n) {
    check_kinds<float>(n, 1);
    check_kinds<double>(n, 3);
  }
}

TEST(Fft, ManyLinesAtOnceAgreeWithTheDefinition) {
  for (int64_t n : {1, 2, 3, 8, 15, 16, 31, 37, 64, 100}) {
    check_kinds<float>(n, 37);
    check_kinds<double>(n, 21);
  }
}

// Convolutions: by powers of a root (139 - 1 = 2 * 3 * 23), and by a chirp (107 - 1 = 2 * 53; 131 is prime).
TEST(Fft, ManyLinesWithLargePrimeFactors) {
  for (int64_t n : {107, 127, 139, 2 * 139, 2 * 131}) {
    check_kinds<float>(n, 17);
    check_kinds<double>(n, 19);
  }
  check<float>(FftKind::kComplex, 1021, 65, false, false);
  check<double>(FftKind::kRealToHalf, 1021, 17, false, true);
}

// Multiples of a vector's numbers, of which rows of vectors are made where vectors are long.
TEST(Fft, LinesOfWholeVectorsAgreeWithTheDefinition) {
  for (int64_t n : {32, 40, 48, 56, 64, 80, 88, 112, 128, 176, 208, 224, 256, 432, 496, 512, 592}) {
    for (bool forward : {true, false}) {
      check<float>(FftKind::kComplex, n, 5, false, forward);
      check<double>(FftKind::kComplex, n, 5, false, forward);
    }
    for (FftKind kind : {FftKind::kRealToHalf, FftKind::kHalfToReal}) {
      check<float>(kind, 2 * n, 3, false, true);
      check<double>(kind, 2 * n, 3, false, false);
    }
  }
}

TEST(Fft, LongerLengthsOfEveryKindOfFactor) {
  for (int64_t n : {128, 243, 256, 257, 270, 343, 500, 512, 625, 961, 1001, 1009, 1024, 1331, 2018, 2187}) {
    check<float>(FftKind::kComplex, n, 1, false, true);
    check<double>(FftKind::kComplex, n, 1, false, false);
    check<float>(FftKind::kRealToHalf, n, 3, false, true);
    check<double>(FftKind::kHalfToReal, n, 2, false, false);
    check<double>(FftKind::kComplex, n, 19, true, true);
  }
}

// A long signal: there and back, and single frequencies.
template <class T>
void check_long(int64_t n) {
  SCOPED_TRACE(n);
  const std::vector<T> x = noise<T>(2 * n, 5);
  std::vector<T> y(2 * n), z(2 * n);
  run_fft({kType<T>, FftKind::kComplex, true, 1, n, 1, 1, {}}, x.data(), y.data());
  run_fft({kType<T>, FftKind::kComplex, false, 1.0 / static_cast<double>(n), n, 1, 1, {}}, y.data(), z.data());
  double difference = 0;
  for (int64_t i = 0; i < 2 * n; ++i) difference = std::max(difference, std::abs(static_cast<double>(z[i] - x[i])));
  EXPECT_LT(difference, 40 * std::numeric_limits<T>::epsilon());
  for (int64_t k : {int64_t{0}, int64_t{1}, n / 3, n - 1}) {
    Wide want = 0;
    for (int64_t j = 0; j < n; ++j) {
      const long double angle =
          2 * std::numbers::pi_v<long double> * static_cast<long double>(static_cast<__int128>(j) * k % n) / n;
      want += Wide(x[2 * j], x[2 * j + 1]) * Wide(std::cos(angle), -std::sin(angle));
    }
    const double size = std::sqrt(2.0 * static_cast<double>(n));
    EXPECT_LT(std::abs(Wide(y[2 * k], y[2 * k + 1]) - want), 20 * size * std::numeric_limits<T>::epsilon()) << k;
  }
}

TEST(Fft, LongSignals) {
  for (int64_t n : {4096, 16384, 17497, 65536, 65537, 59049, 78125, 100003, 262144}) {
    check_long<float>(n);
    check_long<double>(n);
  }
}

TEST(Fft, SameBitsAtAnyNumberOfThreads) {
  const int before = num_threads();
  for (int64_t n : {int64_t{100}, int64_t{65536}, int64_t{100003}}) {
    const int64_t count = n == 100 ? 1000 : 2;
    const std::vector<float> x = noise<float>(2 * n * count, 9);
    std::vector<float> one(2 * n * count), four(2 * n * count);
    const FftDim dim{count, n, n};
    const FftLines lines{DType::kFloat32, FftKind::kComplex, true, 1, n, 1, 1, {&dim, 1}};
    set_num_threads(1);
    run_fft(lines, x.data(), one.data());
    set_num_threads(4);
    run_fft(lines, x.data(), four.data());
    EXPECT_TRUE(one == four) << n;
  }
  set_num_threads(before);
}

// Lines of two dimensions, with memory that is no line's between them, are those that go one by one.
TEST(Fft, RowsOfLinesWithGaps) {
  for (int64_t n : {64, 112, 128, 256, 1024}) {
    const int64_t out_n = n + 2;
    const FftDim dims[] = {{3, 7 * n, 6 * out_n}, {5, n + 8, out_n + 1}};
    for (FftKind kind : {FftKind::kComplex, FftKind::kRealToHalf}) {
      const int64_t parts = kind == FftKind::kComplex ? 2 : 1;
      const std::vector<double> x = noise<double>(parts * 21 * n, 3);
      std::vector<double> y(2 * 18 * out_n + 16, -7), want = y;
      FftLines lines{DType::kFloat64, kind, false, 0.25, n, 1, 1, dims};
      run_fft(lines, x.data(), y.data());
      lines.dims = {};
      for (int64_t i = 0; i < 3; ++i)
        for (int64_t j = 0; j < 5; ++j)
          run_fft(lines, &x[parts * (i * dims[0].in_stride + j * dims[1].in_stride)],
                  &want[2 * (i * dims[0].out_stride + j * dims[1].out_stride)]);
      for (size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(y[i], want[i], 1e-13 * static_cast<double>(n)) << n << " " << i;
    }
  }
}

TEST(Fft, EachFunctionRefusesTheKindOfTheOther) {
  float x[4] = {};
  FftLines lines{DType::kFloat32, FftKind::kHalfToReal, false, 1, 2, 1, 1, {}};
  EXPECT_THROW(run_fft(lines, x, x), Error);
  lines.kind = FftKind::kRealToHalf;
  EXPECT_THROW(run_fft_to_real(lines, x, x), Error);
}

TEST(Fft, InPlace) {
  for (int64_t n : {60, 1024, 1009}) {
    std::vector<double> x = noise<double>(2 * n * 3, 2), y(x.size());
    const FftDim dim{3, n, n};
    const FftLines lines{DType::kFloat64, FftKind::kComplex, true, 1, n, 1, 1, {&dim, 1}};
    run_fft(lines, x.data(), y.data());
    run_fft(lines, x.data(), x.data());
    EXPECT_TRUE(x == y) << n;
  }
}

}  // namespace
}  // namespace tessera::cpu
