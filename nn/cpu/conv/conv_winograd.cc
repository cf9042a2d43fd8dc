// Convolutions with kernels of 3 x 3 and no stride in fewer multiplications (Winograd's F(2x2, 3x3)): tiles of 2 x 2
// results take 16 products of transformed numbers for each channel instead of 36. With B^T = (1 0 -1 0; 0 1 1 0; 0 -1 1
// 0; 0 1 0 -1), G = (1 0 0; 1/2 1/2 1/2; 1/2 -1/2 1/2; 0 0 1), A^T = (1 1 1 0; 0 1 -1 -1):
//   y = A^T ((G w G^T) * (B^T x B)) A, the products summed over the channels.
// A result depends on the numbers of its own window only, and its rounding error is below that of the direct sum of
// nine times as many products.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "nn/cpu/conv/conv_winograd.cc"
#include <atomic>
#include <cstring>
#include <vector>

#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "tensor/core/parallel.h"
#include "nn/cpu/conv/conv_direct.h"
#include "tensor/cpu/support/integer.h"
#include "tensor/cpu/support/types.h"
#include "tensor/cpu/support/scratch.h"
#include "tensor/cpu/support/simd.h"
#include "nn/cpu/conv/transpose_simd-inl.h"  // last: it uses the headers above

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::internal {
namespace HWY_NAMESPACE {
#if HWY_TARGET == HWY_SSE4
// The baseline takes the direct sums.
bool WinogradConvolution(const DirectConv<float>&) { return false; }
bool WinogradWeights(const DirectWeight&) { return false; }
#else
namespace {

constexpr int64_t kBandTiles = 64;                 // of a band; with the channels below their transforms stay in L2
constexpr int64_t kGroupChannels = 128;            // of the results of a band
constexpr int64_t kChunkChannels = 64;             // summed at once: a sum of sums has smaller errors
constexpr int64_t kMostStored = int64_t{1} << 23;  // elements of transformed weights
constexpr int64_t kWidth = 2 * kLanes;             // channels of a tile of the products
constexpr int64_t kApart =
    16;  // elements between the parts of a transform, so that they do not share the same places in L1

// (a, b, c, d) = B^T (a, b, c, d)
HWY_INLINE void transform_four(V& a, V& b, V& c, V& d4) {
  const V sum = hn::Add(b, c), difference = hn::Sub(c, b);
  a = hn::Sub(a, c);
  d4 = hn::Sub(b, d4);
  b = sum;
  c = difference;
}
// The 16 numbers x, as vectors, transformed to to + i * part.
HWY_INLINE void transform_input(V (&x)[4][4], float* to, int64_t part) {
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) transform_four(x[0][j], x[1][j], x[2][j], x[3][j]);
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    transform_four(x[i][0], x[i][1], x[i][2], x[i][3]);
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) hn::StoreU(x[i][j], d, to + (4 * i + j) * part);
  }
}

// The image that windows of 4 x 4 numbers, two apart, read; lines of these windows.
struct Windows {
  // depth_first: bands of the same lines at each depth follow each other, so that neighbours share what they read.
  template <class Problem>
  Windows(const Problem& c, int64_t first_row, int64_t first_column, bool depth_first = false)
      : x(c.x),
        x_image(c.x_image),
        first_channel(c.first_channel),
        in(c.in),
        first{first_row, first_column},
        deep(c.size[0]),
        depth_step(c.step[0]),
        high((c.size[1] + 1) / 2),
        wide((c.size[2] + 1) / 2),
        lines(c.images * deep * high) {
    const int64_t most = max64(1, kBandTiles / wide);  // whole planes, or even parts of one
    band = high > most ? ceil_div(high, ceil_div(high, most)) : depth_first ? high : most / high * high;
    parts = depth_first ? ceil_div(high, band) : 0;
    bands = depth_first ? lines / high * parts : ceil_div(lines, band);
  }
  Numbers x;  // float where channels come last
  int64_t x_image, first_channel;
  ImageLayout in;
  int64_t first[2];                             // where the first window begins, relative to the image
  int64_t deep, depth_step, high, wide, lines;  // windows of an image; lines of all images
  int64_t band, bands, parts;  // lines that are transformed at once; bands of a plane, where depths follow each other

  struct Lines {
    int64_t begin, end;
  };
  // 16 parts, each channels by windows (row: elements from channel to channel), or windows by channels where these come
  // last.
  struct Transformed {
    float* at;
    int64_t row, part;
  };
  // Elements of those of a band, `channels` of them.
  Transformed place(int64_t channels, float* at = nullptr) const {
    const int64_t windows = band * wide, row = in.channels_last
                                                   ? channels
                                                   : ceil_div(windows, kLanes) * kLanes +
                                                         kLanes;  // whole vectors may be written beyond the windows
    return {at, row, row * (in.channels_last ? windows : channels) + kApart};
  }
  int64_t size(int64_t channels) const { return 16 * place(channels).part + kLanes; }

  // Lines of the windows at `depth` from their first place there.
  void transform(const Lines& l, int64_t depth, int64_t channel0, int64_t count, const Transformed& to) const {
    if (in.channels_last)
      transform_places(l.begin, l.end, depth, channel0, count, to);
    else
      transform_planes(l.begin, l.end, depth, channel0, count, to);
  }
  // Where a line lies: the image, how deep there, the line there.
  struct Line {
    int64_t image, e, h;
  };
  Line line_at(int64_t i) const { return {i / high / deep, i / high % deep, i % high}; }
  Lines band_at(int64_t i) const {
    if (parts == 0) return {i * band, min64((i + 1) * band, lines)};
    const int64_t part = i / deep % parts, first = (i / deep / parts * deep + i % deep) * high;
    return {first + part * band, first + min64((part + 1) * band, high)};
  }

 private:
  // Planes of channels: vectors of tiles. to: channels by tiles for each of the 16 numbers.
  void transform_planes(int64_t begin, int64_t end, int64_t depth, int64_t channel0, int64_t count,
                        const Transformed& to) const {
    const int64_t row = 2 * wide, size = (band + 1) * row + 2 * kLanes;
    // Even and odd rows of the windows, from their first column on and from their third: so the numbers of neighbouring
    // tiles follow each other over all lines.
    ScratchArray<float> rows(4 * size), widened(x.is_float() ? 0 : (2 * band + 2) * in.size[2]);
    std::memset(rows.get(), 0, 4 * size * sizeof(float));
    const Columns columns[2] = {{first[1], in.size[2], row}, {first[1] + 2, in.size[2], row}};
    for (int64_t line = begin; line < end;) {
      const auto [image, e, h] = line_at(line);
      const int64_t n = min64(end - line, high - h), z = e * depth_step + depth;
      // Rows of the image among those of the windows.
      const int64_t top = first[0] + 2 * h, most = z < 0 || z >= in.size[0] ? 0 : min64(2 * n + 2, in.size[1] - top);
      const int64_t begin_row = min64(2 * n + 2, max64(0, -top)), end_row = max64(begin_row, most);
      const auto place = [&](int64_t i, int64_t j) {
        return rows.get() + (i % 2 * 2 + j) * size + i / 2 * row + columns[j].to;
      };
      for (int64_t i = 0; i < 2 * n + 2; ++i)
        for (int64_t j = 0; j < 2 && (i < begin_row || i >= end_row); ++j)
          std::memset(place(i, j), 0, columns[j].n * sizeof(float));
      for (int64_t c = 0; c < count; ++c) {
        if (end_row > begin_row) {
          const Numbers some =
              x + (image * x_image + (channel0 + c) * in.channel() + z * in.step(0) + (top + begin_row) * in.size[2]);
          if (!x.is_float()) some.read((end_row - begin_row) * in.size[2], widened.get());
          const float* const from = x.is_float() ? some.floats() : widened.get();
          for (int64_t j = 0; j < 2; ++j)
            for (int64_t i = begin_row; i < end_row; ++i)
              copy_row(from + (i - begin_row) * in.size[2] + columns[j].from, columns[j].n, place(i, j));
        }
        transform_lines(rows.get(), size, row, n * wide, to.at + c * to.row + (line - begin) * wide, to.part);
      }
      line += n;
    }
  }
  // Which columns of an image lie in a row of the windows that begins `first` columns after them.
  struct Columns {
    Columns(int64_t first, int64_t width, int64_t row)
        : from(max64(0, first)), to(max64(0, -first)), n(max64(0, min64(width - from, row - to))) {}
    int64_t from, to, n;
  };
  // Zeros after them up to whole vectors: the next row is written later.
  static void copy_row(const float* from, int64_t n, float* to) {
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) hn::StoreU(hn::LoadU(d, from + i), d, to + i);
    if (i < n) hn::StoreU(hn::MaskedLoad(hn::FirstN(d, static_cast<size_t>(n - i)), d, from + i), d, to + i);
  }
  static void transform_lines(const float* from, int64_t size, int64_t row, int64_t tiles, float* to, int64_t part) {
    for (int64_t t = 0; t < tiles; t += kLanes) {
      V v[4][4];
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) {
        const float* const at = from + i % 2 * 2 * size + i / 2 * row + 2 * t;
        hn::LoadInterleaved2(d, at, v[i][0], v[i][1]);
        hn::LoadInterleaved2(d, at + size, v[i][2], v[i][3]);
      }
      transform_input(v, to + t, part);
    }
  }

  // Channels last: vectors of channels. to: tiles by channels for each of the 16 numbers.
  void transform_places(int64_t begin, int64_t end, int64_t depth, int64_t channel0, int64_t count,
                        const Transformed& to) const {
    const int64_t height = in.size[1], width = in.size[2];
    ScratchArray<float> zeros(count);
    std::memset(zeros.get(), 0, count * sizeof(float));
    float* out = to.at;
    for (int64_t line = begin; line < end; ++line) {
      const Line l = line_at(line);
      const int64_t z = l.e * depth_step + depth;
      for (int64_t t = 0; t < wide; ++t, out += to.row) {
        const float* at[4][4];
        for (int i = 0; i < 16; ++i) {
          const int64_t h = first[0] + l.h * 2 + i / 4, w = first[1] + 2 * t + i % 4;
          const bool inside = z >= 0 && z < in.size[0] && h >= 0 && h < height && w >= 0 && w < width;
          at[i / 4][i % 4] = inside ? x.floats() + l.image * x_image + z * in.step(0) + (h * width + w) * in.unit +
                                          first_channel + channel0
                                    : zeros.get();
        }
        for (int64_t c = 0;;) {
          V v[4][4];
#pragma GCC unroll 16
          for (int i = 0; i < 16; ++i) v[i / 4][i % 4] = hn::LoadU(d, at[i / 4][i % 4] + c);
          transform_input(v, out + c, to.part);
          if (c + kLanes >= count) break;
          c = min64(c + kLanes, count - kLanes);  // the last vector may repeat some
        }
      }
    }
  }
};

class ForwardPlan {
 public:
  explicit ForwardPlan(const DirectConv<float>& c)
      : c_(c),
        depths_(c.taps / 9),
        channels_(depths_ * c.in_channels),
        windows_(c, first_tap(c, 1) - c.border.low[1], first_tap(c, 2) - c.border.low[2], shares_depths()),
        chunks_(ceil_div(channels_, kChunkChannels)),
        chunk_(ceil_div(channels_, chunks_)),
        blocks_(ceil_div(c.out_channels, kWidth)),
        groups_(ceil_div(blocks_, kGroupChannels / kWidth)),
        group_(ceil_div(blocks_, groups_)),
        tap_w_(c.taps) {
    for (int64_t t = 0; t < c.taps; ++t)
      tap_w_[t / 9 * 9 + (c.tap[t][1] - first_tap(c, 1)) * 3 + c.tap[t][2] - first_tap(c, 2)] = c.tap_w[t];
  }

  // Whether all results are finite; else the transforms may have met infinities that the sums do not.
  bool run() const {
    // Transformed once for several bands, unless they are too many to keep.
    const int64_t stored =
        windows_.bands > 1 && chunks_ * blocks_ * weights_size() <= kMostStored ? chunks_ * blocks_ : 0;
    ScratchArray<float> weights(stored * weights_size());
    parallel_for(stored, 1, [&](int64_t begin, int64_t end) HWY_ATTR {
      for (int64_t i = begin; i < end; ++i)
        transform_weights(i % blocks_, i / blocks_, weights.get() + i * weights_size());
    });
    std::atomic<bool> finite{true};
    const int64_t deep = windows_.parts == 0 ? 1 : windows_.deep, runs = ceil_div(deep, kMostDepths),
                  columns = windows_.bands / deep;
    parallel_for(columns * runs * groups_, 1, [&](int64_t begin, int64_t end) HWY_ATTR {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t run = i / groups_ % runs, first = i / groups_ / runs * deep;
        if (!run_bands(first + run * deep / runs, first + (run + 1) * deep / runs, i % groups_,
                       stored ? weights.get() : nullptr))
          finite = false;
      }
    });
    return finite;
  }

 private:
  static constexpr int64_t kMostDepths = 16;       // of a run of bands that share transforms
  static constexpr int64_t kMostShared = 1 << 17;  // elements of these transforms, which stay in L2

  // Whether the transforms of the depths that a band takes are kept, so that the next band, one place deeper, makes
  // those that it lacks: these depths follow each other.
  bool shares_depths() const {
    const int64_t tiles = (c_.size[1] + 1) / 2 * ((c_.size[2] + 1) / 2);
    if (depths_ == 1 || c_.in.channels_last || 2 * tiles < kBandTiles ||
        16 * channels_ * min64(tiles, kBandTiles) > kMostShared)
      return false;
    const int64_t first = first_tap(c_, 0);
    int64_t seen = 0;
    for (int64_t t = 0; t < depths_; ++t)
      seen |= c_.tap[9 * t][0] - first < depths_ ? int64_t{1} << (c_.tap[9 * t][0] - first) : 0;
    return depths_ < 32 && seen == (int64_t{1} << depths_) - 1;
  }
  // Where the taps of a depth read, relative to a position's first place.
  int64_t depth_of(int64_t depth) const { return c_.tap[9 * depth][0] - c_.border.low[0]; }
  static int64_t first_tap(const DirectConv<float>& c, int i) {
    int64_t first = c.tap[0][i];
    for (int64_t t = 1; t < c.taps; ++t) first = min64(first, c.tap[t][i]);
    return first;
  }
  int64_t channels_of(int64_t chunk) const { return min64(chunk_, channels_ - chunk * chunk_); }
  // Calls fn(taps' depth, first channel, channels, their place in the chunk) for the channels of a chunk. The channels
  // of all depths are summed as if they were more channels.
  template <class F>
  void for_depths(int64_t chunk, F&& fn) const {
    const int64_t begin = chunk * chunk_, end = begin + channels_of(chunk);
    for (int64_t i = begin; i < end;) {
      const int64_t depth = i / c_.in_channels, channel = i % c_.in_channels,
                    n = min64(c_.in_channels - channel, end - i);
      fn(depth, channel, n, i - begin);
      i += n;
    }
  }
  int64_t width_of(int64_t block) const { return c_.out_channels - block * kWidth > kLanes ? kWidth : kLanes; }
  int64_t weights_part() const { return chunk_ * kWidth + kApart; }
  int64_t weights_size() const { return 16 * weights_part(); }

  // to: for each of the 16 numbers, the channels of a chunk by the vectors of a block.
  void transform_weights(int64_t block, int64_t chunk, float* to) const {
    for_depths(chunk, [&](int64_t depth, int64_t channel, int64_t n, int64_t at) HWY_ATTR {
      transform_weights(block, &tap_w_[9 * depth], channel, n, to + at * width_of(block));
    });
  }
  void transform_weights(int64_t block, const int64_t* tap_w, int64_t channel0, int64_t count, float* to) const {
    const int64_t width = width_of(block), first = block * kWidth;
    ScratchArray<float> packed(9 * count * width);
    int64_t tap[3][3], channel;  // where they lie there
    pack_weights(first, width, tap_w, channel0, count, packed.get(), tap, channel);
    const V half = hn::Set(d, 0.5f);
    for (int64_t c = 0; c < count; ++c)
      for (int64_t lane = 0; lane < width; lane += kLanes) {
        const float* const from = packed.get() + c * channel + lane;
        V w[4][4];
#pragma GCC unroll 3
        for (int j = 0; j < 3; ++j) {
          const V a = hn::LoadU(d, from + tap[0][j]), b = hn::LoadU(d, from + tap[1][j]),
                  e = hn::LoadU(d, from + tap[2][j]), sum = hn::Add(a, e);
          w[0][j] = a;
          w[1][j] = hn::Mul(half, hn::Add(sum, b));
          w[2][j] = hn::Mul(half, hn::Sub(sum, b));
          w[3][j] = e;
        }
        float* const out = to + c * width + lane;
#pragma GCC unroll 4
        for (int i = 0; i < 4; ++i) {
          const V sum = hn::Add(w[i][0], w[i][2]);
          hn::StoreU(w[i][0], d, out + (4 * i) * weights_part());
          hn::StoreU(hn::Mul(half, hn::Add(sum, w[i][1])), d, out + (4 * i + 1) * weights_part());
          hn::StoreU(hn::Mul(half, hn::Sub(sum, w[i][1])), d, out + (4 * i + 2) * weights_part());
          hn::StoreU(w[i][2], d, out + (4 * i + 3) * weights_part());
        }
      }
  }

  // The weights of `count` channels as vectors of output channels.
  void pack_weights(int64_t first, int64_t width, const int64_t* tap_w, int64_t channel0, int64_t count, float* to,
                    int64_t (&tap)[3][3], int64_t& channel) const {
    const bool together = c_.w_out != 1 && c_.w_channel != 1;  // the taps of a channel
    channel = together ? 9 * width : width;
    int64_t first_w = tap_w[0];
    for (int i = 1; i < 9; ++i) first_w = min64(first_w, tap_w[i]);
    for (int i = 0; i < 9; ++i) tap[i / 3][i % 3] = together ? (tap_w[i] - first_w) * width : i * count * width;
    for (int64_t lane = 0; lane < width; lane += kLanes) {
      const int64_t o = first + lane, rows = min64(kLanes, c_.out_channels - o);
      const Numbers from = c_.w + (o * c_.w_out + channel0 * c_.w_channel);
      if (together) {
        const int64_t runs = c_.w_channel == 9 ? 1 : count, n = 9 * count / runs;
        for (int64_t i = 0; i < runs; ++i) {
          const Numbers at = from + (i * c_.w_channel + first_w);
          float* const out = to + i * n * width + lane;
          if (n == 9 && rows == kLanes && (at.is_float() || c_.w_out == 9)) {
            HWY_ALIGN float wide[9 * kLanes];
            if (!at.is_float()) at.read(9 * kLanes, wide);
            const float* const nines = at.is_float() ? at.floats() : wide;
            for (int64_t t : {0, 4, 5}) transpose_columns(nines + t, c_.w_out, out + t * width, width);
          } else {
            pack_lanes(at, c_.w_out, rows, n, width, out);
          }
        }
        continue;
      }
      for (int i = 0; i < 9; ++i) {
        const Numbers at = from + tap_w[i];
        float* const out = to + tap[i / 3][i % 3] + lane;
        if (c_.w_out != 1)
          pack_lanes(at, c_.w_out, rows, count, width, out);
        else
          for (int64_t c = 0; c < count; ++c) copy_lanes(at + c * c_.w_channel, rows, out + c * width);
      }
    }
  }

  // The transforms that the products of a band take: those of a chunk, or, where bands share them, those of all
  // channels, depth by depth.
  class Input {
   public:
    explicit Input(const ForwardPlan& plan)
        : plan_(plan),
          windows_(plan.windows_),
          depth_(windows_.parts == 0 ? 0 : plan.c_.in_channels),
          channels_(depth_ ? plan.channels_ : plan.chunk_),
          step_(plan.c_.in.channels_last ? 1 : windows_.place(channels_).row),
          transformed_(windows_.size(channels_)),
          offsets_(channels_),
          held_(static_cast<size_t>(plan.depths_), INT64_MIN) {
      for (int64_t c = 0; c < channels_; ++c) offsets_[c] = c * step_;
    }
    void transform(const Windows::Lines& lines, int64_t chunk) {
      if (depth_) {
        if (chunk == 0) add_depths(lines);
        return;
      }
      plan_.for_depths(chunk, [&](int64_t depth, int64_t channel, int64_t n, int64_t at)
                                  HWY_ATTR { windows_.transform(lines, plan_.depth_of(depth), channel, n, from(at)); });
    }
    Windows::Transformed from(int64_t channel) const {
      const Windows::Transformed all = windows_.place(channels_, transformed_.get());
      return {all.at + channel * step_, all.row, all.part};
    }
    const int64_t* offsets(int64_t chunk) const { return offsets_.get() + (depth_ ? chunk * plan_.chunk_ : 0); }

   private:
    // A depth of the input has the same place whichever tap takes it.
    void add_depths(const Windows::Lines& lines) {
      const int64_t e = windows_.line_at(lines.begin).e * windows_.depth_step;
      for (int64_t t = 0; t < plan_.depths_; ++t) {
        const int64_t z = e + plan_.depth_of(t), place = (z % plan_.depths_ + plan_.depths_) % plan_.depths_;
        for (int64_t c = 0; c < depth_; ++c) offsets_[t * depth_ + c] = (place * depth_ + c) * step_;
        if (held_[place] == z) continue;
        held_[place] = z;
        windows_.transform(lines, plan_.depth_of(t), 0, depth_, from(place * depth_));
      }
    }

    const ForwardPlan& plan_;
    const Windows& windows_;
    const int64_t depth_, channels_, step_;  // channels of a depth, or 0: bands share nothing
    ScratchArray<float> transformed_;
    ScratchArray<int64_t> offsets_;
    std::vector<int64_t> held_;
  };

  // Bands [first, last) for a group of output channels, where neighbours share transforms from the same place of an
  // image.
  bool run_bands(int64_t first, int64_t last, int64_t group, const float* weights) const {
    const int64_t block0 = group * group_, blocks = min64(group_, blocks_ - block0),
                  part = windows_.band * windows_.wide * kWidth + kApart;
    const int64_t kept = chunks_ > 1 ? 16 * part : 0;  // from the products of a block to those of the next
    Input input(*this);
    ScratchArray<float> products((blocks - 1) * kept + 16 * part), own(weights ? 0 : weights_size()), zeros(kWidth);
    std::memset(zeros.get(), 0, kWidth * sizeof(float));
    const Windows::Transformed transformed = input.from(0);
    bool finite = true;
    TileArgs args;
    args.step = c_.in.channels_last ? transformed.row : 1;
    for (int64_t band = first; band < last; ++band) {
      const Windows::Lines lines = windows_.band_at(band);
      for (int64_t chunk = 0; chunk < chunks_; ++chunk) {
        input.transform(lines, chunk);
        args.k = channels_of(chunk);
        args.offsets = input.offsets(chunk);
        args.start = chunk == 0 ? zeros.get() : nullptr;
        for (int64_t b = 0; b < blocks; ++b) {
          const float* w = own.get();
          if (weights)
            w = weights + (chunk * blocks_ + block0 + b) * weights_size();
          else
            transform_weights(block0 + b, chunk, own.get());
          args.c_row = width_of(block0 + b);
          const TileCut cut = cut_positions((lines.end - lines.begin) * windows_.wide, args.c_row / kLanes, args.step);
          for (int64_t i = 0; i < 16; ++i) {
            args.x = transformed.at + i * transformed.part;
            args.w = w + i * weights_part();
            args.c = products.get() + b * kept + i * part;
            run_tiles(cut, args);
          }
          if (chunk == chunks_ - 1) finite &= transform_back(lines, block0 + b, products.get() + b * kept, part);
        }
      }
    }
    return finite;
  }

  // The results of a block of channels; whether all are finite.
  bool transform_back(const Windows::Lines& lines, int64_t block, const float* products, int64_t part) const {
    const int64_t width = width_of(block), first = block * kWidth, channels = min64(width, c_.out_channels - first),
                  n = c_.size[2];
    const bool in_place = c_.y_channel == 1 && channels == width && c_.y.is_float();
    ScratchArray<float> sums(in_place ? 0 : 2 * (n + 1) * width), bias(width);
    for (int64_t i = 0; i < width; ++i) bias[i] = c_.bias && i < channels ? c_.bias.get(first + i) : 0.0f;
    V check = hn::Zero(d);
    for (int64_t line = lines.begin; line < lines.end; ++line) {
      const Windows::Line l = windows_.line_at(line);
      const int64_t rows = min64(2, c_.size[1] - 2 * l.h);
      const Numbers y =
          c_.y + (l.image * c_.y_image + l.e * c_.y_step[0] + 2 * l.h * c_.y_step[1] + first * c_.y_channel);
      float* const to = in_place ? y.floats() : sums.get();
      const int64_t step = in_place ? c_.y_step[2] : width;
      if (!in_place && c_.y_step[2] == 1)  // brings in the places of the results
        for (int64_t o = 0; o < channels; ++o)
          for (int64_t i = 0; i < rows * n; i += 16) __builtin_prefetch((y + (o * c_.y_channel + i)).address(), 1);
      for (int64_t t = 0; t < windows_.wide; ++t, products += width)
        for (int64_t lane = 0; lane < width; lane += kLanes) {
          V s[2][4];
#pragma GCC unroll 4
          for (int j = 0; j < 4; ++j) {
            const float* const from = products + lane + j * part;
            const V m0 = hn::LoadU(d, from), m1 = hn::LoadU(d, from + 4 * part), m2 = hn::LoadU(d, from + 8 * part),
                    m3 = hn::LoadU(d, from + 12 * part);
            s[0][j] = hn::Add(hn::Add(m0, m1), m2);
            s[1][j] = hn::Sub(hn::Sub(m1, m2), m3);
          }
          const V start = hn::LoadU(d, bias.get() + lane);
          float* const at = to + 2 * t * step + lane;
#pragma GCC unroll 2
          for (int r = 0; r < 2; ++r) {
            const V y0 = hn::Add(hn::Add(hn::Add(s[r][0], s[r][1]), s[r][2]), start),
                    y1 = hn::Add(hn::Sub(hn::Sub(s[r][1], s[r][2]), s[r][3]), start);
            check = hn::MulAdd(hn::Add(y0, y1), hn::Zero(d), check);
            if (r == rows) break;
            hn::StoreU(y0, d, at + r * n * step);
            if (2 * t + 1 < n) hn::StoreU(y1, d, at + (r * n + 1) * step);
          }
        }
      if (!in_place) store_lanes(sums.get(), width, rows * n, channels, y, c_.y_channel, c_.y_step[2]);
    }
    return hn::AllTrue(d, hn::Eq(check, check));
  }

  const DirectConv<float>& c_;
  const int64_t depths_, channels_;
  const Windows windows_;
  const int64_t chunks_, chunk_, blocks_, groups_, group_;
  std::vector<int64_t> tap_w_;  // the weights of the taps, depth by depth
};

// The gradient of the weights is G^T ((A dy A^T) * (B^T x B)) G, the products summed over the tiles of all images.
class WeightPlan {
 public:
  explicit WeightPlan(const DirectWeight& c)
      : c_(c),
        windows_(c, -c.border.low[1], -c.border.low[2]),
        chunks_(ceil_div(c.in_channels, kChunkChannels)),
        chunk_(ceil_div(c.in_channels, chunks_)),
        blocks_(ceil_div(c.out_channels, kWidth)),
        groups_(ceil_div(blocks_, kGroupChannels / kWidth)),
        group_(ceil_div(blocks_, groups_)),
        pieces_(min64(windows_.bands, ceil_div(kLeastTasks, chunks_ * groups_))) {}

  bool run() const {
    std::atomic<bool> finite{true};
    // Pieces of the images have sums of their own, added in order at the end.
    const int64_t piece_size = chunks_ * blocks_ * sums_size();
    ScratchArray<float> sums(pieces_ > 1 ? pieces_ * piece_size : 0);
    parallel_for(pieces_ * chunks_ * groups_, 1, [&](int64_t begin, int64_t end) HWY_ATTR {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t chunk = i / groups_ % chunks_, block = i % groups_ * group_,
                      blocks = min64(group_, blocks_ - block);
        ScratchArray<float> own(pieces_ > 1 ? 0 : blocks * sums_size());
        float* const to =
            pieces_ > 1 ? sums.get() + i / groups_ / chunks_ * piece_size + (chunk * blocks_ + block) * sums_size()
                        : own.get();
        run_piece(i / groups_ / chunks_, chunk, block, blocks, to);
        for (int64_t b = 0; pieces_ == 1 && b < blocks; ++b)
          if (!transform_back(block + b, chunk, to + b * sums_size(), 0)) finite = false;
      }
    });
    if (pieces_ > 1)
      parallel_for(chunks_ * blocks_, 1, [&](int64_t begin, int64_t end) HWY_ATTR {
        for (int64_t i = begin; i < end; ++i)
          if (!transform_back(i % blocks_, i / blocks_, sums.get() + i * sums_size(), piece_size)) finite = false;
      });
    return finite;
  }

 private:
  static constexpr int64_t kLeastTasks = 8;

  int64_t channels_of(int64_t chunk) const { return min64(chunk_, c_.in_channels - chunk * chunk_); }
  int64_t width_of(int64_t block) const { return c_.out_channels - block * kWidth > kLanes ? kWidth : kLanes; }
  int64_t sums_part() const { return chunk_ * kWidth + kApart; }
  int64_t sums_size() const { return 16 * sums_part(); }

  // The sums of a run of bands.
  void run_piece(int64_t piece, int64_t chunk, int64_t block0, int64_t blocks, float* to) const {
    const int64_t first = piece * windows_.bands / pieces_, last = (piece + 1) * windows_.bands / pieces_;
    const int64_t windows = windows_.band * windows_.wide, part = windows * kWidth + kApart, count = channels_of(chunk);
    ScratchArray<float> transformed(windows_.size(chunk_)), gradients(16 * part), zeros(kWidth);
    ScratchArray<int64_t> offsets(windows);
    std::memset(zeros.get(), 0, kWidth * sizeof(float));
    const Windows::Transformed input = windows_.place(chunk_, transformed.get());
    for (int64_t t = 0; t < windows; ++t) offsets[t] = c_.in.channels_last ? t * input.row : t;
    TileArgs args;
    args.offsets = offsets.get();
    args.step = c_.in.channels_last ? 1 : input.row;
    for (int64_t band = first; band < last; ++band) {
      const Windows::Lines lines = windows_.band_at(band);
      windows_.transform(lines, 0, chunk * chunk_, count, input);
      args.k = (lines.end - lines.begin) * windows_.wide;
      args.start = band == first ? zeros.get() : nullptr;
      for (int64_t b = block0; b < block0 + blocks; ++b) {
        transform_gradients(lines, b, gradients.get(), part);
        args.c_row = width_of(b);
        const TileCut cut = cut_positions(count, args.c_row / kLanes, args.step);
        for (int64_t i = 0; i < 16; ++i) {
          args.x = input.at + i * input.part;
          args.w = gradients.get() + i * part;
          args.c = to + (b - block0) * sums_size() + i * sums_part();
          run_tiles(cut, args);
        }
      }
    }
  }

  // to: for each of the 16 numbers, the tiles by the vectors of a block.
  void transform_gradients(const Windows::Lines& lines, int64_t block, float* to, int64_t part) const {
    const int64_t width = width_of(block), first = block * kWidth, channels = min64(width, c_.out_channels - first),
                  n = c_.size[2];
    const bool in_place = c_.dy_channel == 1 && channels == width && c_.dy.is_float();
    ScratchArray<float> packed(in_place ? 0 : 2 * n * width);
    for (int64_t line = lines.begin; line < lines.end; ++line) {
      const int64_t h = line % windows_.high * 2, rows = min64(2, c_.size[1] - h);
      const Numbers dy = c_.dy + (line / windows_.high * c_.dy_image + h * n * c_.dy_step[2] + first * c_.dy_channel);
      const float* from = dy.floats();
      int64_t step = c_.dy_step[2];
      if (!in_place) {
        pack_gradients(dy, channels, width, rows * n, packed.get());
        from = packed.get();
        step = width;
      }
      for (int64_t t = 0; t < windows_.wide; ++t, to += width)
        for (int64_t lane = 0; lane < width; lane += kLanes) {
          const float* const at = from + 2 * t * step + lane;
          V y[4][4];
          const bool two = 2 * t + 1 < n;
          y[0][0] = hn::LoadU(d, at);
          y[0][3] = two ? hn::LoadU(d, at + step) : hn::Zero(d);
          y[3][0] = rows == 2 ? hn::LoadU(d, at + n * step) : hn::Zero(d);
          y[3][3] = rows == 2 && two ? hn::LoadU(d, at + (n + 1) * step) : hn::Zero(d);
#pragma GCC unroll 2
          for (int j = 0; j < 4; j += 3) spread(y[0][j], y[1][j], y[2][j], y[3][j]);
#pragma GCC unroll 4
          for (int i = 0; i < 4; ++i) {
            spread(y[i][0], y[i][1], y[i][2], y[i][3]);
#pragma GCC unroll 4
            for (int j = 0; j < 4; ++j) hn::StoreU(y[i][j], d, to + (4 * i + j) * part + lane);
          }
        }
    }
  }
  // (a, b, c, d) = A (a, d)
  static HWY_INLINE void spread(V& a, V& b, V& c, V& d4) {
    b = hn::Add(a, d4);
    c = hn::Sub(a, d4);
    d4 = hn::Neg(d4);
  }
  void pack_gradients(Numbers from, int64_t channels, int64_t width, int64_t n, float* to) const {
    for (int64_t lane = 0; lane < width; lane += kLanes) {
      const int64_t rows = min64(kLanes, channels - lane);
      if (c_.dy_channel != 1) {
        pack_lanes(from + lane * c_.dy_channel, c_.dy_channel, rows, n, width, to + lane);
        continue;
      }
      for (int64_t q = 0; q < n; ++q) copy_lanes(from + (q * c_.dy_step[2] + lane), rows, to + q * width + lane);
    }
  }

  // The gradient for a block and a chunk of channels, from the sums of all pieces, piece_size apart; whether all of it
  // is finite.
  bool transform_back(int64_t block, int64_t chunk, const float* sums, int64_t piece_size) const {
    const int64_t width = width_of(block), first = block * kWidth, channels = min64(width, c_.out_channels - first),
                  count = channels_of(chunk), channel0 = chunk * chunk_;
    const bool last = c_.in.channels_last;
    const int64_t tap = last ? count * width : width,
                  channel = last ? width : 9 * width;  // where they lie before they are stored
    ScratchArray<float> to(9 * count * width);
    V check = hn::Zero(d);
    const V half = hn::Set(d, 0.5f);
    for (int64_t c = 0; c < count; ++c)
      for (int64_t lane = 0; lane < width; lane += kLanes) {
        V s[4][4];
#pragma GCC unroll 16
        for (int i = 0; i < 16; ++i) {
          const float* const from = sums + i * sums_part() + c * width + lane;
          V sum = hn::LoadU(d, from);
          for (int64_t piece = 1; piece < pieces_; ++piece) sum = hn::Add(sum, hn::LoadU(d, from + piece * piece_size));
          s[i / 4][i % 4] = sum;
        }
#pragma GCC unroll 4
        for (int j = 0; j < 4; ++j) gather(half, s[0][j], s[1][j], s[2][j], s[3][j]);
#pragma GCC unroll 3
        for (int i = 0; i < 3; ++i) {
          gather(half, s[i][0], s[i][1], s[i][2], s[i][3]);
#pragma GCC unroll 3
          for (int j = 0; j < 3; ++j) {
            check = hn::MulAdd(s[i][j], hn::Zero(d), check);
            hn::StoreU(s[i][j], d, to.get() + c * channel + (3 * i + j) * tap + lane);
          }
        }
      }
    const int64_t k = 9 * c_.in_channels;
    for (int64_t t = 0; t < (last ? 9 : 1); ++t)
      store_lanes(to.get() + t * tap, width, last ? count : 9 * count, channels,
                  c_.dw + (first * k + (last ? t * c_.in_channels + channel0 : 9 * channel0)), k, 1);
    return hn::AllTrue(d, hn::Eq(check, check));
  }
  // (a, b, c) = G^T (a, b, c, d)
  static HWY_INLINE void gather(V half, V& a, V& b, V& c, V d4) {
    const V sum = hn::Mul(half, hn::Add(b, c)), difference = hn::Mul(half, hn::Sub(b, c));
    a = hn::Add(a, sum);
    b = difference;
    c = hn::Add(sum, d4);
  }

  const DirectWeight& c_;
  const Windows windows_;
  const int64_t chunks_, chunk_, blocks_, groups_, group_, pieces_;
};

}  // namespace

bool WinogradConvolution(const DirectConv<float>& c) { return ForwardPlan(c).run(); }
bool WinogradWeights(const DirectWeight& c) { return WeightPlan(c).run(); }
#endif

}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu::internal
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::cpu::internal {

TESSERA_SIMD_TABLE(WinogradConvolution);
TESSERA_SIMD_TABLE(WinogradWeights);

namespace {
// Images whose channels come last are read at places that overlap: they are widened once.
template <class Problem>
bool run_wide(bool (*run)(const Problem&), const Problem& c) {
  if (!c.in.channels_last || c.x.is_float()) return run(c);
  const int64_t n = c.x_image;
  ScratchArray<float> wide(c.images * n);
  parallel_for(c.images, max64(1, 16384 / n),
               [&](int64_t begin, int64_t end) { (c.x + begin * n).read((end - begin) * n, wide.get() + begin * n); });
  Problem of_floats = c;
  of_floats.x = wide.get();
  return run(of_floats);
}
}  // namespace

bool winograd_conv(const DirectConv<float>& c) { return run_wide(TESSERA_SIMD(WinogradConvolution), c); }
bool winograd_weight(const DirectWeight& c) { return run_wide(TESSERA_SIMD(WinogradWeights), c); }

}  // namespace tessera::cpu::internal
#endif
