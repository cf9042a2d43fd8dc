// Resizing and reading at places, against the CPU's engines on the same data.
#include <string>
#include <vector>

#include "nn/cuda/resample_engines.h"
#include "tensor/core/error.h"
#include "tensor/cuda/support/data_testing.h"

namespace tessera::cuda {
namespace {

using cpu::GridMode;
using cpu::GridPadding;
using cpu::GridSample;
using cpu::ResampleGeometry;
using cpu::ResampleMode;
using testing::Data;
using testing::expect_near;
using testing::OnDevice;
using testing::random_data;

class ResampleTest : public ::testing::TestWithParam<DType> {
 protected:
  void SetUp() override {
    if (device_count() == 0) GTEST_SKIP() << "no CUDA device";
  }
};

struct Resize {
  int64_t planes, in[3], out[3];
  double step[3] = {};
};

void check_resize(DType t, ResampleMode mode, bool align, const Resize& r) {
  ResampleGeometry g{mode, align, r.planes, {}, {}, {}};
  int64_t in = r.planes, out = r.planes;
  for (int d = 0; d < 3; ++d) {
    g.in[d] = r.in[d];
    g.out[d] = r.out[d];
    g.step[d] = r.step[d];
    in *= r.in[d];
    out *= r.out[d];
  }
  const std::string what = str_cat("mode ", static_cast<int>(mode), align ? " corners " : " ", r.in[0], "x", r.in[1],
                                   "x", r.in[2], " to ", r.out[0], "x", r.out[1], "x", r.out[2]);
  Data x = random_data(t, in, 1), y(t, out, 0x11), dy = random_data(t, out, 2), dx(t, in, 0x11);
  const OnDevice ox(x), oy(y), ody(dy), odx(dx);
  cpu::resample_forward(t, g, x.get(), y.get());
  cuda::resample_forward(t, g, ox.get(), oy.get());
  expect_near(oy.read(), y, 20, what);
  cpu::resample_backward(t, g, dy.get(), dx.get());
  cuda::resample_backward(t, g, ody.get(), odx.get());
  expect_near(odx.read(), dx, 60, what + ", gradient");
}

TEST_P(ResampleTest, EveryMode) {
  const Resize sizes[] = {{3, {1, 7, 9}, {1, 14, 5}}, {2, {1, 1, 11}, {1, 1, 4}},
                          {2, {1, 6, 6}, {1, 6, 6}},  {2, {1, 5, 8}, {1, 9, 3}, {0, 0.45, 2.5}},
                          {1, {1, 1, 1}, {1, 3, 2}},  {2, {1, 3, 40}, {1, 1, 7}}};
  for (const ResampleMode mode : {ResampleMode::kNearest, ResampleMode::kNearestExact, ResampleMode::kLinear,
                                  ResampleMode::kCubic, ResampleMode::kLinearAntialias, ResampleMode::kCubicAntialias})
    for (const bool align : {false, true})
      for (const Resize& r : sizes) check_resize(GetParam(), mode, align, r);
}
TEST_P(ResampleTest, Volumes) {
  for (const ResampleMode mode : {ResampleMode::kNearest, ResampleMode::kLinear})
    for (const bool align : {false, true}) {
      check_resize(GetParam(), mode, align, {2, {3, 4, 5}, {5, 3, 9}});
      check_resize(GetParam(), mode, align, {1, {4, 4, 4}, {2, 8, 4}});
    }
}

void check_sample(DType t, GridSample g, double reach) {
  const int64_t volume = g.in[0] * g.in[1] * g.in[2], n = g.batch * g.channels;
  const std::string what =
      str_cat("mode ", static_cast<int>(g.mode), " padding ", static_cast<int>(g.padding), " corners ", g.align_corners,
              " dims ", g.dims, " order ", g.order[0], g.order[1], g.order[2]);
  Data x = random_data(t, n * volume, 1), y(t, n * g.positions, 0x11), dy = random_data(t, n * g.positions, 2),
       dx(t, n * volume, 0x11), dgrid(t, g.batch * g.positions * g.dims, 0x11);
  Data grid(t, testing::random_elements(t, g.batch * g.positions * g.dims, 3, -reach, reach));
  if (grid.size() > 4) grid.set(3, NAN);
  const OnDevice ox(x), ogrid(grid), oy(y), ody(dy), odx(dx), odgrid(dgrid);
  cpu::grid_sample_forward(t, g, x.get(), grid.get(), y.get());
  cuda::grid_sample_forward(t, g, ox.get(), ogrid.get(), oy.get());
  // Derivatives of the weights are larger by the image's size.
  const double scale = 40 * (g.order[0] + g.order[1] + g.order[2] > 0 ? 20 : 1);
  expect_near(oy.read(), y, scale, what);
  cpu::grid_sample_backward(t, g, dy.get(), x.get(), grid.get(), dx.get(), dgrid.get());
  cuda::grid_sample_backward(t, g, ody.get(), ox.get(), ogrid.get(), odx.get(), odgrid.get());
  expect_near(odx.read(), dx, 2 * scale, what + ", gradient");
  expect_near(odgrid.read(), dgrid, 20 * scale, what + ", gradient of the places");
}

TEST_P(ResampleTest, Places) {
  for (const GridMode mode : {GridMode::kLinear, GridMode::kNearest, GridMode::kCubic})
    for (const GridPadding padding : {GridPadding::kZeros, GridPadding::kBorder, GridPadding::kReflection})
      for (const bool align : {false, true}) {
        check_sample(GetParam(), {mode, padding, align, 2, 2, 5, {1, 6, 7}, 23, {}}, 1.0);
        // Where weights jump, a rounding would decide: places of their own.
        if (mode != GridMode::kNearest && GetParam() == DType::kFloat64)
          check_sample(GetParam(), {mode, padding, align, 2, 2, 3, {1, 4, 5}, 40, {}}, 2.2);
        if (mode != GridMode::kCubic) check_sample(GetParam(), {mode, padding, align, 3, 1, 2, {3, 4, 5}, 17, {}}, 1.0);
      }
  check_sample(GetParam(), {GridMode::kLinear, GridPadding::kZeros, false, 2, 1, 1, {1, 2, 2}, 300, {}}, 1.0);
  check_sample(DType::kFloat64, {GridMode::kCubic, GridPadding::kBorder, true, 2, 1, 2, {1, 5, 5}, 20, {1, 1, 0}}, 0.9);
}
TEST_P(ResampleTest, ImageOfNoPlaces) {
  const GridSample g{GridMode::kLinear, GridPadding::kZeros, false, 2, 1, 2, {1, 3, 3}, 0, {}};
  Data dx(GetParam(), 18, 0x11);
  const OnDevice odx(dx);
  cuda::grid_sample_backward(GetParam(), g, nullptr, nullptr, nullptr, odx.get(), nullptr);
  expect_near(odx.read(), Data(GetParam(), 18), 0, "no places");
}
INSTANTIATE_TEST_SUITE_P(Types, ResampleTest, ::testing::ValuesIn(testing::kFloatTypes),
                         [](const auto& info) { return std::string(name_of(info.param)); });

TEST(Resample, OnlyFloats) {
  if (device_count() == 0) GTEST_SKIP() << "no CUDA device";
  EXPECT_THROW(cuda::resample_forward(DType::kInt32, ResampleGeometry{}, nullptr, nullptr), NotImplementedError);
  EXPECT_THROW(cuda::grid_sample_forward(DType::kInt32, GridSample{}, nullptr, nullptr, nullptr), NotImplementedError);
}

}  // namespace
}  // namespace tessera::cuda
