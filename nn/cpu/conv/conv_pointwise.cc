// Convolutions with windows of one position and few output channels, over images whose channels lie apart: products of
// the weights and the images, which are read where they lie, a strip of positions after the other. A strip stays in L2;
// while its tiles are summed, the next one comes nearer line by line: rows of an image are in pages of their own.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "nn/cpu/conv/conv_pointwise.cc"
#include <cstdlib>
#include <cstring>
#include <utility>

#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "tensor/core/parallel.h"
#include "nn/cpu/conv/conv_direct.h"
#include "tensor/cpu/support/integer.h"
#include "tensor/cpu/support/scratch.h"
#include "tensor/cpu/support/simd.h"
#include "nn/cpu/conv/transpose_simd-inl.h"  // last: it uses the headers above

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::internal {
namespace HWY_NAMESPACE {
#if HWY_TARGET == HWY_SSE4
// The baseline takes the general product.
void PointwiseConvolution(const PointwiseConv&) { std::abort(); }
#else
namespace {

constexpr int64_t kPanel = 2 * kLanes;                                  // positions of a tile
constexpr int64_t kStripPositions = 256;                                // of a strip, at most
constexpr int64_t kStepsAtOnce = 256;                                   // channels that are summed at once
constexpr int64_t kLine = 64;                                           // bytes of a cache line
constexpr int64_t kRunLines = kStripPositions * sizeof(float) / kLine;  // requested of a row of the next strip
constexpr int64_t kRunSteps = 2 * kRunLines;
constexpr int64_t kRowsAhead = 8;  // requested of the strip itself
constexpr int64_t kLeastRows = strip_rows(kLanes).least, kMostRows = strip_rows(kLanes).most;  // of a tile

// A tile: c = bias + w x, or c += w x.
struct Args {
  int64_t k;
  const float* w;  // rows of kLanes, its own first
  const float* x;
  int64_t x_row;
  const float* bias;  // or null
  bool add;
  float* c;
  int64_t c_row;
  const char* next;  // what is requested on the way: runs of kRunLines lines, next_step bytes apart
  int64_t next_step;
};

template <int kRows>
HWY_NOINLINE void Tile(const Args& g) {
  V acc[kRows][2];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) acc[r][0] = acc[r][1] = hn::Zero(d);
  const float* HWY_RESTRICT w = g.w;
  const float* HWY_RESTRICT x = g.x;
  const int64_t x_row = g.x_row, ahead = kRowsAhead * x_row;
  const char* next = g.next;
  for (int64_t rest = g.k; rest > 0; rest -= kRunSteps, next += g.next_step) {
    const char* line = next;
#pragma GCC unroll 2
    for (int64_t p = min64(rest, kRunSteps); p > 0;
         --p, line += kLine * kRunLines / kRunSteps, w += kLanes, x += x_row) {
      __builtin_prefetch(line, 0, 2);
      const V x0 = hn::LoadU(d, x), x1 = hn::LoadU(d, x + kLanes);
      __builtin_prefetch(x + ahead);
      __builtin_prefetch(x + ahead + kLanes);
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        const V e = hn::Set(d, w[r]);
        acc[r][0] = hn::MulAdd(e, x0, acc[r][0]);
        acc[r][1] = hn::MulAdd(e, x1, acc[r][1]);
      }
    }
  }
  float* c = g.c;
  const float zero = 0;
  const float* bias = g.bias ? g.bias : &zero;
  const int64_t c_row = g.c_row, bias_step = g.bias != nullptr;
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r, c += c_row, bias += bias_step) {
    V c0 = hn::Set(d, *bias), c1 = c0;
    if (g.add) c0 = hn::LoadU(d, c), c1 = hn::LoadU(d, c + kLanes);
    hn::StoreU(hn::Add(acc[r][0], c0), d, c);
    hn::StoreU(hn::Add(acc[r][1], c1), d, c + kLanes);
  }
}

using TileFn = void (*)(const Args&);
template <size_t... kRows>
TileFn tile_of(int64_t rows, std::index_sequence<kRows...>) {
  static constexpr TileFn kTiles[] = {Tile<kRows + kLeastRows>...};
  return kTiles[rows - kLeastRows];
}

// n things in `count` parts, as even as can be.
struct Parts {
  int64_t n, count;
  int64_t first(int64_t i) const { return i * n / count; }
};

class Plan {
 public:
  explicit Plan(const PointwiseConv& c)
      : c_(c),
        panels_(ceil_div(c.positions, kPanel)),
        strips_{panels_, ceil_div(panels_, kStripPositions / kPanel)},
        steps_{c.in_channels, ceil_div(c.in_channels, kStepsAtOnce)},
        tiles_{c.out_channels, ceil_div(c.out_channels, kMostRows)},
        w_(tiles_.count * c.in_channels * kLanes) {}

  void run() const {
    const int64_t k = c_.in_channels;
    parallel_for(tiles_.count, 1 + 16384 / (k * kLanes), [&](int64_t begin, int64_t end) HWY_ATTR {
      for (int64_t t = begin; t < end; ++t) pack_weights(tiles_.first(t), w_.get() + t * k * kLanes);
    });
    const int64_t strips = c_.images * strips_.count, work = c_.positions * k * c_.out_channels / strips_.count;
    parallel_for(strips, 1 + (1 << 19) / (work + 1), [&](int64_t begin, int64_t end) HWY_ATTR {
      ScratchArray<float> room(kPanel * min64(kStepsAtOnce, k));
      for (int64_t i = begin; i < end; ++i) run_strip(i, i + 1 < strips, room.get());
    });
  }

 private:
  const float* input(int64_t strip) const {
    return c_.x + strip / strips_.count * c_.x_image + strips_.first(strip % strips_.count) * kPanel;
  }
  float* output(int64_t strip) const {
    return c_.y + strip / strips_.count * c_.y_image + strips_.first(strip % strips_.count) * kPanel;
  }

  void run_strip(int64_t i, bool more, float* room) const {
    const int64_t panel0 = strips_.first(i % strips_.count), panels = strips_.first(i % strips_.count + 1) - panel0;
    Args args;
    Requests requests(*this, i + 1, more);
    for (int64_t s = 0; s < steps_.count; ++s) {
      const int64_t p = steps_.first(s);
      args.k = steps_.first(s + 1) - p;
      args.add = s > 0;
      for (int64_t q = 0; q < panels; ++q) {
        const int64_t cols = min64(kPanel, c_.positions - (panel0 + q) * kPanel);
        args.x = input(i) + p * c_.positions + q * kPanel;
        args.x_row = c_.positions;
        if (cols < kPanel) {
          pack_last(args.x, cols, args.k, room);
          args.x = room;
          args.x_row = kPanel;
        }
        for (int64_t t = 0; t < tiles_.count; ++t) {
          const int64_t o = tiles_.first(t);
          args.w = w_.get() + (t * c_.in_channels + p) * kLanes;
          args.bias = c_.bias ? c_.bias + o : nullptr;
          requests.take(args);
          run_tile(args, tiles_.first(t + 1) - o, output(i) + o * c_.positions + q * kPanel, cols);
        }
      }
    }
  }

  // The rows of the next strip that are still to be requested: the input's, then the output's.
  class Requests {
   public:
    Requests(const Plan& plan, int64_t strip, bool more)
        : row_(plan.c_.positions * static_cast<int64_t>(sizeof(float))) {
      if (!more) return;
      at_[0] = reinterpret_cast<const char*>(plan.input(strip));
      at_[1] = reinterpret_cast<const char*>(plan.output(strip));
      left_[0] = plan.c_.in_channels;
      left_[1] = plan.c_.out_channels;
    }
    void take(Args& args) {
      const int i = left_[0] <= 0;
      args.next = left_[i] > 0 ? at_[i] : reinterpret_cast<const char*>(args.x);
      args.next_step = left_[i] > 0 ? row_ : 0;
      const int64_t rows = ceil_div(args.k, kRunSteps);
      at_[i] += rows * row_;
      left_[i] -= rows;
    }

   private:
    const int64_t row_;
    const char* at_[2] = {};
    int64_t left_[2] = {};
  };

  void run_tile(Args& args, int64_t rows, float* y, int64_t cols) const {
    const TileFn tile = tile_of(rows, std::make_index_sequence<kMostRows - kLeastRows + 1>());
    args.c = y;
    args.c_row = c_.positions;
    if (cols == kPanel) return tile(args);
    HWY_ALIGN float tmp[kMostRows * kPanel];
    args.c = tmp;
    args.c_row = kPanel;
    for (int64_t r = 0; r < rows && args.add; ++r)
      std::memcpy(tmp + r * kPanel, y + r * c_.positions, cols * sizeof(float));
    tile(args);
    for (int64_t r = 0; r < rows; ++r) std::memcpy(y + r * c_.positions, tmp + r * kPanel, cols * sizeof(float));
  }

  // The weights of kLanes output channels from o on, of which a tile takes the first.
  void pack_weights(int64_t o, float* to) const {
    const int64_t rows = min64(kLanes, c_.out_channels - o), k = c_.in_channels;
    const float* const from = c_.w + o * c_.w_out;
    if (c_.w_in == 1) return pack_lanes(from, c_.w_out, rows, k, kLanes, to);
    for (int64_t p = 0; p < k; ++p) copy_lanes(from + p * c_.w_in, rows, to + p * kLanes);
  }
  // The last positions of an image, with zeros after them.
  void pack_last(const float* x, int64_t cols, int64_t k, float* to) const {
    for (int64_t p = 0; p < k; ++p, x += c_.positions, to += kPanel) {
      std::memset(to, 0, kPanel * sizeof(float));
      std::memcpy(to, x, cols * sizeof(float));
    }
  }

  const PointwiseConv& c_;
  const int64_t panels_;
  const Parts strips_, steps_, tiles_;
  ScratchArray<float> w_;
};

}  // namespace

void PointwiseConvolution(const PointwiseConv& c) { Plan(c).run(); }
#endif

}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu::internal
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::cpu::internal {

TESSERA_SIMD_TABLE(PointwiseConvolution);

void pointwise_conv(const PointwiseConv& c) { TESSERA_SIMD(PointwiseConvolution)(c); }

}  // namespace tessera::cpu::internal
#endif
