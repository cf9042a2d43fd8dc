#include <cmath>
#include <complex>
#include <cstring>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "tensor/core/error.h"
#include "tensor/core/half.h"
#include "tensor/core/parallel.h"
#include "nn/cpu/conv/choose.h"
#include "nn/cpu/conv/conv.h"

namespace tessera::cpu {
namespace {

struct Sizes {
  int64_t x, w, y;
};
int64_t product(const int64_t (&s)[3]) { return s[0] * s[1] * s[2]; }
Sizes sizes(const ConvGeometry& g) {
  return {g.batch * g.in_channels * product(g.in_size), g.out_channels * (g.in_channels / g.groups) * product(g.kernel),
          g.batch * g.out_channels * product(g.out_size)};
}

struct Spatial {
  int64_t in, kernel, stride, padding, dilation;
  int64_t unread = 0;  // windows there is room for, beyond those there are: the output padding of a transposed one
};
ConvGeometry geometry(int64_t batch, int64_t in_c, int64_t out_c, int64_t groups, Spatial d, Spatial h, Spatial w) {
  ConvGeometry g{batch, in_c, out_c, groups, {}, {}, {}, {}, {}, {}};
  const Spatial s[3] = {d, h, w};
  for (int i = 0; i < 3; ++i) {
    g.in_size[i] = s[i].in;
    g.kernel[i] = s[i].kernel;
    g.stride[i] = s[i].stride;
    g.padding[i] = s[i].padding;
    g.dilation[i] = s[i].dilation;
    g.out_size[i] =
        (s[i].in + 2 * s[i].padding - s[i].dilation * (s[i].kernel - 1) - 1) / s[i].stride + 1 - s[i].unread;
  }
  return g;
}
constexpr Spatial kOne{1, 1, 1, 0, 1};

// Calls fn(index in x, index in w, index in y) for every product of the convolution: the definition.
template <class F>
void for_products(const ConvGeometry& g, F&& fn) {
  const int64_t ic = g.in_channels / g.groups, oc = g.out_channels / g.groups, taps = product(g.kernel);
  for (int64_t n = 0; n < g.batch; ++n)
    for (int64_t o = 0; o < g.out_channels; ++o)
      for (int64_t p = 0; p < product(g.out_size); ++p)
        for (int64_t c = 0; c < ic; ++c)
          for (int64_t t = 0; t < taps; ++t) {
            const int64_t k[3] = {t / (g.kernel[1] * g.kernel[2]), t / g.kernel[2] % g.kernel[1], t % g.kernel[2]};
            const int64_t q[3] = {p / (g.out_size[1] * g.out_size[2]), p / g.out_size[2] % g.out_size[1],
                                  p % g.out_size[2]};
            int64_t at = 0;
            bool inside = true;
            for (int i = 0; i < 3; ++i) {
              const int64_t pos = q[i] * g.stride[i] - g.padding[i] + k[i] * g.dilation[i];
              inside &= pos >= 0 && pos < g.in_size[i];
              at = at * g.in_size[i] + pos;
            }
            if (inside)
              fn((n * g.in_channels + o / oc * ic + c) * product(g.in_size) + at, (o * ic + c) * taps + t,
                 (n * g.out_channels + o) * product(g.out_size) + p);
          }
}

template <class T>
T random_value(std::mt19937& rng) {
  const auto r = [&] { return std::uniform_real_distribution<float>(-1, 1)(rng); };
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(rng() % 21) - T{10};
  else if constexpr (std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>)
    return T(r(), r());
  else if constexpr (std::is_same_v<T, ComplexHalf>)
    return ComplexHalf(std::complex<float>(r(), r()));
  else
    return static_cast<T>(r());
}
template <class T>
std::vector<T> random_vector(int64_t n, int seed) {
  std::mt19937 rng(seed);
  std::vector<T> v(n);
  for (auto& x : v) x = random_value<T>(rng);
  return v;
}
using Wide = std::complex<double>;
template <class T>
Wide widen(T x) {
  if constexpr (std::is_same_v<T, ComplexHalf>)
    return static_cast<Wide>(static_cast<std::complex<float>>(x));
  else if constexpr (std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>)
    return static_cast<Wide>(x);
  else
    return static_cast<double>(x);
}
template <class T>
double tolerance() {
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, ComplexHalf>)
    return 1e-3;
  else if constexpr (std::is_same_v<T, BFloat16>)
    return 8e-3;
  else if constexpr (std::is_same_v<T, double> || std::is_same_v<T, std::complex<double>>)
    return 1e-13;
  else
    return 3e-6;
}
template <class T>
void expect_close(const std::vector<T>& got, const std::vector<Wide>& expected, const std::vector<double>& size,
                  const char* what) {
  for (size_t i = 0; i < got.size(); ++i) {
    if constexpr (std::is_integral_v<T>)
      ASSERT_EQ(got[i], static_cast<T>(static_cast<int64_t>(expected[i].real()))) << what << i;
    else
      ASSERT_LE(std::abs(widen(got[i]) - expected[i]),
                tolerance<T>() * (std::abs(expected[i]) + 1e-3) + 1e-6 * (tolerance<T>() < 1e-9 ? 1e-8 : 1) * size[i])
          << what << i;
  }
}

template <class T>
void check(const ConvGeometry& g, bool with_bias = true) {
  constexpr DType kType = DTypeOf<T>::value;
  const Sizes n = sizes(g);
  const auto x = random_vector<T>(n.x, 1), w = random_vector<T>(n.w, 2), bias = random_vector<T>(g.out_channels, 3),
             dy = random_vector<T>(n.y, 4);
  std::vector<Wide> ey(n.y), edx(n.x), edw(n.w);
  std::vector<double> sy(n.y, 1), sx(n.x, 1), sw(n.w, 1);
  if (with_bias)
    for (int64_t i = 0; i < n.y; ++i) ey[i] = widen(bias[i / product(g.out_size) % g.out_channels]);
  for_products(g, [&](int64_t i, int64_t j, int64_t k) {
    ey[k] += widen(x[i]) * widen(w[j]);
    edx[i] += widen(dy[k]) * widen(w[j]);
    edw[j] += widen(dy[k]) * widen(x[i]);
    sy[k] += 1;
    sx[i] += 1;
    sw[j] += 1;
  });
  std::vector<T> y(n.y, T(7)), dx(n.x, T(7)), dw(n.w, T(7));
  conv_forward(kType, g, x.data(), w.data(), with_bias ? bias.data() : nullptr, y.data());
  conv_backward_input(kType, g, dy.data(), w.data(), dx.data());
  conv_backward_weight(kType, g, dy.data(), x.data(), dw.data());
  expect_close(y, ey, sy, "y ");
  expect_close(dx, edx, sx, "dx ");
  expect_close(dw, edw, sw, "dw ");
}

std::vector<ConvGeometry> geometries() {
  return {
      geometry(2, 3, 4, 1, kOne, {7, 3, 1, 1, 1}, {8, 3, 1, 1, 1}),
      geometry(2, 3, 4, 1, kOne, {9, 3, 2, 1, 1}, {8, 2, 3, 0, 1}),
      geometry(2, 4, 6, 2, kOne, {9, 3, 1, 2, 2}, {11, 3, 2, 2, 3}),
      geometry(3, 4, 8, 4, kOne, {6, 3, 1, 1, 1}, {19, 3, 1, 1, 1}),  // depthwise, two per channel
      geometry(2, 3, 3, 3, kOne, {6, 3, 2, 1, 2}, {9, 2, 2, 1, 1}),   // depthwise, strided
      geometry(2, 3, 4, 1, {5, 3, 1, 1, 1}, {6, 2, 2, 1, 1}, {7, 3, 1, 0, 2}),
      geometry(2, 2, 2, 2, {5, 3, 2, 1, 1}, {4, 3, 1, 1, 1}, {5, 2, 1, 1, 1}),
      geometry(2, 5, 7, 1, kOne, {4, 1, 1, 0, 1}, {5, 1, 1, 0, 1}),  // pointwise
      geometry(2, 5, 7, 1, kOne, {4, 1, 2, 0, 1}, {5, 1, 2, 0, 1}),
      geometry(2, 2, 3, 1, kOne, kOne, {16, 5, 2, 3, 1}),            // one dimension
      geometry(1, 1, 1, 1, kOne, {3, 3, 1, 4, 1}, {3, 3, 1, 4, 1}),  // windows that lie in the padding
      geometry(2, 2, 3, 1, kOne, {3, 3, 5, 3, 1}, {4, 2, 7, 6, 1}),
      // An image with positions beyond the last window.
      geometry(2, 5, 7, 1, kOne, {4, 1, 1, 0, 2, 1}, {5, 1, 1, 0, 3, 2}),
      geometry(2, 3, 3, 3, kOne, {4, 1, 1, 0, 2, 1}, {5, 1, 1, 0, 1}),
      geometry(2, 3, 4, 1, kOne, {9, 3, 1, 1, 2, 1}, {11, 2, 1, 2, 4, 3}),
  };
}

template <class T>
class ConvTest : public testing::Test {};
using Types = testing::Types<float, double, Half, BFloat16, std::complex<float>, std::complex<double>, ComplexHalf,
                             uint8_t, int8_t, int16_t, int32_t, int64_t>;
TYPED_TEST_SUITE(ConvTest, Types);
TYPED_TEST(ConvTest, AllDirectionsMatchTheDefinition) {
  for (const auto& g : geometries()) {
    check<TypeParam>(g, true);
    check<TypeParam>(g, false);
  }
}

TEST(Conv, LargerThanTheBlocks) {
  check<float>(geometry(70, 16, 20, 1, kOne, {8, 3, 1, 1, 1}, {8, 3, 1, 1, 1}));  // many small images
  check<float>(geometry(3, 40, 70, 1, kOne, {5, 3, 1, 1, 1}, {6, 3, 1, 1, 1}));   // images side by side in one product
  check<float>(geometry(1, 2, 3, 1, kOne, {70, 5, 1, 2, 1}, {90, 5, 1, 2, 1}));   // positions in several blocks
  check<double>(geometry(20, 3, 5, 1, kOne, {30, 3, 1, 0, 1}, {31, 3, 1, 0, 1}));
  check<float>(geometry(5, 64, 64, 1, kOne, {12, 1, 1, 0, 1}, {12, 1, 1, 0, 1}));
  check<float>(geometry(40, 12, 12, 12, kOne, {9, 3, 1, 1, 1}, {35, 3, 1, 1, 1}));  // depthwise, images in chunks
  check<double>(geometry(20, 6, 12, 6, kOne, {9, 3, 2, 1, 1}, {35, 5, 2, 2, 2}));
  check<float>(geometry(300, 8, 8, 1, kOne, {1, 1, 1, 0, 1}, {7, 3, 1, 1, 1}));  // columns of several images in a panel
  check<float>(geometry(3, 16, 40, 1, kOne, {20, 3, 2, 1, 1}, {23, 3, 3, 1, 2}));  // strided
  check<float>(geometry(2, 16, 24, 8, {4, 3, 1, 1, 1}, {5, 3, 2, 1, 1}, {6, 3, 1, 1, 1}));
  check<float>(geometry(9, 8, 8, 1, kOne, {6, 2, 1, 3, 1}, {6, 2, 1, 4, 1}));     // more padding than kernel
  check<float>(geometry(40, 40, 24, 1, kOne, {3, 1, 1, 0, 1}, {5, 1, 1, 0, 1}));  // pointwise on small images
}

// Lines of every length around those of the tiles, channels around whole vectors, phases of strided gradients.
TEST(Conv, ManyChannels) {
  for (int64_t width = 1; width <= 17; ++width)
    check<float>(geometry(2, 3, 10 + 5 * width, 1, kOne, {5, 3, 1, 1, 1}, {width, 3, 1, 1, 1}), width % 2);
  for (int64_t width : {26, 31, 43, 60})
    check<float>(geometry(1, 17, 33, 1, kOne, {7, 3, 1, 1, 1}, {width, 3, 1, 1, 1}));
  for (int64_t stride : {2, 3, 4})
    check<float>(geometry(2, 24, 40, 1, kOne, {11, 3, stride, 1, 1}, {13, 5, stride, 2, 1}));
  check<float>(geometry(2, 16, 48, 1, {5, 3, 2, 1, 1}, {6, 3, 1, 1, 1}, {9, 3, 2, 1, 2}));
  check<float>(geometry(2, 24, 64, 2, kOne, {9, 1, 2, 0, 1},
                        {9, 1, 2, 0, 1}));  // every other element of the input has no gradient
  check<float>(geometry(2, 70, 16, 1, kOne, {8, 4, 2, 1, 1}, {8, 4, 2, 1, 1}));
  check<float>(geometry(3, 30, 130, 1, kOne, {3, 3, 1, 1, 1}, {3, 3, 1, 1, 1}));
  check<float>(geometry(2, 100, 32, 1, kOne, {10, 3, 1, 2, 2}, {12, 3, 1, 2, 2}));
  check<float>(geometry(2, 8, 16, 1, kOne, {20, 3, 1, 0, 1}, {30, 3, 1, 0, 1}));   // no border
  check<float>(geometry(20, 8, 16, 1, kOne, {40, 3, 1, 1, 1}, {50, 3, 1, 1, 1}));  // images in chunks
}

// Kernels of 3 x 3 in tiles of 2 x 2 results: odd sizes, bands of several images, channels in chunks and groups, any
// border.
TEST(Conv, SmallTiles) {
  check<float>(geometry(2, 33, 35, 1, kOne, {8, 3, 1, 1, 1}, {9, 3, 1, 1, 1}));
  check<float>(geometry(3, 64, 40, 1, kOne, {7, 3, 1, 1, 1}, {7, 3, 1, 1, 1}), false);
  check<float>(geometry(1, 140, 33, 1, kOne, {11, 3, 1, 0, 1}, {14, 3, 1, 0, 1}));
  check<float>(geometry(1, 32, 170, 1, kOne, {6, 3, 1, 2, 1}, {13, 3, 1, 0, 1}));
  check<float>(geometry(2, 80, 64, 2, kOne, {9, 3, 1, 1, 1}, {31, 3, 1, 3, 1}));
  check<float>(geometry(5, 36, 32, 1, kOne, {12, 3, 1, 4, 1}, {35, 3, 1, 1, 1}));
  check<float>(geometry(1, 32, 32, 1, kOne, {4, 3, 1, 1, 1}, {150, 3, 1, 1, 1}));
  check<float>(geometry(2, 16, 17, 1, kOne, {10, 3, 1, 1, 1}, {6, 3, 1, 1, 1}));
  // With depth.
  check<float>(geometry(2, 8, 20, 1, {4, 3, 1, 1, 1}, {7, 3, 1, 1, 1}, {10, 3, 1, 1, 1}));
  check<float>(geometry(1, 48, 64, 2, {5, 2, 2, 1, 1}, {8, 3, 1, 0, 1}, {9, 3, 1, 1, 1}), false);
  check<float>(geometry(2, 33, 20, 1, {6, 3, 1, 2, 2}, {4, 3, 1, 1, 1}, {14, 3, 1, 1, 1}));
  // Planes large enough to share their transforms with the depths beside them.
  check<float>(geometry(2, 8, 20, 1, {4, 3, 1, 1, 1}, {12, 3, 1, 1, 1}, {13, 3, 1, 1, 1}));
  check<float>(geometry(1, 22, 17, 1, {18, 3, 1, 1, 1}, {12, 3, 1, 1, 1}, {12, 3, 1, 1, 1}), false);
  check<float>(geometry(1, 16, 16, 1, {9, 3, 2, 1, 1}, {16, 3, 1, 1, 1}, {14, 3, 1, 0, 1}));
  check<float>(geometry(1, 16, 16, 1, {5, 2, 1, 3, 1}, {12, 3, 1, 1, 1}, {12, 3, 1, 1, 1}));
}

// Windows of one position on larger images: strips and panels of positions, sums in several parts, tiles of all
// heights.
TEST(Conv, Pointwise) {
  const auto image = [](int64_t batch, int64_t in_c, int64_t out_c, int64_t groups, int64_t height, int64_t width) {
    return geometry(batch, in_c, out_c, groups, kOne, {height, 1, 1, 0, 1}, {width, 1, 1, 0, 1});
  };
  for (int64_t channels = 10; channels <= 48; channels += 2)
    check<float>(image(2, channels + 1, channels, 1, 11, 12 + channels % 7), channels % 4 == 0);
  check<float>(image(2, 300, 40, 1, 12, 16));
  check<float>(image(3, 37, 96, 1, 16, 40));
  check<float>(image(1, 40, 64, 2, 30, 31));
}

// Ways for many channels and few positions, where the last windows are missing.
TEST(Conv, PositionsBeyondTheLastWindow) {
  for (int64_t channels : {8, 16, 33, 64, 130})
    for (int64_t size : {3, 12, 31})
      for (int64_t kernel : {1, 3}) {
        const Spatial short_of{size, kernel, 1, kernel / 2, 2, 1};
        check<float>(geometry(2, channels, channels + 3, 1, kOne, short_of, {size, kernel, 1, kernel / 2, 1}));
        check<double>(geometry(1, channels, 5, 1, kOne, short_of, short_of));
        check<BFloat16>(geometry(2, channels, channels, 1, kOne, short_of, short_of));
      }
  const auto last = [](int64_t batch, int64_t in_c, int64_t out_c, Spatial h, Spatial w) {
    check<float>(geometry(batch, in_c, out_c, 1, kOne, h, w));
  };
  last(2, 512, 301, {4, 1, 1, 0, 2, 1}, {4, 1, 1, 0, 1});
  last(2, 33, 35, {8, 3, 1, 1, 1, 1}, {9, 3, 1, 1, 1, 1});
  last(8, 128, 130, {3, 3, 1, 1, 1, 1}, {2, 3, 1, 1, 1});
}

// Many weights for few positions.
TEST(Conv, FewPositions) {
  check<float>(geometry(8, 128, 130, 1, kOne, {2, 3, 1, 1, 1}, {2, 3, 1, 1, 1}));
  check<float>(geometry(2, 512, 301, 1, kOne, {4, 1, 1, 0, 1}, {4, 1, 1, 0, 1}), false);
  check<float>(geometry(3, 300, 260, 2, kOne, {5, 3, 2, 1, 1}, {6, 3, 2, 0, 1}));
  check<float>(geometry(1, 129, 140, 1, kOne, {3, 3, 1, 0, 1}, {3, 3, 1, 0, 1}));
  check<float>(geometry(1, 64, 80, 1, {3, 3, 2, 1, 1}, {4, 3, 2, 1, 1}, {7, 3, 2, 1, 1}));
}

// Panels of 32 positions and channels, steps of 32 channels.
TEST(Conv, ReducedFloatsOnDotProducts) {
  check<BFloat16>(geometry(2, 16, 16, 1, kOne, {5, 3, 1, 1, 1}, {7, 3, 1, 1, 1}));
  check<BFloat16>(geometry(2, 40, 50, 1, kOne, {9, 3, 2, 1, 1}, {35, 3, 2, 1, 1}));
  check<BFloat16>(geometry(3, 64, 33, 1, {3, 2, 1, 0, 1}, {4, 1, 1, 0, 1}, {5, 3, 1, 2, 2}));
  check<BFloat16>(geometry(2, 64, 64, 2, kOne, {6, 1, 1, 0, 1}, {6, 1, 1, 0, 1}));
  check<BFloat16>(geometry(5, 20, 70, 1, kOne, kOne, {40, 5, 3, 2, 1}), false);
  // Tiles of positions where they lie.
  check<BFloat16>(geometry(2, 40, 50, 1, kOne, {9, 3, 1, 1, 1}, {35, 3, 1, 1, 1}));
  check<BFloat16>(geometry(1, 33, 16, 1, kOne, {6, 3, 1, 0, 1}, {40, 3, 1, 0, 1}), false);
  check<BFloat16>(geometry(3, 32, 70, 1, kOne, {15, 5, 1, 2, 1}, {31, 3, 1, 1, 1}));
  check<BFloat16>(geometry(2, 16, 20, 1, kOne, {30, 1, 1, 0, 1}, {33, 1, 1, 0, 1}));
  // Lines that fill their steps.
  check<BFloat16>(geometry(2, 40, 36, 1, {4, 2, 1, 1, 1}, {9, 3, 1, 2, 2}, {27, 3, 1, 1, 1}));
  check<BFloat16>(geometry(3, 64, 40, 2, kOne, {6, 3, 1, 1, 1}, {63, 5, 2, 2, 1}), false);
  // Small images: taps that miss the image, positions of several images in a step.
  check<BFloat16>(geometry(8, 64, 70, 1, kOne, {2, 3, 1, 1, 1}, {2, 3, 1, 1, 1}));
  check<BFloat16>(geometry(9, 33, 48, 1, kOne, {5, 3, 2, 1, 1}, {7, 3, 2, 1, 1}), false);
  check<BFloat16>(geometry(5, 40, 40, 2, kOne, {3, 5, 1, 2, 1}, {5, 5, 1, 2, 1}));
  check<BFloat16>(geometry(40, 16, 18, 1, {3, 2, 1, 1, 1}, {2, 2, 1, 0, 1}, {3, 2, 1, 1, 1}));
  check<BFloat16>(geometry(32, 17, 16, 1, kOne, kOne, {3, 3, 1, 1, 2}));
  // More taps than are turned at once.
  check<BFloat16>(geometry(4, 16, 18, 1, kOne, {6, 6, 1, 3, 1}, {6, 5, 1, 2, 1}));
}

// Whatever packs them, reduced floats are computed with as float32, and the results are rounded once.
template <class T>
std::vector<T> rounded(const std::vector<float>& v) {
  return std::vector<T>(v.begin(), v.end());
}
template <class T>
void check_rounding(const ConvGeometry& g) {
  constexpr DType kType = DTypeOf<T>::value, kWide = DType::kFloat32;
  const internal::ConvMachine machine = internal::conv_machine(kType);
  const auto by_panels = [&](internal::ConvDirection direction) {
    return internal::choose_way(direction, kType, g, machine) == internal::ConvWay::kPanels;
  };
  const Sizes n = sizes(g);
  const auto x = random_vector<T>(n.x, 1), w = random_vector<T>(n.w, 2), bias = random_vector<T>(g.out_channels, 3),
             dy = random_vector<T>(n.y, 4);
  const std::vector<float> wx(x.begin(), x.end()), ww(w.begin(), w.end()), wb(bias.begin(), bias.end()),
      wdy(dy.begin(), dy.end());
  std::vector<T> y(n.y), dx(n.x), dw(n.w);
  std::vector<float> wy(n.y), wdx(n.x), wdw(n.w);
  const auto equal = [](const std::vector<T>& got, const std::vector<float>& sums) {
    return std::memcmp(got.data(), rounded<T>(sums).data(), got.size() * sizeof(T)) == 0;
  };
  if (!by_panels(internal::ConvDirection::kForward)) {
    conv_forward(kType, g, x.data(), w.data(), bias.data(), y.data());
    conv_forward(kWide, g, wx.data(), ww.data(), wb.data(), wy.data());
    EXPECT_TRUE(equal(y, wy)) << g.in_channels << " to " << g.out_channels << ", " << g.in_size[2];
  }
  if (!by_panels(internal::ConvDirection::kInput)) {
    conv_backward_input(kType, g, dy.data(), w.data(), dx.data());
    conv_backward_input(kWide, g, wdy.data(), ww.data(), wdx.data());
    EXPECT_TRUE(equal(dx, wdx)) << g.in_channels << " from " << g.out_channels << ", " << g.in_size[2];
  }
  if (!by_panels(internal::ConvDirection::kWeight)) {
    conv_backward_weight(kType, g, dy.data(), x.data(), dw.data());
    conv_backward_weight(kWide, g, wdy.data(), wx.data(), wdw.data());
    EXPECT_TRUE(equal(dw, wdw)) << g.in_channels << " by " << g.out_channels << ", " << g.in_size[2];
  }
}
TEST(Conv, ReducedFloatsAreRoundedOnce) {
  for (const ConvGeometry& g : {geometry(2, 33, 35, 1, kOne, {8, 3, 1, 1, 1}, {9, 3, 1, 1, 1}),
                                geometry(1, 32, 170, 1, kOne, {6, 3, 1, 2, 1}, {13, 3, 1, 0, 1}),
                                geometry(2, 80, 64, 2, kOne, {9, 3, 1, 1, 1}, {70, 3, 1, 3, 1}),
                                geometry(2, 16, 24, 1, {4, 3, 1, 1, 1}, {7, 3, 1, 1, 1}, {10, 3, 1, 1, 1}),
                                geometry(2, 24, 40, 1, kOne, {11, 3, 2, 1, 1}, {13, 5, 3, 2, 1}),
                                geometry(2, 24, 64, 2, kOne, {9, 1, 2, 0, 1}, {9, 1, 2, 0, 1}),
                                geometry(2, 3, 64, 1, kOne, {20, 7, 2, 3, 1}, {20, 7, 2, 3, 1}),
                                geometry(20, 8, 16, 1, kOne, {20, 3, 1, 0, 1}, {25, 3, 1, 0, 1}),
                                geometry(2, 20, 32, 1, kOne, {5, 1, 1, 0, 1}, {7, 1, 1, 0, 1}),
                                geometry(2, 40, 64, 1, kOne, {16, 1, 1, 0, 1}, {16, 1, 1, 0, 1}),
                                geometry(8, 128, 130, 1, kOne, {2, 3, 1, 1, 1}, {2, 3, 1, 1, 1}),
                                geometry(3, 300, 260, 2, kOne, {5, 3, 2, 1, 1}, {6, 3, 2, 0, 1}),
                                geometry(2, 512, 301, 1, kOne, {4, 1, 1, 0, 1}, {4, 1, 1, 0, 1})}) {
    check_rounding<Half>(g);
    check_rounding<BFloat16>(g);
    ConvGeometry last = g;
    last.channels_last = true;
    check_rounding<Half>(last);
    check_rounding<BFloat16>(last);
  }
}

// (batch, channels, inner) to (batch, inner, channels), or back.
template <class T>
std::vector<T> channels_moved(const std::vector<T>& v, int64_t batch, int64_t channels, bool to_last) {
  const int64_t inner = static_cast<int64_t>(v.size()) / (batch * channels);
  std::vector<T> out(v.size());
  for (int64_t n = 0; n < batch; ++n)
    for (int64_t c = 0; c < channels; ++c)
      for (int64_t i = 0; i < inner; ++i) {
        const int64_t first = (n * channels + c) * inner + i, last = (n * inner + i) * channels + c;
        out[to_last ? last : first] = v[to_last ? first : last];
      }
  return out;
}

template <class T>
void check_channels_last(double eps) {
  constexpr DType kType = DTypeOf<T>::value;
  for (const ConvGeometry& first : {geometry(2, 6, 33, 1, kOne, {7, 3, 1, 1, 1}, {9, 3, 1, 1, 1}),
                                    geometry(3, 30, 32, 2, kOne, {7, 3, 2, 1, 1}, {19, 5, 2, 2, 1}),
                                    geometry(2, 16, 8, 1, {4, 3, 1, 1, 1}, {7, 3, 1, 1, 2}, {6, 2, 1, 0, 1}),
                                    geometry(2, 17, 64, 1, kOne, {14, 1, 1, 0, 1}, {15, 1, 1, 0, 1}),
                                    geometry(2, 40, 3, 1, kOne, {6, 3, 2, 1, 1}, {6, 3, 2, 1, 1}),
                                    geometry(2, 70, 50, 1, kOne, {9, 3, 1, 1, 1}, {12, 3, 1, 0, 1}),
                                    geometry(3, 80, 64, 2, kOne, {14, 3, 1, 1, 1}, {27, 3, 1, 1, 1}),
                                    geometry(1, 20, 24, 1, {3, 3, 1, 1, 1}, {6, 3, 1, 1, 1}, {7, 3, 1, 1, 1}),
                                    geometry(2, 260, 300, 2, kOne, {4, 3, 1, 1, 1}, {4, 3, 1, 1, 1})}) {
    ConvGeometry last = first;
    last.channels_last = true;
    if (!conv_channels_last(kType, first)) continue;
    const Sizes n = sizes(first);
    const int64_t b = first.batch, ic = first.in_channels, oc = first.out_channels, group_c = ic / first.groups;
    const auto x = random_vector<T>(n.x, 1), w = random_vector<T>(n.w, 2), dy = random_vector<T>(n.y, 3),
               bias = random_vector<T>(oc, 4);
    const auto xl = channels_moved(x, b, ic, true), wl = channels_moved(w, oc, group_c, true),
               dyl = channels_moved(dy, b, oc, true);
    std::vector<T> y(n.y), yl(n.y), dx(n.x), dxl(n.x), dw(n.w), dwl(n.w);
    conv_forward(kType, first, x.data(), w.data(), bias.data(), y.data());
    conv_forward(kType, last, xl.data(), wl.data(), bias.data(), yl.data());
    conv_backward_input(kType, first, dy.data(), w.data(), dx.data());
    conv_backward_input(kType, last, dyl.data(), wl.data(), dxl.data());
    conv_backward_weight(kType, first, dy.data(), x.data(), dw.data());
    conv_backward_weight(kType, last, dyl.data(), xl.data(), dwl.data());
    yl = channels_moved(yl, b, oc, false);
    dxl = channels_moved(dxl, b, ic, false);
    dwl = channels_moved(dwl, oc, group_c, false);
    for (int64_t i = 0; i < n.y; ++i) ASSERT_NEAR(y[i], yl[i], eps * group_c);
    for (int64_t i = 0; i < n.x; ++i) ASSERT_NEAR(dx[i], dxl[i], eps * oc);
    for (int64_t i = 0; i < n.w; ++i) ASSERT_NEAR(dw[i], dwl[i], eps * static_cast<double>(n.y / oc));
  }
}
TEST(Conv, ChannelsLast) {
  EXPECT_TRUE(conv_channels_last(DType::kFloat32, geometry(2, 6, 33, 1, kOne, {7, 3, 1, 1, 1}, {9, 3, 1, 1, 1})));
  check_channels_last<float>(1e-5);
  check_channels_last<BFloat16>(1e-2);
}

// Windows must read nothing but their own elements: an infinity elsewhere must not become a NaN.
TEST(Conv, InfinitiesStayWhereTheyAre) {
  for (int64_t groups : {1, 6}) {
    const ConvGeometry g = geometry(2, 6, 6, groups, kOne, {5, 2, 1, 0, 1}, {9, 2, 1, 0, 1});
    const Sizes n = sizes(g);
    std::vector<float> x(n.x, 1), w(n.w, 1), y(n.y), dy(n.y, 1), dw(n.w), dx(n.x);
    x[8] = INFINITY;  // the last of the first row
    conv_forward(DType::kFloat32, g, x.data(), w.data(), nullptr, y.data());
    for (int64_t i = 0; i < n.y; ++i)
      EXPECT_EQ(std::isinf(y[i]), i % (6 * 32) % (groups == 1 ? 32 : 6 * 32) == 7 && i < 6 * 32) << i;
    conv_backward_weight(DType::kFloat32, g, dy.data(), x.data(), dw.data());
    for (float v : dw) EXPECT_FALSE(std::isnan(v));
    dy[7] = INFINITY;
    conv_backward_input(DType::kFloat32, g, dy.data(), w.data(), dx.data());
    for (float v : dx) EXPECT_FALSE(std::isnan(v));
  }
}

// So do tiles of results: an infinity is one in each window that has it, and in no other.
TEST(Conv, InfinitiesInTiles) {
  ConvGeometry g = geometry(2, 40, 33, 1, kOne, {8, 3, 1, 1, 1}, {9, 3, 1, 1, 1});
  for (const bool last : {false, true}) {
    g.channels_last = last;
    const Sizes n = sizes(g);
    std::vector<float> x(n.x, 1), w(n.w, 1), y(n.y), dx(n.x);
    const int64_t at = 5 * 9 + 4;  // row 5, column 4 of the second image's first channel
    x[n.x / 2 + at * (last ? 40 : 1)] = INFINITY;
    conv_forward(DType::kFloat32, g, x.data(), w.data(), nullptr, y.data());
    for (int64_t i = 0; i < n.y; ++i) {
      const int64_t p = last ? i / 33 % 72 : i % 72;
      const bool reached = i >= n.y / 2 && p / 9 >= 4 && p / 9 <= 6 && p % 9 >= 3 && p % 9 <= 5;
      ASSERT_EQ(y[i] == INFINITY, reached) << i;
      ASSERT_EQ(std::isfinite(y[i]), !reached) << i;
    }
  }
}

TEST(Conv, EmptySizes) {
  check<float>(geometry(0, 3, 4, 1, kOne, {7, 3, 1, 1, 1}, {8, 3, 1, 1, 1}));
  ConvGeometry g = geometry(2, 3, 4, 1, kOne, {7, 3, 1, 1, 1}, {8, 3, 1, 1, 1});
  g.out_size[2] = 0;
  check<float>(g);
}

template <class T>
void same_bits(const ConvGeometry& g) {
  constexpr DType kType = DTypeOf<T>::value;
  const Sizes n = sizes(g);
  const auto x = random_vector<T>(n.x, 1), w = random_vector<T>(n.w, 2), dy = random_vector<T>(n.y, 4);
  const int before = num_threads();
  std::vector<T> first;
  for (int threads : {1, 2, 5}) {
    set_num_threads(threads);
    std::vector<T> all(n.x + n.w + n.y);
    conv_forward(kType, g, x.data(), w.data(), nullptr, all.data());
    conv_backward_input(kType, g, dy.data(), w.data(), all.data() + n.y);
    conv_backward_weight(kType, g, dy.data(), x.data(), all.data() + n.y + n.x);
    if (first.empty()) first = all;
    EXPECT_EQ(std::memcmp(first.data(), all.data(), all.size() * sizeof(T)), 0);
  }
  set_num_threads(before);
}
TEST(Conv, SameBitsAtAnyThreadCount) {
  same_bits<float>(geometry(33, 16, 32, 1, kOne, {8, 3, 1, 1, 1}, {8, 3, 1, 1, 1}));
  same_bits<float>(geometry(3, 16, 32, 2, kOne, {40, 3, 1, 1, 1}, {41, 3, 1, 1, 1}));
  same_bits<float>(geometry(2, 64, 64, 1, kOne, {28, 3, 2, 1, 1}, {28, 3, 2, 1, 1}));
  same_bits<float>(geometry(5, 70, 140, 1, kOne, {15, 3, 1, 1, 1}, {28, 3, 1, 1, 1}));
  same_bits<float>(geometry(3, 70, 64, 1, kOne, {28, 1, 1, 0, 1}, {29, 1, 1, 0, 1}));
  same_bits<float>(geometry(1, 8, 16, 1, {20, 3, 1, 1, 1}, {12, 3, 1, 1, 1}, {12, 3, 1, 1, 1}));
  same_bits<float>(geometry(8, 128, 260, 1, kOne, {2, 3, 1, 1, 1}, {2, 3, 1, 1, 1}));
  same_bits<double>(geometry(9, 8, 16, 8, kOne, {28, 3, 1, 1, 1}, {28, 3, 1, 1, 1}));
  same_bits<BFloat16>(geometry(3, 40, 48, 1, kOne, {7, 3, 1, 1, 1}, {28, 3, 1, 1, 1}));
  same_bits<BFloat16>(geometry(5, 40, 48, 1, kOne, {20, 3, 1, 1, 1}, {21, 3, 2, 1, 1}));
  same_bits<Half>(geometry(9, 8, 16, 1, kOne, {28, 3, 1, 1, 1}, {28, 3, 1, 1, 1}));
}

TEST(Conv, BadDtype) {
  const ConvGeometry g = geometry(1, 1, 1, 1, kOne, kOne, kOne);
  bool x = true;
  try {
    conv_forward(DType::kBool, g, &x, &x, nullptr, &x);
    FAIL();
  } catch (const NotImplementedError& e) { EXPECT_STREQ(e.what(), "\"slow_conv2d_cpu\" not implemented for 'Bool'"); }
}

template <class T>
void check_im2col(const ConvGeometry& g) {
  constexpr DType kType = DTypeOf<T>::value;
  const int64_t positions = product(g.out_size), rows = g.in_channels * product(g.kernel),
                in = g.batch * g.in_channels * product(g.in_size);
  const auto x = random_vector<T>(in, 1), grad = random_vector<T>(g.batch * rows * positions, 2);
  // With one output channel per input channel and tap, the products of the definition name the columns.
  std::vector<Wide> cols(g.batch * rows * positions), dx(in);
  std::vector<double> ones(cols.size(), 1), size(in, 1);
  ConvGeometry one = g;
  one.groups = one.out_channels = g.in_channels;
  for_products(one, [&](int64_t i, int64_t j, int64_t k) {
    const int64_t n = k / (g.in_channels * positions), at = (n * rows + j) * positions + k % positions;
    cols[at] = widen(x[i]);
    dx[i] += widen(grad[at]);
    size[i] += 1;
  });
  std::vector<T> got(cols.size(), T(7)), back(in, T(7));
  im2col(kType, g, x.data(), got.data());
  expect_close(got, cols, ones, "cols ");
  col2im(kType, g, grad.data(), back.data());
  expect_close(back, dx, size, "x ");
}
TYPED_TEST(ConvTest, Im2colAndItsAdjoint) {
  for (auto g : geometries()) {
    g.groups = 1;
    check_im2col<TypeParam>(g);
  }
}

}  // namespace
}  // namespace tessera::cpu
