#include "tensor/core/error.h"
#include "nn/cpu/conv/conv.h"
#include "tensor/cuda/libraries/dnn.h"
#include "nn/cuda/conv_engines.h"
#include "tensor/cuda/support/data_testing.h"

namespace tessera::cuda {
namespace {

using cpu::ConvGeometry;
using testing::Data;
using testing::expect_near;
using testing::OnDevice;
using testing::random_data;

int64_t volume(const int64_t (&s)[3]) { return s[0] * s[1] * s[2]; }

struct Line {
  int64_t in = 1, kernel = 1, stride = 1, padding = 0, dilation = 1;
};
ConvGeometry geometry(int64_t batch, int64_t in_c, int64_t out_c, int64_t groups, Line d, Line h, Line w) {
  ConvGeometry g{batch, in_c, out_c, groups, {}, {}, {}, {}, {}, {}};
  const Line lines[3] = {d, h, w};
  for (int i = 0; i < 3; ++i) {
    const Line& l = lines[i];
    g.in_size[i] = l.in;
    g.kernel[i] = l.kernel;
    g.stride[i] = l.stride;
    g.padding[i] = l.padding;
    g.dilation[i] = l.dilation;
    g.out_size[i] = (l.in + 2 * l.padding - l.dilation * (l.kernel - 1) - 1) / l.stride + 1;
  }
  return g;
}
std::string show(const ConvGeometry& g) {
  std::string s = str_cat("batch ", g.batch, " channels ", g.in_channels, " to ", g.out_channels, " groups ", g.groups);
  for (int i = 0; i < 3; ++i)
    s += str_cat(", ", g.in_size[i], ": ", g.kernel[i], " ", g.stride[i], " ", g.padding[i], " ", g.dilation[i]);
  return s;
}

const ConvGeometry kGeometries[] = {
    geometry(2, 3, 4, 1, {}, {6, 3, 1, 1, 1}, {7, 3, 1, 1, 1}),
    geometry(3, 4, 6, 2, {}, {7, 3, 2, 1, 1}, {8, 2, 3, 0, 1}),
    geometry(2, 6, 6, 6, {}, {9, 3, 1, 2, 2}, {5, 3, 1, 1, 1}),
    geometry(2, 5, 3, 1, {}, {4, 1, 1, 0, 1}, {3, 1, 1, 0, 1}),
    geometry(2, 3, 4, 1, {}, {}, {17, 5, 2, 3, 2}),
    geometry(1, 2, 3, 1, {4, 2, 1, 1, 1}, {5, 3, 2, 1, 1}, {4, 2, 1, 0, 2}),
    geometry(5, 8, 4, 4, {}, {4, 1, 2, 0, 1}, {4, 1, 1, 1, 1}),
    // One channel per group: two results of each, strides, dilation, more taps than a block has sums, vectors of
    // channels.
    geometry(2, 3, 6, 3, {}, {8, 3, 2, 1, 1}, {7, 3, 1, 1, 1}),
    geometry(2, 8, 8, 8, {}, {}, {33, 13, 1, 6, 1}),
    geometry(3, 12, 12, 12, {4, 2, 1, 1, 1}, {6, 3, 2, 0, 2}, {5, 2, 1, 1, 1}),
    geometry(1, 1, 1, 1, {}, {}, {1, 1, 1, 0, 1}),
};

// (outer, channels, places) as (outer, places, channels), or back.
Data moved(const Data& from, int64_t outer, int64_t channels, int64_t places, bool to_last) {
  Data to(from.dtype, outer * channels * places);
  const size_t item = static_cast<size_t>(item_size(from.dtype));
  for (int64_t n = 0; n < outer; ++n)
    for (int64_t c = 0; c < channels; ++c)
      for (int64_t p = 0; p < places; ++p) {
        const int64_t first = (n * channels + c) * places + p, last = (n * places + p) * channels + c;
        std::memcpy(to.bytes.data() + static_cast<size_t>(to_last ? last : first) * item,
                    from.bytes.data() + static_cast<size_t>(to_last ? first : last) * item, item);
      }
  return to;
}

// On the device with channels last, beside the CPU with channels first.
void check_channels_last(DType t, const ConvGeometry& g) {
  ConvGeometry last = g;
  last.channels_last = true;
  const int64_t in = volume(g.in_size), out = volume(g.out_size), taps = volume(g.kernel),
                group = g.in_channels / g.groups, nx = g.batch * g.in_channels * in, nw = g.out_channels * group * taps,
                ny = g.batch * g.out_channels * out;
  Data x = random_data(t, nx, 1), w = random_data(t, nw, 2), bias = random_data(t, g.out_channels, 3),
       dy = random_data(t, ny, 4), y(t, ny, 0x55), grad_x(t, nx, 0x55), grad_w(t, nw, 0x55);
  const OnDevice dx(moved(x, g.batch, g.in_channels, in, true)), dw(moved(w, g.out_channels, group, taps, true)),
      dbias(bias), ddy(moved(dy, g.batch, g.out_channels, out, true)), out_y(y), out_x(grad_x), out_w(grad_w);
  const double factor = 8 + 2 * std::sqrt(static_cast<double>(nx + nw));
  cpu::conv_forward(t, g, x.get(), w.get(), bias.get(), y.get());
  cuda::conv_forward(t, last, dx.get(), dw.get(), dbias.get(), out_y.get());
  expect_near(moved(out_y.read(), g.batch, g.out_channels, out, false), y, factor, "forward, last, " + show(g));
  cpu::conv_backward_input(t, g, dy.get(), w.get(), grad_x.get());
  cuda::conv_backward_input(t, last, ddy.get(), dw.get(), out_x.get());
  expect_near(moved(out_x.read(), g.batch, g.in_channels, in, false), grad_x, factor, "input, last, " + show(g));
  cpu::conv_backward_weight(t, g, dy.get(), x.get(), grad_w.get());
  cuda::conv_backward_weight(t, last, ddy.get(), dx.get(), out_w.get());
  expect_near(moved(out_w.read(), g.out_channels, group, taps, false), grad_w, factor, "weight, last, " + show(g));
}

void check_all(DType t, const ConvGeometry& g) {
  const int64_t nx = g.batch * g.in_channels * volume(g.in_size),
                nw = g.out_channels * (g.in_channels / g.groups) * volume(g.kernel),
                ny = g.batch * g.out_channels * volume(g.out_size);
  Data x = random_data(t, nx, 1), w = random_data(t, nw, 2), bias = random_data(t, g.out_channels, 3),
       dy = random_data(t, ny, 4);
  const OnDevice dx(x), dw(w), dbias(bias), ddy(dy);
  const double factor = 8 + 2 * std::sqrt(static_cast<double>(nx + nw));
  for (const bool with_bias : {false, true}) {
    Data y(t, ny, 0x55);
    const OnDevice out(y);
    cpu::conv_forward(t, g, x.get(), w.get(), with_bias ? bias.get() : nullptr, y.get());
    cuda::conv_forward(t, g, dx.get(), dw.get(), with_bias ? dbias.get() : nullptr, out.get());
    expect_near(out.read(), y, factor, "forward, " + show(g));
  }
  Data grad_x(t, nx, 0x55), grad_w(t, nw, 0x55);
  const OnDevice out_x(grad_x), out_w(grad_w);
  cpu::conv_backward_input(t, g, dy.get(), w.get(), grad_x.get());
  cuda::conv_backward_input(t, g, ddy.get(), dw.get(), out_x.get());
  expect_near(out_x.read(), grad_x, factor, "gradient of the input, " + show(g));
  cpu::conv_backward_weight(t, g, dy.get(), x.get(), grad_w.get());
  cuda::conv_backward_weight(t, g, ddy.get(), dx.get(), out_w.get());
  expect_near(out_w.read(), grad_w, factor, "gradient of the weight, " + show(g));
}

class ConvTest : public ::testing::TestWithParam<DType> {
 protected:
  void SetUp() override {
    if (device_count() == 0) GTEST_SKIP() << "no CUDA device";
    DnnSettings s = before_;
    s.allow_tf32 = false;
    set_dnn_settings(s);
  }
  void TearDown() override { set_dnn_settings(before_); }
  static void enable(bool on) {
    DnnSettings s = dnn_settings();
    s.enabled = on;
    set_dnn_settings(s);
  }
  const DnnSettings before_ = dnn_settings();
};

TEST_P(ConvTest, ThroughDnn) {
  for (const bool on : {false, true}) {
    DnnSettings s = dnn_settings();
    s.deterministic = s.benchmark = on;
    set_dnn_settings(s);
    for (const auto& g : kGeometries) check_all(GetParam(), g);
  }
}
TEST_P(ConvTest, ThroughColumns) {
  enable(false);
  for (const auto& g : kGeometries) check_all(GetParam(), g);
}
TEST_P(ConvTest, ChannelsLast) {
  // Without cuDNN all dtypes take the same copies.
  const bool real = is_floating_point(GetParam());
  for (const bool on : {true, false}) {
    enable(on);
    for (const auto& g : kGeometries)
      if (on ? real : GetParam() == DType::kFloat16 || GetParam() == DType::kInt16) check_channels_last(GetParam(), g);
  }
}
// max(0, convolution + bias + alpha z) in one call of cuDNN, in both orders of memory; what it can not do is left to
// the caller.
TEST_P(ConvTest, WithActivation) {
  const DType t = GetParam();
  for (const auto& plain : kGeometries)
    for (int variant = 0; variant < 8; ++variant) {
      ConvGeometry g = plain;
      const bool with_bias = variant & 1, with_z = variant & 2;
      g.channels_last = variant & 4;
      const int64_t in = volume(g.in_size), out = volume(g.out_size), taps = volume(g.kernel),
                    group = g.in_channels / g.groups, nx = g.batch * g.in_channels * in,
                    nw = g.out_channels * group * taps, ny = g.batch * g.out_channels * out;
      const auto laid = [&](const Data& d, int64_t outer, int64_t channels, int64_t places) {
        return g.channels_last ? moved(d, outer, channels, places, true) : d;
      };
      Data x = random_data(t, nx, 1), w = random_data(t, nw, 2), bias = random_data(t, g.out_channels, 3),
           z = random_data(t, ny, 4), y(t, ny, 0x55);
      const OnDevice dx(laid(x, g.batch, g.in_channels, in)), dw(laid(w, g.out_channels, group, taps)), db(bias),
          dz(laid(z, g.batch, g.out_channels, out)), dy(y);
      const bool done = cuda::conv_relu(t, g, dx.get(), dw.get(), with_bias ? db.get() : nullptr,
                                        with_z ? dz.get() : nullptr, -0.5, dy.get());
      const bool known = is_floating_point(t) && !(g.channels_last && t == DType::kFloat64);
      EXPECT_EQ(done, known && !(g.groups == g.in_channels && g.groups > 1)) << show(g);
      if (!done) continue;
      cpu::conv_forward(t, plain, x.get(), w.get(), with_bias ? bias.get() : nullptr, y.get());
      for (int64_t i = 0; i < ny; ++i) y.set(i, std::max(0.0, y.value(i) - (with_z ? 0.5 * z.value(i) : 0)));
      const Data found = dy.read();
      expect_near(g.channels_last ? moved(found, g.batch, g.out_channels, out, false) : found, y,
                  8 + 2 * std::sqrt(static_cast<double>(nx + nw)), str_cat("activated ", variant, ", ", show(g)));
    }
  enable(false);
  EXPECT_FALSE(cuda::conv_relu(t, kGeometries[0], nullptr, nullptr, nullptr, nullptr, 0, nullptr));
}
TEST_P(ConvTest, NothingToDo) {
  check_all(GetParam(), geometry(0, 3, 4, 1, {}, {6, 3, 1, 1, 1}, {7, 3, 1, 1, 1}));
  check_all(GetParam(), geometry(2, 0, 4, 1, {}, {6, 3, 1, 1, 1}, {7, 3, 1, 1, 1}));
  ConvGeometry g = geometry(2, 2, 4, 1, {}, {3, 3, 1, 0, 1}, {7, 3, 1, 0, 1});
  g.out_size[1] = 0;
  g.in_size[1] = 2;
  check_all(GetParam(), g);
}

// Positions in several parts.
TEST_P(ConvTest, ManyPositions) {
  if (!is_floating_point(GetParam())) GTEST_SKIP() << "no kernels of their own";
  const ConvGeometry g = geometry(3, 2, 2, 2, {}, {67, 3, 1, 1, 1}, {65, 3, 1, 1, 1});
  check_all(GetParam(), g);
  check_channels_last(GetParam(), g);
}

// A transposed convolution with output padding leaves rows of its result that no window of the direct one reaches, or
// windows that are not wanted.
TEST_P(ConvTest, FewerOutputsThanWindows) {
  ConvGeometry g = geometry(2, 4, 6, 2, {}, {9, 2, 1, 0, 3}, {8, 3, 2, 1, 1});
  g.out_size[1] -= 2;
  check_all(GetParam(), g);
}

INSTANTIATE_TEST_SUITE_P(Types, ConvTest,
                         ::testing::Values(DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16,
                                           DType::kComplex32, DType::kComplex64, DType::kComplex128, DType::kUInt8,
                                           DType::kInt16, DType::kInt32, DType::kInt64),
                         [](const auto& info) { return std::string(name_of(info.param)); });

TEST(Conv, SettingsStay) {
  const DnnSettings before = dnn_settings();
  EXPECT_TRUE(before.enabled && before.allow_tf32);
  EXPECT_FALSE(before.benchmark || before.deterministic);
  EXPECT_EQ(before.benchmark_limit, 10);
  set_dnn_settings({false, true, true, false, 3});
  const DnnSettings now = dnn_settings();
  EXPECT_TRUE(!now.enabled && now.benchmark && now.deterministic && !now.allow_tf32 && now.benchmark_limit == 3);
  set_dnn_settings(before);
}

TEST(Conv, Errors) {
  if (device_count() == 0) GTEST_SKIP() << "no CUDA device";
  EXPECT_THROW(cuda::conv_forward(DType::kBool, kGeometries[0], nullptr, nullptr, nullptr, nullptr),
               NotImplementedError);
}

// ---- Columns by themselves ----

class ColumnsTest : public ::testing::TestWithParam<DType> {
 protected:
  void SetUp() override {
    if (device_count() == 0) GTEST_SKIP() << "no CUDA device";
  }
};
TEST_P(ColumnsTest, MatchTheCpu) {
  const DType t = GetParam();
  for (const auto& g : kGeometries) {
    const int64_t nx = g.batch * g.in_channels * volume(g.in_size),
                  nc = g.batch * g.in_channels * volume(g.kernel) * volume(g.out_size);
    Data x = random_data(t, nx, 1), cols(t, nc, 0x33), back(t, nx, 0x33);
    const OnDevice dx(x), dcols(cols), dback(back);
    cpu::im2col(t, g, x.get(), cols.get());
    cuda::im2col(t, g, dx.get(), dcols.get());
    EXPECT_EQ(dcols.read().bytes, cols.bytes) << show(g);
    cpu::col2im(t, g, cols.get(), back.get());
    cuda::col2im(t, g, dcols.get(), dback.get());
    expect_near(dback.read(), back, 4, "col2im, " + show(g));
  }
}
INSTANTIATE_TEST_SUITE_P(Types, ColumnsTest,
                         ::testing::Values(DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16,
                                           DType::kComplex32, DType::kComplex64, DType::kComplex128, DType::kUInt8,
                                           DType::kInt8, DType::kInt16, DType::kUInt16, DType::kInt32, DType::kUInt32,
                                           DType::kInt64, DType::kUInt64),
                         [](const auto& info) { return std::string(name_of(info.param)); });

}  // namespace
}  // namespace tessera::cuda
