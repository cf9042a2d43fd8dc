// The gradient of a convolution's weights: a tile of it, a few taps or channels by vectors of output channels, stays in
// registers while the positions pass, whose gradients are vectors of channels and whose input elements are read where
// they lie.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "nn/cpu/conv/conv_direct_weight.cc"
#include <cstring>
#include <utility>
#include <vector>

#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "tensor/core/parallel.h"
#include "nn/cpu/conv/conv_direct.h"
#include "nn/cpu/conv/choose.h"
#include "nn/cpu/conv/conv_images.h"
#include "tensor/cpu/support/integer.h"
#include "tensor/cpu/support/types.h"
#include "tensor/cpu/support/scratch.h"
#include "tensor/cpu/support/simd.h"
#include "nn/cpu/conv/transpose_simd-inl.h"  // last: it uses the headers above

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::internal {
namespace HWY_NAMESPACE {
namespace {

constexpr int64_t kChunkPositions = 192;          // their gradients, for the channels of a tile, stay in L1
constexpr int64_t kTasks = 16, kRangeTiles = 48;  // a task's sums stay in L2
#if HWY_TARGET <= HWY_AVX3
constexpr int64_t kVectors = 2;  // of a tile
#else
constexpr int64_t kVectors = 1;
#endif
constexpr int64_t kMostRows = 14;

struct WeightArgs {
  int64_t lines, n, step, dy_row;
  const int64_t *x_lines, *dy_lines;  // where each line begins
  const float *x, *dy;
  const int64_t* offsets;  // of the streams in x
  float* sums;             // rows of the tile's vectors, width apart
  int64_t width;
};

// kStreams runs of kRun elements that follow each other in x, by kWide vectors.
template <int kStreams, int kRun, int kWide>
HWY_NOINLINE void WeightTile(const WeightArgs& g) {
  V acc[kStreams * kRun][kWide];
#pragma GCC unroll 16
  for (int r = 0; r < kStreams * kRun; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < kWide; ++v) acc[r][v] = hn::Zero(d);
  for (int64_t line = 0; line < g.lines; ++line) {
    const float* HWY_RESTRICT dy = g.dy + g.dy_lines[line];
    const float* x[kStreams];
#pragma GCC unroll 8
    for (int s = 0; s < kStreams; ++s) x[s] = g.x + g.x_lines[line] + g.offsets[s];
    const int64_t end = g.n * g.step, step = g.step;
    for (int64_t i = 0; i < end; i += step, dy += g.dy_row) {
      V e[kWide];
#pragma GCC unroll 2
      for (int v = 0; v < kWide; ++v) e[v] = hn::LoadU(d, dy + v * kLanes);
#pragma GCC unroll 8
      for (int s = 0; s < kStreams; ++s)
#pragma GCC unroll 16
        for (int r = 0; r < kRun; ++r) {
          const V b = hn::Set(d, x[s][i + r]);
#pragma GCC unroll 2
          for (int v = 0; v < kWide; ++v) acc[s * kRun + r][v] = hn::MulAdd(b, e[v], acc[s * kRun + r][v]);
        }
    }
  }
  float* to = g.sums;
#pragma GCC unroll 16
  for (int r = 0; r < kStreams * kRun; ++r, to += g.width)
#pragma GCC unroll 2
    for (int v = 0; v < kWide; ++v) hn::StoreU(hn::Add(hn::LoadU(d, to + v * kLanes), acc[r][v]), d, to + v * kLanes);
}

using WeightFn = void (*)(const WeightArgs&);
template <int kRun, int kWide, size_t... kStreams>
WeightFn streams_of(int64_t streams, std::index_sequence<kStreams...>) {
  static constexpr WeightFn kTiles[] = {WeightTile<kStreams + 1, kRun, kWide>...};
  return kTiles[streams - 1];
}
template <int kWide, size_t... kRun>
WeightFn runs_of(int64_t run, std::index_sequence<kRun...>) {
  static constexpr WeightFn kTiles[] = {WeightTile<1, kRun + 1, kWide>...};
  return kTiles[run - 1];
}
constexpr int64_t most_streams(int64_t run) { return run == 1 ? 8 : run == 3 ? 4 : run == 5 || run == 7 ? 2 : 1; }
template <int kWide>
WeightFn tile_for(int64_t streams, int64_t run) {
  if (streams == 1) return runs_of<kWide>(run, std::make_index_sequence<kMostRows>());
  if (run == 1) return streams_of<1, kWide>(streams, std::make_index_sequence<8>());
  if (run == 3) return streams_of<3, kWide>(streams, std::make_index_sequence<4>());
  return run == 5 ? streams_of<5, kWide>(streams, std::make_index_sequence<2>())
                  : streams_of<7, kWide>(streams, std::make_index_sequence<2>());
}
WeightFn tile_for(int64_t streams, int64_t run, int64_t wide) {
#if HWY_TARGET <= HWY_AVX3
  if (wide == 2) return tile_for<2>(streams, run);
#endif
  return tile_for<1>(streams, run);
}

class Plan {
 public:
  explicit Plan(const DirectWeight& c)
      : c_(c),
        taps_(volume(c.kernel)),
        k_(c.in_channels * taps_),
        positions_(volume(c.size)),
        lanes_(ceil_div(c.out_channels, kLanes) * kLanes),
        images_(Images::near(c)),
        input_(c, images_),
        dy_in_place_(c.dy_channel == 1 && c.out_channels % kLanes == 0 && c.dy.is_float()),
        dy_row_(dy_in_place_ ? c.dy_step[2] : lanes_),
        chunk_lines_(max64(1, kChunkPositions / c.size[2])),
        dy_copy_(dy_in_place_ ? 0 : images_ * positions_ * lanes_),
        sums_(one_pass() ? 0 : lanes_ * k_) {
    cut_rows();
  }

  // All images at once: each tile's sums are complete when it ends.
  bool one_pass() const { return images_ >= c_.images; }

  void run() {
    if (one_pass()) return run_images(0, c_.images);
    std::memset(sums_.get(), 0, lanes_ * k_ * sizeof(float));
    for (int64_t n = 0; n < c_.images; n += images_) run_images(n, min64(images_, c_.images - n));
    const int64_t blocks = ceil_div(lanes_, kVectors * kLanes),
                  part = ceil_div(max64(64, 16384 / (kVectors * kLanes)), kLanes) * kLanes, parts = ceil_div(k_, part);
    parallel_for(blocks * parts, 1, [&](int64_t begin, int64_t end) HWY_ATTR {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t o = i / parts * kVectors * kLanes, width = min64(kVectors * kLanes, lanes_ - o),
                      k = i % parts * part;
        store_lanes(sums_.get() + o * k_ + k * width, width, min64(part, k_ - k), min64(width, c_.out_channels - o),
                    c_.dw + (o * k_ + k), k_, 1);
      }
    });
  }

 private:
  struct RowTile {
    int64_t row, streams, run;
    const int64_t* offsets;
  };

  // The rows of the gradient, channels by taps or taps by channels as they lie in memory, in tiles.
  void cut_rows() {
    std::vector<int64_t> streams;  // where the runs of rows begin in x
    int64_t run = 1;
    if (c_.in.channels_last) {
      offsets_.reserve(taps_ * c_.in_channels);
      for (int64_t t = 0; t < taps_; ++t) {
        const int64_t count = ceil_div(c_.in_channels, kMostRows);
        for (int64_t i = 0; i < count; ++i) {
          const int64_t first = i * c_.in_channels / count;
          offsets_.push_back(tap_offset(t) + first);
          tiles_.push_back({t * c_.in_channels + first, 1, (i + 1) * c_.in_channels / count - first, &offsets_.back()});
        }
      }
      return;
    }
    const int64_t width = c_.kernel[2];
    if (c_.dilation[2] == 1 && most_streams(width) > 1) run = width;
    const int64_t count = k_ / run, most = most_streams(run);
    offsets_.reserve(count);
    for (int64_t i = 0; i < count; ++i)
      offsets_.push_back(i * run / taps_ * input_.padded.channel() + tap_offset(i * run % taps_));
    for (int64_t i = 0; i < count; i += most) tiles_.push_back({i * run, min64(most, count - i), run, &offsets_[i]});
  }
  int64_t tap_offset(int64_t t) const {
    const int64_t w = t % c_.kernel[2], h = t / c_.kernel[2] % c_.kernel[1], e = t / c_.kernel[2] / c_.kernel[1];
    return e * c_.dilation[0] * input_.padded.step(0) + h * c_.dilation[1] * input_.padded.step(1) +
           w * c_.dilation[2] * input_.padded.step(2);
  }

  void run_images(int64_t n, int64_t count) {
    const float* const x = input_.take(c_, n, count);
    const Numbers gradients = c_.dy + n * c_.dy_image;
    const float* dy = gradients.floats();
    int64_t dy_image = c_.dy_image;
    if (!dy_in_place_) {
      copy_gradients(gradients, count);
      dy = dy_copy_.get();
      dy_image = positions_ * lanes_;
    }
    // Where each line of positions begins.
    const int64_t lines = count * c_.size[0] * c_.size[1];
    ScratchArray<int64_t> x_lines(lines), dy_lines(lines);
    for (int64_t i = 0; i < lines; ++i) {
      const int64_t h = i % c_.size[1], e = i / c_.size[1] % c_.size[0], image = i / c_.size[1] / c_.size[0];
      x_lines[i] =
          image * input_.image + e * c_.step[0] * input_.padded.step(0) + h * c_.step[1] * input_.padded.step(1);
      dy_lines[i] = image * dy_image + (e * c_.size[1] + h) * c_.size[2] * dy_row_;
    }
    const int64_t blocks = ceil_div(lanes_, kVectors * kLanes), tiles = static_cast<int64_t>(tiles_.size());
    const int64_t range = min64(kRangeTiles, ceil_div(tiles, max64(1, min64(tiles, kTasks / blocks)))),
                  ranges = ceil_div(tiles, range);
    parallel_for(blocks * ranges, 1, [&](int64_t begin, int64_t end) HWY_ATTR {
      WeightArgs args;
      args.n = c_.size[2];
      args.step = c_.step[2] * input_.padded.step(2);
      args.dy_row = dy_row_;
      args.x = x;
      for (int64_t i = begin; i < end; ++i) {
        const int64_t o = i / ranges * kVectors * kLanes, first = i % ranges * range,
                      last = min64(tiles, first + range);
        const int64_t row = tiles_[first].row, rows = (last == tiles ? k_ : tiles_[last].row) - row;
        args.width = min64(kVectors * kLanes, lanes_ - o);
        args.dy = dy + o;
        ScratchArray<float> own(one_pass() ? rows * args.width : 0);
        float* const sums = one_pass() ? own.get() : sums_.get() + o * k_ + row * args.width;
        if (one_pass()) std::memset(sums, 0, rows * args.width * sizeof(float));
        for (int64_t line = 0; line < lines; line += chunk_lines_) {
          args.lines = min64(chunk_lines_, lines - line);
          args.x_lines = x_lines.get() + line;
          args.dy_lines = dy_lines.get() + line;
          run_tiles(args, first, last, sums);
        }
        if (one_pass())
          store_lanes(sums, args.width, rows, min64(args.width, c_.out_channels - o), c_.dw + (o * k_ + row), k_, 1);
      }
    });
  }

  // sums: of the rows from the first tile's on.
  void run_tiles(WeightArgs& args, int64_t begin, int64_t end, float* sums) const {
    for (int64_t t = begin; t < end; ++t) {
      const RowTile& tile = tiles_[t];
      args.offsets = tile.offsets;
      args.sums = sums + (tile.row - tiles_[begin].row) * args.width;
      tile_for(tile.streams, tile.run, args.width / kLanes)(args);
    }
  }

  // The gradients of `count` images, positions by whole vectors of channels.
  void copy_gradients(Numbers dy, int64_t count) const {
    constexpr int64_t kPositions = 16 * kLanes;
    const int64_t parts = ceil_div(positions_, kPositions);
    parallel_for(count * parts, max64(1, 16384 / (kPositions * lanes_)), [&](int64_t begin, int64_t end) HWY_ATTR {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t p = i % parts * kPositions, n = min64(kPositions, positions_ - p);
        const Numbers from = dy + (i / parts * c_.dy_image + p * (c_.dy_channel == 1 ? c_.dy_step[2] : 1));
        float* const to = dy_copy_.get() + (i / parts * positions_ + p) * lanes_;
        for (int64_t o = 0; o < c_.out_channels; o += kLanes) {
          const int64_t rows = min64(kLanes, c_.out_channels - o);
          if (c_.dy_channel == 1) {
            for (int64_t q = 0; q < n; ++q) copy_lanes(from + (q * c_.dy_step[2] + o), rows, to + q * lanes_ + o);
          } else {
            pack_lanes(from + o * c_.dy_channel, c_.dy_channel, rows, n, lanes_, to + o);
          }
        }
      }
    });
  }

  const DirectWeight& c_;
  const int64_t taps_, k_, positions_, lanes_, images_;
  const Images input_;
  const bool dy_in_place_;
  const int64_t dy_row_, chunk_lines_;
  std::vector<int64_t> offsets_;
  std::vector<RowTile> tiles_;
  ScratchArray<float> dy_copy_, sums_;
};

}  // namespace

void DirectWeights(const DirectWeight& c) { Plan(c).run(); }

}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu::internal
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::cpu::internal {

TESSERA_SIMD_TABLE(DirectWeights);
void direct_weight(const DirectWeight& c) {
  const DirectWay way = choose_direct(c, conv_machine(DType::kFloat32));
  if (way == DirectWay::kNarrow) return narrow_weight(c);
  if (way == DirectWay::kWinograd && winograd_weight(c)) return;
  TESSERA_SIMD(DirectWeights)(c);
}

}  // namespace tessera::cpu::internal
#endif
