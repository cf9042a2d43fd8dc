#include "nn/cpu/conv/choose.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace tessera::cpu::internal {
namespace {

constexpr ConvMachine kAvx3{16, true}, kAvx2{8, false}, kBaseline{4, false};
constexpr DType kFloat = DType::kFloat32, kDouble = DType::kFloat64;
constexpr ConvDirection kForward = ConvDirection::kForward, kInput = ConvDirection::kInput,
                        kWeight = ConvDirection::kWeight;

struct Window {
  int64_t kernel, stride = 1, padding = 0;
};
// A square image.
ConvGeometry image(int64_t in_c, int64_t out_c, int64_t size, Window w, int64_t groups = 1, int64_t batch = 8) {
  ConvGeometry g{batch,
                 in_c,
                 out_c,
                 groups,
                 {1, size, size},
                 {1, w.kernel, w.kernel},
                 {1, w.stride, w.stride},
                 {0, w.padding, w.padding},
                 {1, 1, 1},
                 {}};
  const int64_t out = (size + 2 * w.padding - w.kernel) / w.stride + 1;
  g.out_size[0] = 1;
  g.out_size[1] = g.out_size[2] = out;
  return g;
}
ConvGeometry channels_last(ConvGeometry g) {
  g.channels_last = true;
  return g;
}

// The ways of the result, the input's gradient, the weights' gradient.
struct Ways {
  ConvWay forward, input, weight;
  bool operator==(const Ways&) const = default;
};
std::ostream& operator<<(std::ostream& s, const Ways& w) {
  static constexpr const char* kNames[] = {"panels",  "widened",  "depthwise", "direct",
                                           "product", "implicit", "columns"};
  const auto name = [](ConvWay way) { return kNames[static_cast<int>(way)]; };
  return s << name(w.forward) << ", " << name(w.input) << ", " << name(w.weight);
}
Ways ways(DType t, const ConvGeometry& g, const ConvMachine& m) {
  return {choose_way(kForward, t, g, m), choose_way(kInput, t, g, m), choose_way(kWeight, t, g, m)};
}
constexpr Ways all(ConvWay way) { return {way, way, way}; }

TEST(Choose, VectorsOfChannels) {
  // A residual network's inner layers, and its first: three channels fill no vector of its gradient's.
  EXPECT_EQ(ways(kFloat, image(64, 64, 56, {3, 1, 1}), kAvx3), all(ConvWay::kDirect));
  EXPECT_EQ(ways(kFloat, image(64, 128, 56, {3, 2, 1}), kAvx3), all(ConvWay::kDirect));
  EXPECT_EQ(ways(kFloat, image(3, 64, 224, {7, 2, 3}), kAvx3),
            (Ways{ConvWay::kDirect, ConvWay::kColumns, ConvWay::kDirect}));
  EXPECT_EQ(ways(kFloat, image(3, 64, 224, {7, 2, 3}), kBaseline), all(ConvWay::kDirect));
  // Nine channels are three fifths of sixteen lanes only just not, and of eight and four well enough.
  const ConvGeometry nine = image(4, 9, 28, {3, 1, 1});
  EXPECT_EQ(choose_way(kForward, kFloat, nine, kAvx3), ConvWay::kImplicit);
  EXPECT_EQ(choose_way(kForward, kFloat, nine, kBaseline), ConvWay::kDirect);
  // A long sum is worth it.
  EXPECT_EQ(choose_way(kForward, kFloat, image(16, 9, 28, {3, 1, 1}), kAvx3), ConvWay::kDirect);
  // Groups have channels of their own.
  EXPECT_EQ(choose_way(kForward, kFloat, image(64, 64, 28, {3, 1, 1}, 4), kAvx3), ConvWay::kDirect);
  EXPECT_EQ(choose_way(kForward, kFloat, image(64, 64, 28, {3, 1, 1}, 16), kAvx3), ConvWay::kImplicit);
}

TEST(Choose, VectorsOfPositions) {
  // float64 has no direct sums.
  EXPECT_EQ(ways(kDouble, image(64, 64, 56, {3, 1, 1}), kAvx3),
            (Ways{ConvWay::kImplicit, ConvWay::kImplicit, ConvWay::kColumns}));
  EXPECT_EQ(ways(kDouble, image(64, 64, 56, {3, 2, 1}), kAvx3),
            (Ways{ConvWay::kImplicit, ConvWay::kColumns, ConvWay::kColumns}));
  EXPECT_EQ(ways(kFloat, image(1, 6, 28, {5, 1, 2}), kAvx3),
            (Ways{ConvWay::kImplicit, ConvWay::kColumns, ConvWay::kColumns}));
}

TEST(Choose, WindowsOfOnePosition) {
  EXPECT_EQ(ways(kFloat, image(256, 64, 56, {1}), kAvx3),
            (Ways{ConvWay::kProduct, ConvWay::kProduct, ConvWay::kColumns}));
  EXPECT_EQ(ways(kFloat, image(512, 2048, 7, {1}), kAvx3), all(ConvWay::kDirect));
  EXPECT_EQ(ways(kFloat, image(256, 512, 56, {1, 2}), kAvx3), all(ConvWay::kDirect));
  EXPECT_EQ(ways(kFloat, channels_last(image(256, 64, 56, {1})), kAvx3), all(ConvWay::kDirect));
  EXPECT_EQ(choose_way(kForward, kDouble, image(256, 64, 56, {1}), kAvx3), ConvWay::kProduct);
}

TEST(Choose, Depthwise) {
  for (const DType t : {kFloat, kDouble})
    EXPECT_EQ(ways(t, image(32, 64, 56, {3, 1, 1}, 32), kAvx3), all(ConvWay::kDepthwise));
  EXPECT_NE(choose_way(kForward, kFloat, image(32, 160, 56, {3, 1, 1}, 32), kAvx3), ConvWay::kDepthwise);
  EXPECT_NE(choose_way(kForward, kFloat, image(1, 1, 56, {3, 1, 1}), kAvx3), ConvWay::kDepthwise);
}

TEST(Choose, DtypesWithoutKernelsOfTheirOwn) {
  const ConvGeometry g = image(64, 64, 28, {3, 1, 1});
  for (const DType t : {DType::kInt64, DType::kUInt8, DType::kComplex64, DType::kComplex128})
    EXPECT_EQ(ways(t, g, kAvx3), all(ConvWay::kColumns));
  EXPECT_EQ(ways(DType::kComplex32, g, kAvx3), all(ConvWay::kWidened));
  EXPECT_EQ(ways(DType::kFloat16, g, kAvx3), all(ConvWay::kDirect));
  EXPECT_EQ(ways(DType::kBFloat16, g, kAvx3), all(ConvWay::kPanels));
  EXPECT_EQ(ways(DType::kBFloat16, g, kAvx2), all(ConvWay::kDirect));
  EXPECT_EQ(ways(DType::kBFloat16, image(3, 64, 28, {3, 1, 1}), kAvx3),
            (Ways{ConvWay::kDirect, ConvWay::kWidened, ConvWay::kDirect}));
  EXPECT_EQ(ways(DType::kBFloat16, image(32, 32, 28, {3, 1, 1}, 4), kAvx3), all(ConvWay::kWidened));
}

TEST(Choose, PanelsForManyPositions) {
  const DType t = DType::kBFloat16;
  EXPECT_EQ(ways(t, image(512, 512, 2, {3, 1, 1}), kAvx3), all(ConvWay::kDirect));
  EXPECT_EQ(ways(t, image(512, 512, 8, {3, 1, 1}), kAvx3),
            (Ways{ConvWay::kPanels, ConvWay::kPanels, ConvWay::kDirect}));
  EXPECT_EQ(ways(t, image(256, 256, 12, {3, 1, 1}), kAvx3), all(ConvWay::kPanels));
  EXPECT_EQ(ways(t, image(256, 512, 4, {3, 2, 1}), kAvx3),
            (Ways{ConvWay::kDirect, ConvWay::kPanels, ConvWay::kDirect}));
}

TEST(Choose, ChannelsLast) {
  const ConvGeometry g = channels_last(image(64, 64, 28, {3, 1, 1}));
  EXPECT_TRUE(suits_channels_last(kFloat, g, kBaseline));
  EXPECT_TRUE(suits_channels_last(kFloat, channels_last(image(3, 5, 28, {3, 1, 1})), kAvx3));
  EXPECT_TRUE(suits_channels_last(DType::kBFloat16, g, kAvx3));
  EXPECT_TRUE(suits_channels_last(DType::kBFloat16, g, kAvx2));
  EXPECT_FALSE(suits_channels_last(kDouble, g, kAvx3));
  EXPECT_FALSE(suits_channels_last(kFloat, channels_last(image(64, 64, 28, {3, 1, 1}, 64)), kAvx3));
  EXPECT_FALSE(suits_channels_last(kFloat, channels_last(image(64, 64, 28, {3, 1, 1}, 1, 0)), kAvx3));
}

TEST(Choose, EmptySizesTakeAWayThatKnowsThem) {
  const ConvGeometry g = image(0, 64, 28, {3, 1, 1});
  EXPECT_EQ(ways(kFloat, g, kAvx3), (Ways{ConvWay::kImplicit, ConvWay::kColumns, ConvWay::kColumns}));
  EXPECT_EQ(choose_way(kForward, kFloat, image(0, 64, 28, {1}), kAvx3), ConvWay::kImplicit);
}

// A group's forward problem, as direct_forward makes it: rows, the border that the padding reaches.
struct Direct {
  DirectConv<float> c{};
  std::vector<int64_t> taps, tap_w;
  Direct(int64_t images, int64_t in_c, int64_t out_c, int64_t size, Window w) {
    const int64_t out = (size + 2 * w.padding - w.kernel) / w.stride + 1;
    c.images = images;
    c.in_channels = in_c;
    c.out_channels = out_c;
    c.in = {{1, size, size}, 1, false};
    c.x_image = in_c * size * size;
    c.border = {{0, w.padding, w.padding}, {0, w.padding, w.padding}};
    for (int64_t h = 0; h < w.kernel; ++h)
      for (int64_t k = 0; k < w.kernel; ++k) taps.insert(taps.end(), {0, h, k}), tap_w.push_back(h * w.kernel + k);
    c.taps = w.kernel * w.kernel;
    c.tap = reinterpret_cast<const int64_t(*)[3]>(taps.data());
    c.tap_w = tap_w.data();
    const int64_t step[] = {1, w.stride, w.stride}, y_step[] = {out * out, out, 1}, sizes[] = {1, out, out};
    for (int i = 0; i < 3; ++i) {
      c.step[i] = step[i];
      c.y_step[i] = y_step[i];
      c.size[i] = sizes[i];
    }
  }
};

TEST(Choose, SumsOfDirectConvolution) {
  const auto way = [](const Direct& d, const ConvMachine& m) { return choose_direct(d.c, m); };
  EXPECT_EQ(way({8, 64, 64, 56, {3, 1, 1}}, kAvx3), DirectWay::kWinograd);
  EXPECT_EQ(way({8, 64, 64, 56, {3, 1, 1}}, kAvx2), DirectWay::kWinograd);
  EXPECT_EQ(way({8, 64, 64, 56, {3, 1, 1}}, kBaseline), DirectWay::kTiles);
  EXPECT_EQ(way({8, 64, 64, 56, {3, 2, 1}}, kAvx3), DirectWay::kTiles);
  EXPECT_EQ(way({8, 64, 64, 56, {5, 1, 2}}, kAvx3), DirectWay::kTiles);
  EXPECT_EQ(way({8, 8, 64, 56, {3, 1, 1}}, kAvx3), DirectWay::kTiles) << "transforms of 8 channels do not pay";
  EXPECT_EQ(way({8, 64, 64, 3, {3, 1, 1}}, kAvx3), DirectWay::kTiles) << "4 x 4 results for 3 x 3";
  EXPECT_EQ(way({2, 512, 512, 4, {3, 1, 1}}, kAvx3), DirectWay::kNarrow);
  EXPECT_EQ(way({3, 512, 512, 4, {3, 1, 1}}, kAvx3), DirectWay::kWinograd) << "48 positions";
  EXPECT_EQ(way({2, 64, 64, 4, {3, 1, 1}}, kAvx3), DirectWay::kWinograd) << "few weights";
}

TEST(Choose, StripsOfPointwiseImages) {
  const auto strips = [](int64_t channels, const ConvMachine& m) {
    PointwiseConv c{};
    c.out_channels = channels;
    return suits_strips(c, m);
  };
  EXPECT_TRUE(strips(64, kAvx3));
  EXPECT_TRUE(strips(64, kAvx2));
  EXPECT_FALSE(strips(64, kBaseline));
  EXPECT_FALSE(strips(97, kAvx3));
  EXPECT_FALSE(strips(8, kAvx3));
  EXPECT_FALSE(strips(15, kAvx3)) << "two tiles of 7 and 8 rows";
  EXPECT_TRUE(strips(96, kAvx2));
}

}  // namespace
}  // namespace tessera::cpu::internal
