#include "tensor/core/error.h"
#include "nn/cpu/pool.h"
#include "nn/cuda/pool_engines.h"
#include "tensor/cuda/support/data_testing.h"

namespace tessera::cuda {
namespace {

using cpu::PoolGeometry;
using testing::Data;
using testing::expect_near;
using testing::OnDevice;
using testing::random_data;

int64_t volume(const int64_t (&s)[3]) { return s[0] * s[1] * s[2]; }

struct Line {
  int64_t in = 1, kernel = 1, stride = 1, padding = 0, dilation = 1;
  bool ceil = false;
};
PoolGeometry geometry(int64_t planes, Line d, Line h, Line w) {
  PoolGeometry g{planes, {}, {}, {}, {}, {}, {}};
  const Line lines[3] = {d, h, w};
  for (int i = 0; i < 3; ++i) {
    const Line& l = lines[i];
    g.in_size[i] = l.in;
    g.kernel[i] = l.kernel;
    g.stride[i] = l.stride;
    g.padding[i] = l.padding;
    g.dilation[i] = l.dilation;
    const int64_t room = l.in + 2 * l.padding - l.dilation * (l.kernel - 1) - 1;
    g.out_size[i] = (room + (l.ceil ? l.stride - 1 : 0)) / l.stride + 1;
    if (l.ceil && (g.out_size[i] - 1) * l.stride >= l.in + l.padding) --g.out_size[i];
  }
  return g;
}
std::vector<PoolGeometry> geometries(int64_t dilation) {
  return {
      geometry(3, {}, {6, 2, 2, 0, 1}, {8, 2, 2, 0, 1}),
      geometry(3, {}, {7, 3, 2, 1, 1}, {9, 3, 1, 1, dilation}),
      geometry(3, {}, {7, 3, 2, 1, 1, true}, {8, 3, 2, 0, 1, true}),
      geometry(2, {5, 2, 2, 1, 1, true}, {6, 3, 2, 1, dilation}, {7, 2, 1, 0, 1}),
      geometry(5, {}, {}, {40, 5, 3, 2, 1, true}),
      geometry(9, {}, {30, 3, 1, 1, 1}, {33, 3, 1, 1, 1}),
      geometry(0, {}, {6, 2, 2, 0, 1}, {8, 2, 2, 0, 1}),
      geometry(1, {}, {}, {1, 1, 1, 0, 1}),
  };
}
struct Adaptive {
  int64_t planes, in[3], out[3];
};
const Adaptive kAdaptive[] = {{3, {1, 7, 9}, {1, 3, 4}},  {2, {5, 6, 7}, {2, 3, 7}}, {2, {1, 3, 5}, {1, 7, 8}},
                              {4, {1, 1, 30}, {1, 1, 1}}, {2, {1, 4, 4}, {1, 0, 2}}, {0, {1, 4, 4}, {1, 2, 2}}};

class PoolTest : public ::testing::TestWithParam<DType> {
 protected:
  void SetUp() override {
    if (device_count() == 0) GTEST_SKIP() << "no CUDA device";
  }
  // The gradient of max pooling by `index`, on both sides.
  static void check_max_backward(int64_t planes, int64_t in, int64_t out, Data& index) {
    const DType t = GetParam();
    Data dy = random_data(t, planes * out, 5), dx(t, planes * in, 0x11);
    const OnDevice ddy(dy), ddx(dx), dindex(index);
    cpu::max_pool_backward(t, planes, in, out, dy.get(), static_cast<const int64_t*>(index.get()), dx.get());
    cuda::max_pool_backward(t, planes, in, out, ddy.get(), static_cast<const int64_t*>(dindex.get()), ddx.get());
    EXPECT_EQ(ddx.read().bytes, dx.bytes);
  }
};

TEST_P(PoolTest, Max) {
  const DType t = GetParam();
  for (const auto& g : geometries(2)) {
    const int64_t in = volume(g.in_size), out = volume(g.out_size);
    Data x = random_data(t, g.planes * in, 1), y(t, g.planes * out, 0x11), index(DType::kInt64, g.planes * out);
    const OnDevice dx(x), dy(y), dy2(y), dindex(index);
    cpu::max_pool_forward(t, g, x.get(), y.get(), static_cast<int64_t*>(index.get()));
    cuda::max_pool_forward(t, g, dx.get(), dy.get(), static_cast<int64_t*>(dindex.get()));
    cuda::max_pool_forward(t, g, dx.get(), dy2.get(), nullptr);
    EXPECT_EQ(dy.read().bytes, y.bytes);
    EXPECT_EQ(dy2.read().bytes, y.bytes);
    EXPECT_EQ(dindex.read().bytes, index.bytes);
    check_max_backward(g.planes, in, out, index);
    // And by the windows.
    Data grad = random_data(t, g.planes * out, 5), back(t, g.planes * in, 0x11);
    const OnDevice dgrad(grad), dback(back), places(index);
    cpu::max_pool_backward(t, g.planes, in, out, grad.get(), static_cast<const int64_t*>(index.get()), back.get());
    ASSERT_TRUE(
        cuda::max_pool_backward_windows(t, g, dgrad.get(), static_cast<const int64_t*>(places.get()), dback.get()));
    EXPECT_EQ(dback.read().bytes, back.bytes);
  }
  PoolGeometry wide = geometry(1, {}, {20, 9, 1, 0, 1}, {20, 9, 1, 0, 1});
  EXPECT_FALSE(cuda::max_pool_backward_windows(t, wide, nullptr, nullptr, nullptr));
}
TEST_P(PoolTest, ManyOutputsOfOneElement) {
  for (const int64_t in : {1, 3, 1000}) {
    Data index(DType::kInt64, 2 * 900);
    std::mt19937 rng(3);
    for (int64_t i = 0; i < index.size(); ++i)
      index.set(i, static_cast<double>(static_cast<int64_t>(rng() % in)) - (i % 50 == 0 ? 5000 : 0));
    check_max_backward(2, in, 900, index);
  }
}
TEST_P(PoolTest, Average) {
  const DType t = GetParam();
  for (const auto& g : geometries(1))
    for (const bool include : {false, true})
      for (const int64_t divisor : {0, 3}) {
        const int64_t in = volume(g.in_size), out = volume(g.out_size);
        Data x = random_data(t, g.planes * in, 1), y(t, g.planes * out, 0x11), grad = random_data(t, g.planes * out, 2),
             back(t, g.planes * in, 0x11);
        const OnDevice dx(x), dy(y), dgrad(grad), dback(back);
        cpu::avg_pool_forward(t, g, include, divisor, x.get(), y.get());
        cuda::avg_pool_forward(t, g, include, divisor, dx.get(), dy.get());
        expect_near(dy.read(), y, 4, "average");
        cpu::avg_pool_backward(t, g, include, divisor, grad.get(), back.get());
        cuda::avg_pool_backward(t, g, include, divisor, dgrad.get(), dback.get());
        expect_near(dback.read(), back, 4, "gradient of average");
      }
}
TEST_P(PoolTest, Adaptive) {
  const DType t = GetParam();
  for (const auto& a : kAdaptive) {
    const int64_t in = volume(a.in), out = volume(a.out);
    Data x = random_data(t, a.planes * in, 1), y(t, a.planes * out, 0x11), grad = random_data(t, a.planes * out, 2),
         back(t, a.planes * in, 0x11), index(DType::kInt64, a.planes * out);
    const OnDevice dx(x), dy(y), dgrad(grad), dback(back), dindex(index);
    cpu::adaptive_avg_pool_forward(t, a.planes, a.in, a.out, x.get(), y.get());
    cuda::adaptive_avg_pool_forward(t, a.planes, a.in, a.out, dx.get(), dy.get());
    expect_near(dy.read(), y, 4, "adaptive average");
    cpu::adaptive_avg_pool_backward(t, a.planes, a.in, a.out, grad.get(), back.get());
    cuda::adaptive_avg_pool_backward(t, a.planes, a.in, a.out, dgrad.get(), dback.get());
    expect_near(dback.read(), back, 4, "gradient of adaptive average");
    cpu::adaptive_max_pool_forward(t, a.planes, a.in, a.out, x.get(), y.get(), static_cast<int64_t*>(index.get()));
    cuda::adaptive_max_pool_forward(t, a.planes, a.in, a.out, dx.get(), dy.get(), static_cast<int64_t*>(dindex.get()));
    EXPECT_EQ(dy.read().bytes, y.bytes);
    EXPECT_EQ(dindex.read().bytes, index.bytes);
    check_max_backward(a.planes, in, out, index);
  }
}
INSTANTIATE_TEST_SUITE_P(Types, PoolTest, ::testing::ValuesIn(testing::kRealTypes),
                         [](const auto& info) { return std::string(name_of(info.param)); });

TEST(Pool, NanInfinitiesAndTies) {
  if (device_count() == 0) GTEST_SKIP() << "no CUDA device";
  const PoolGeometry g = geometry(1, {}, {}, {10, 2, 2, 0, 1});
  const double inf = INFINITY;
  const double values[] = {1, NAN, NAN, 2, -inf, -inf, 3, 3, inf, NAN};
  for (const DType t : testing::kFloatTypes) {
    Data x(t, 10), y(t, 5), index(DType::kInt64, 5);
    for (int64_t i = 0; i < 10; ++i) x.set(i, values[i]);
    const OnDevice dx(x), dy(y), dindex(index);
    cpu::max_pool_forward(t, g, x.get(), y.get(), static_cast<int64_t*>(index.get()));
    cuda::max_pool_forward(t, g, dx.get(), dy.get(), static_cast<int64_t*>(dindex.get()));
    expect_near(dy.read(), y, 0, "maxima");
    EXPECT_EQ(dindex.read().bytes, index.bytes);
  }
}
TEST(Pool, Errors) {
  if (device_count() == 0) GTEST_SKIP() << "no CUDA device";
  const PoolGeometry g = geometry(1, {}, {}, {10, 2, 2, 0, 1});
  EXPECT_THROW(cuda::max_pool_forward(DType::kBool, g, nullptr, nullptr, nullptr), NotImplementedError);
  EXPECT_THROW(cuda::avg_pool_forward(DType::kComplex64, g, true, 0, nullptr, nullptr), NotImplementedError);
}

}  // namespace
}  // namespace tessera::cuda
