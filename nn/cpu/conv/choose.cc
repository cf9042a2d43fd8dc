#include "nn/cpu/conv/choose.h"

#include "nn/cpu/conv/conv_bf16.h"
#include "nn/cpu/conv/conv_depthwise.h"
#include "nn/cpu/conv/conv_implicit.h"
#include "nn/cpu/conv/conv_sizes.h"
#include "tensor/cpu/support/integer.h"
#include "tensor/cpu/support/simd.h"
#include "tensor/cpu/support/types.h"

namespace tessera::cpu::internal {

ConvMachine conv_machine(DType dtype) {
  return {int64_t{4} << static_cast<int>(simd_level()), dtype == DType::kBFloat16 && has_bf16_conv()};
}

namespace {

// ---- The way of a whole convolution ----

constexpr int64_t kLargeImage = 128;    // positions from which an image is a matrix of its own
constexpr int64_t kLongSum = 128;       // products of a sum that make up for vectors that are not full
constexpr int64_t kPanelChannels = 16;  // a whole step of the dot products' panels
// Positions from which panels pay: what is made of the weights once is read as often. A gradient of weights sums over
// positions, and each weight's sum is turned round at its end.
constexpr int64_t kPanelPositions = 64, kPanelSums = 1024;
constexpr int64_t kMirrorChannels = 4;  // with fewer, the mirrored weights' product has too few rows to pay

struct Case {
  ConvDirection direction;
  DType dtype;
  const ConvGeometry& g;
  const ConvMachine& m;
  // Channels of what is computed, which are the vectors, and those that are summed over (weights: as forward).
  int64_t vector_channels() const { return direction == ConvDirection::kInput ? g.in_channels : g.out_channels; }
  int64_t summed_channels() const { return direction == ConvDirection::kInput ? g.out_channels : g.in_channels; }
  bool large_image() const { return is_pointwise(g) && volume(g.in_size) >= kLargeImage; }
};

// Three fifths of the lanes, at least.
bool fills_vectors(int64_t channels, const ConvMachine& m) {
  return 5 * channels >= 3 * (ceil_div(channels, m.lanes) * m.lanes);
}

bool always(const Case&) { return true; }

bool fills_panels(const Case& c) {
  const ConvGeometry& g = c.g;
  const int64_t positions = g.batch * volume(c.direction == ConvDirection::kInput ? g.in_size : g.out_size);
  return c.m.bf16 && g.in_channels >= kPanelChannels * g.groups && g.out_channels >= kPanelChannels * g.groups &&
         volume(g.in_size) > 0 && positions >= (c.direction == ConvDirection::kWeight ? kPanelSums : kPanelPositions);
}

bool one_channel_per_group(const Case& c) { return is_depthwise(c.g); }

// Direct convolution works on vectors of channels; where these are few, vectors of positions are better filled.
// Windows of one position are a plain product of matrices, if the images are large enough for one.
bool has_vectors_of_channels(const Case& c) {
  const ConvGeometry& g = c.g;
  if (g.batch * g.in_channels * g.out_channels * volume(g.in_size) * volume(g.out_size) == 0 || is_depthwise(g))
    return false;
  if (!g.channels_last && c.large_image()) return false;
  const int64_t channels = c.vector_channels() / g.groups;
  if (fills_vectors(channels, c.m) || g.channels_last) return true;
  // Long sums are worth emptier vectors.
  return c.summed_channels() / g.groups * volume(g.kernel) >= kLongSum && fills_vectors((channels * 8 + 4) / 5, c.m);
}

// A group with one channel has a way of its own, in float32.
bool takes_halves(const Case& c) { return !one_channel_per_group(c) && has_vectors_of_channels(c); }

bool is_large_matrix(const Case& c) { return c.summed_channels() > 0 && c.large_image(); }

// Without strides the gradient of the input is a convolution with the mirrored weights.
bool mirrors_well(const Case& c) {
  return c.g.in_channels / c.g.groups >= kMirrorChannels && has_implicit_backward(c.g);
}

constexpr unsigned kForward = 1, kInput = 2, kWeight = 4, kAll = kForward | kInput | kWeight;

enum class Types { kBFloat16, kHalves, kReduced, kExact, kFloat32, kReal };  // kExact: integers, complex numbers
bool has(Types types, DType t) {
  switch (types) {
    case Types::kBFloat16:
      return t == DType::kBFloat16;
    case Types::kHalves:
      return t == DType::kFloat16 || t == DType::kBFloat16;
    case Types::kReduced:
      return t == DType::kFloat16 || t == DType::kBFloat16 || t == DType::kComplex32;
    case Types::kFloat32:
      return t == DType::kFloat32;
    case Types::kReal:
      return t == DType::kFloat32 || t == DType::kFloat64;
    default:
      return !is_floating_point(t);
  }
}

// The first line that fits decides.
struct Line {
  unsigned directions;
  Types types;
  bool (*when)(const Case&);
  ConvWay way;
};
constexpr Line kWays[] = {
    // Where the machine multiplies bfloat16 itself, steps of 16 channels at many positions are twice as fast as float32
    // and more.
    {kAll, Types::kBFloat16, fills_panels, ConvWay::kPanels},
    // Where that would cost as much as in float32, or is none: products of float32, to which the direct ways convert as
    // they pack.
    {kAll, Types::kHalves, takes_halves, ConvWay::kDirect},
    // Sums of reduced floats are kept in float32, so the images are converted once rather than at each tap.
    {kAll, Types::kReduced, always, ConvWay::kWidened},
    // Integers and complex numbers are rare: the general way has no kernels of its own for each dtype.
    {kAll, Types::kExact, always, ConvWay::kColumns},
    // A group with one channel leaves a product nothing to sum over but the taps.
    {kAll, Types::kReal, one_channel_per_group, ConvWay::kDepthwise},
    // The image is read where it lies, columns are never made.
    {kAll, Types::kFloat32, has_vectors_of_channels, ConvWay::kDirect},
    // Windows of one position: the image is the matrix.
    {kForward | kInput, Types::kReal, is_large_matrix, ConvWay::kProduct},
    // Few channels, and float64: the vectors are positions, columns go straight into the product's panels.
    {kForward, Types::kReal, always, ConvWay::kImplicit},
    {kInput, Types::kReal, mirrors_well, ConvWay::kImplicit},
    // Strided gradients add up where windows overlap; gradients of weights have short rows and long sums.
    {kAll, Types::kReal, always, ConvWay::kColumns},
};

}  // namespace

ConvWay choose_way(ConvDirection direction, DType dtype, const ConvGeometry& g, const ConvMachine& m) {
  const Case c{direction, dtype, g, m};
  for (const Line& line : kWays)
    if ((line.directions >> static_cast<int>(direction) & 1) && has(line.types, dtype) && line.when(c)) return line.way;
  return ConvWay::kColumns;
}

bool suits_channels_last(DType dtype, const ConvGeometry& g, const ConvMachine& m) {
  const Case c{ConvDirection::kForward, dtype, g, m};
  return (dtype == DType::kFloat32 || has(Types::kHalves, dtype)) && has_vectors_of_channels(c);
}

// ---- The sums of a direct convolution ----

namespace {

// The baseline, vectors of four without fused products, has tiles alone.
bool has_all_ways(const ConvMachine& m) { return m.lanes > 4; }

// So few positions that the batch's fit into vectors, so many weights that reading them is what takes the time. Places
// are counted in 32 bits.
constexpr int64_t kNarrowPositions = 32, kNarrowWeights = int64_t{1} << 17;
template <class Problem>
bool is_narrow(const Problem& c, int64_t taps) {
  const int64_t positions = c.images * volume(c.size),
                elements = c.images * (c.x_image + c.in_channels * c.in.with(c.border).plane());
  return positions <= kNarrowPositions && c.in_channels * taps * c.out_channels >= kNarrowWeights &&
         elements < int64_t{1} << 31;
}

// Many enough channels for the transforms to pay, and images that whole tiles do not enlarge much.
bool worth_tiles(int64_t in_channels, int64_t out_channels, const int64_t (&size)[3]) {
  return in_channels >= 16 && out_channels >= 16 &&
         20 * ((size[1] + 1) / 2) * ((size[2] + 1) / 2) <= 7 * size[1] * size[2];
}

// Windows of 3 x 3 neighbours in each depth, whatever the order of the taps.
bool is_three_by_three(const DirectConv<float>& c) {
  if (c.taps == 0 || c.taps % 9 != 0 || c.step[1] != 1 || c.step[2] != 1 || c.y_step[1] != c.size[2] * c.y_step[2])
    return false;
  if (c.in.channels_last && c.taps > 9) return false;
  // Each depth has all nine places of the first.
  int64_t low[2] = {c.tap[0][1], c.tap[0][2]}, seen = 0;
  for (int64_t t = 1; t < 9; ++t)
    for (int i = 0; i < 2; ++i) low[i] = low[i] < c.tap[t][i + 1] ? low[i] : c.tap[t][i + 1];
  for (int64_t t = 0; t < c.taps; ++t) {
    const int64_t h = c.tap[t][1] - low[0], w = c.tap[t][2] - low[1];
    if (h < 0 || h > 2 || w < 0 || w > 2 || c.tap[t][0] != c.tap[t / 9 * 9][0]) return false;
    seen = (t % 9 == 0 ? 0 : seen) | int64_t{1} << (3 * h + w);
    if (t % 9 == 8 && seen != 511) return false;
  }
  return true;
}
bool is_three_by_three(const DirectWeight& c) {
  for (int i = 0; i < 3; ++i)
    if (c.kernel[i] != (i == 0 ? 1 : 3) || c.step[i] != 1 || c.dilation[i] != 1) return false;
  return c.size[0] == 1 && c.in.size[0] == 1 && c.border.low[0] == 0;
}

template <class Problem>
DirectWay direct_way(const Problem& c, int64_t taps, int64_t depths, const ConvMachine& m) {
  if (!has_all_ways(m)) return DirectWay::kTiles;
  if (is_narrow(c, taps)) return DirectWay::kNarrow;
  if (is_three_by_three(c) && worth_tiles(depths * c.in_channels, c.out_channels, c.size)) return DirectWay::kWinograd;
  return DirectWay::kTiles;
}

}  // namespace

DirectWay choose_direct(const DirectConv<float>& c, const ConvMachine& m) {
  return direct_way(c, c.taps, c.taps / 9, m);
}
DirectWay choose_direct(const DirectWeight& c, const ConvMachine& m) { return direct_way(c, volume(c.kernel), 1, m); }

bool suits_strips(const PointwiseConv& c, const ConvMachine& m) {
  constexpr int64_t kMostChannels = 96;  // more pay for packed images, which the general product has
  if (!has_all_ways(m) || c.out_channels > kMostChannels) return false;
  // Channels are cut evenly, and each tile has to fill its registers well.
  const TileRows rows = strip_rows(m.lanes);
  return c.out_channels / ceil_div(c.out_channels, rows.most) >= rows.least;
}

}  // namespace tessera::cpu::internal
