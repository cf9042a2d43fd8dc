#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "nn/cpu/conv/conv_direct.cc"
#include "nn/cpu/conv/conv_direct.h"

#include <cstring>
#include <utility>

#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "tensor/core/parallel.h"
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

constexpr int64_t kStepsAtOnce = 192;  // of the sums; the packed weights for them stay in L1
constexpr int64_t kBandPositions = 224;
constexpr int64_t kStorePositions = 48;  // stored at once, while the next ones are summed
#if HWY_TARGET <= HWY_AVX3
constexpr int64_t most_rows(int64_t) { return 14; }  // of a tile
#else
constexpr int64_t most_rows(int64_t vectors) { return vectors == 2 ? 6 : 12; }
#endif

// kStep 0: any step.
template <int kRows, int kVectors, int kStep>
HWY_NOINLINE void Tile(const TileArgs& g) {
  V acc[kRows][kVectors];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) acc[r][v] = hn::Zero(d);
  const float* HWY_RESTRICT w = g.w;
  const int64_t* HWY_RESTRICT offset = g.offsets;
  const int64_t* const end = offset + g.k;
  const int64_t step = kStep ? kStep : g.step;
  for (; offset != end; ++offset, w += kVectors * kLanes) {
    const float* HWY_RESTRICT x = g.x + *offset;
    if constexpr (kVectors > 1) {  // else loads are what there are most of
      __builtin_prefetch(w + 16 * kVectors * kLanes);
      __builtin_prefetch(w + 16 * kVectors * kLanes + 16);
    }
    V ws[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) ws[v] = hn::LoadU(d, w + v * kLanes);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      V e;
      if constexpr (kStep != 0) {
        e = hn::Set(d, x[r * kStep]);
      } else {
        e = hn::Set(d, x[(r % 3) * step]);
        if (r % 3 == 2) x += 3 * step;
      }
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) acc[r][v] = hn::MulAdd(e, ws[v], acc[r][v]);
    }
  }
  // A sum of sums has smaller errors than one over all.
  float* c = g.c;
  const float* start = g.start ? g.start : c;
  const int64_t c_row = g.c_row, start_row = g.start ? 0 : c_row;
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r, c += c_row, start += start_row)
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v)
      hn::StoreU(hn::Add(acc[r][v], hn::LoadU(d, start + v * kLanes)), d, c + v * kLanes);
}

template <int kVectors, int kStep, size_t... kRows>
TileFn tile_of(int64_t rows, std::index_sequence<kRows...>) {
  static constexpr TileFn kTiles[] = {Tile<kRows + 1, kVectors, kStep>...};
  return kTiles[rows - 1];
}
template <int kVectors>
TileFn tile_for(int64_t rows, int64_t step) {
  constexpr std::make_index_sequence<most_rows(kVectors)> heights;
  return step == 1 ? tile_of<kVectors, 1>(rows, heights) : tile_of<kVectors, 0>(rows, heights);
}
TileFn tile_for(int64_t vectors, int64_t rows, int64_t step) {
  return vectors == 2 ? tile_for<2>(rows, step) : tile_for<1>(rows, step);
}

}  // namespace

TileCut CutPositions(int64_t n, int64_t vectors, int64_t step) {
  const int64_t count = ceil_div(n, most_rows(vectors)), rows = n / count, longer = n % count;
  return {count, rows, longer, tile_for(vectors, rows, step), longer ? tile_for(vectors, rows + 1, step) : nullptr};
}

namespace {

// A block of output channels: two vectors or, the last one, one; what is left of it is filled up with zeros.
struct Block {
  int64_t first, channels, vectors;
  int64_t width() const { return vectors * kLanes; }
  int64_t packed() const { return first; }  // whole vectors come before
};

class Plan {
 public:
  explicit Plan(const DirectConv<float>& c)
      : c_(c),
        k_(c.in_channels * c.taps),
        images_(Images::lie_ready(c) ? c.images : Images::near(c)),
        input_(c, images_),
        lines_(max64(1, kBandPositions / c.size[2])),
        offsets_(k_),
        w_(packs_once() ? channels() * k_ : 0),
        start_(channels()) {
    const ImageLayout& padded = input_.padded;
    steps_ = ceil_div(k_, ceil_div(k_, kStepsAtOnce));
    for (int64_t p = 0; p < k_; ++p) {
      const int64_t* const at = c.tap[tap(p)];
      offsets_[p] =
          channel(p) * padded.channel() + at[0] * padded.step(0) + at[1] * padded.step(1) + at[2] * padded.step(2);
    }
    for (int64_t o = 0; o < channels(); ++o) start_[o] = c.bias && o < c.out_channels ? c.bias.get(o) : 0.0f;
    for (int i = 0; i < 3; ++i) x_step_[i] = c.step[i] * padded.step(i);
  }

  void run() const {
    if (packs_once()) pack();
    for (int64_t n = 0; n < c_.images; n += images_) run_images(n, min64(images_, c_.images - n));
  }

 private:
  int64_t channels() const { return ceil_div(c_.out_channels, kLanes) * kLanes; }  // in whole vectors
  int64_t blocks() const { return ceil_div(c_.out_channels, 2 * kLanes); }
  Block block(int64_t i) const {
    const int64_t first = i * 2 * kLanes, left = c_.out_channels - first;
    return {first, min64(left, 2 * kLanes), left > kLanes ? 2 : 1};
  }

  // Weights that only one band of lines uses are packed by it, step by step; others once for all.
  bool packs_once() const { return images_ < c_.images || c_.images * c_.size[0] * c_.size[1] > lines_; }
  void pack() const {
    const int64_t all = blocks(), parts = ceil_div(k_, steps_);
    parallel_for(all * parts, max64(1, 16384 / (steps_ * 2 * kLanes)), [&](int64_t begin, int64_t end) HWY_ATTR {
      for (int64_t i = begin; i < end; ++i) {
        const Block b = block(i / parts);
        const int64_t p = i % parts * steps_;
        pack_steps(b, p, min64(steps_, k_ - p), w_.get() + b.packed() * k_ + p * b.width());
      }
    });
  }

  // Images from n on, `count` of them; borders first.
  void run_images(int64_t n, int64_t count) const {
    const float* const x = input_.take(c_, n, count);
    const int64_t all = blocks(), lines = count * c_.size[0] * c_.size[1];
    const int64_t work = lines_ * c_.size[2] * k_ * 2 * kLanes;
    // The blocks of a band follow each other: its part of the images stays in cache.
    parallel_for(ceil_div(lines, lines_) * all, max64(1, (1 << 19) / work), [&](int64_t begin, int64_t end) HWY_ATTR {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t line = i / all * lines_;
        run_block(block(i % all), {x, c_.y + n * c_.y_image}, line, min64(line + lines_, lines));
      }
    });
  }

  struct Batch {
    const float* x;
    Numbers y;
  };
  // Lines [begin, end) of one block of channels.
  void run_block(const Block& b, const Batch& batch, int64_t begin, int64_t end) const {
    const bool in_place = c_.y_channel == 1 && b.channels == b.width() && c_.y.is_float();
    const int64_t n = c_.size[2];
    const TileCut cut = CutPositions(n, b.vectors, x_step_[2]);
    ScratchArray<float> tmp(in_place ? 0 : (end - begin) * n * b.width()),
        packed(packs_once() ? 0 : steps_ * b.width());
    TileArgs args;
    args.step = x_step_[2];
    args.c_row = in_place ? c_.y_step[2] : b.width();
    for (int64_t p = 0; p < k_; p += steps_) {
      args.k = min64(steps_, k_ - p);
      args.offsets = offsets_.get() + p;
      if (packs_once()) {
        args.w = w_.get() + b.packed() * k_ + p * b.width();
      } else {
        pack_steps(b, p, args.k, packed.get());
        args.w = packed.get();
      }
      args.start = p == 0 ? start_.get() + b.first : nullptr;
      const bool last = p + args.k == k_ && !in_place;
      for (int64_t line = begin, stored = begin; line < end; ++line) {
        const At at = position(batch, line);
        args.x = batch.x + at.x;
        args.c = in_place ? batch.y.floats() + at.y + b.first : tmp.get() + (line - begin) * n * b.width();
        if (last) prefetch(b, batch.y + at.y);
        run_tiles(cut, args);
        if (last && ((line + 1 - stored) * n >= kStorePositions || line + 1 == end)) {
          store(b, batch, stored, line + 1, tmp.get() + (stored - begin) * n * b.width());
          stored = line + 1;
        }
      }
    }
  }

  // Brings in the places of y that a line is about to be written to: the sums of the line take long enough.
  void prefetch(const Block& b, Numbers y) const {
    const int64_t size = c_.size[2] * c_.y_step[2];
    for (int64_t o = 0; o < b.channels; ++o)
      for (int64_t i = 0; i < size; i += 64 / y.item())
        __builtin_prefetch((y + ((b.first + o) * c_.y_channel + i)).address(), 1);
  }

  struct At {
    int64_t x, y;
  };
  At position(const Batch& batch, int64_t line) const {
    const int64_t h = line % c_.size[1], e = line / c_.size[1] % c_.size[0], n = line / c_.size[1] / c_.size[0];
    return {n * input_.image + e * x_step_[0] + h * x_step_[1], n * c_.y_image + e * c_.y_step[0] + h * c_.y_step[1]};
  }
  // The sums run over the taps of a channel first where channels are apart, over the channels of a tap where they lie
  // together.
  int64_t channel(int64_t p) const { return !c_.in.channels_last ? p / c_.taps : p % c_.in_channels; }
  int64_t tap(int64_t p) const { return !c_.in.channels_last ? p % c_.taps : p / c_.in_channels; }

  // to: `steps` rows of the block's width.
  void pack_steps(const Block& b, int64_t p0, int64_t steps, float* to) const {
    const int64_t width = b.width(), end = p0 + steps;
    // Where a channel's weights for all lanes lie together, but those of a tap apart, they are widened first.
    const bool widens = !c_.w.is_float() && c_.w_out > 1 && c_.w_out < c_.w_channel;
    ScratchArray<float> wide(widens ? width * c_.w_out : 0);
    for (int64_t p = p0, held = -1; p < end;) {
      // A run of weights that follow each other in memory.
      const int64_t first = weight(p);
      int64_t n = 1;
      while (c_.w_out != 1 && p + n < end && weight(p + n) == first + n) ++n;
      Numbers from = c_.w + (b.first * c_.w_out + first);
      if (widens) {
        const int64_t at = channel(p) * c_.w_channel;
        if (std::exchange(held, channel(p)) != channel(p))
          (c_.w + (b.first * c_.w_out + at)).read(b.channels * c_.w_out, wide.get());
        from = wide.get() + (first - at);
      }
      for (int64_t lane = 0; lane < width; lane += kLanes) {
        const int64_t o = b.first + lane, rows = min64(kLanes, c_.out_channels - o);
        if (c_.w_out == 1)
          copy_lanes(from + lane, rows, to + lane);
        else
          pack_lanes(from + lane * c_.w_out, c_.w_out, rows, n, width, to + lane);
      }
      p += n;
      to += n * width;
    }
  }
  int64_t weight(int64_t p) const { return channel(p) * c_.w_channel + c_.tap_w[tap(p)]; }

  // The sums of some lines, positions by channels, to their places in y: lines that follow each other there in one go.
  void store(const Block& b, const Batch& batch, int64_t begin, int64_t end, const float* sums) const {
    const int64_t n = c_.size[2];
    for (int64_t line = begin; line < end;) {
      const int64_t to = position(batch, line).y;
      int64_t count = 1;
      while (line + count < end && c_.y_step[2] == 1 && position(batch, line + count).y == to + count * n) ++count;
      store_lanes(sums + (line - begin) * n * b.width(), b.width(), count * n, b.channels,
                  batch.y + (to + b.first * c_.y_channel), c_.y_channel, c_.y_step[2]);
      line += count;
    }
  }

  const DirectConv<float>& c_;
  const int64_t k_;
  const int64_t images_;
  const Images input_;
  const int64_t lines_;
  int64_t steps_, x_step_[3];
  ScratchArray<int64_t> offsets_;
  ScratchArray<float> w_, start_;
};

}  // namespace

void DirectConvolution(const DirectConv<float>& c) { Plan(c).run(); }

void Transpose32(const float* from, float* to) {
  for (int64_t r = 0; r < 32; r += kLanes)
    for (int64_t q = 0; q < 32; q += kLanes) transpose_square(from + r * 32 + q, 32, to + q * 32 + r, 32);
}

}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu::internal
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::cpu::internal {

TESSERA_SIMD_TABLE(DirectConvolution);
TESSERA_SIMD_TABLE(CutPositions);
TESSERA_SIMD_TABLE(Transpose32);

namespace {
// Where windows are positions, an image of few positions is one line.
DirectConv<float> joined_lines(const DirectConv<float>& c) {
  DirectConv<float> joined = c;
  const int64_t n = c.size[1] * c.size[2];
  const bool same = c.taps == 1 && c.border.none() && c.step[1] == 1 && c.step[2] == 1 && c.size[1] == c.in.size[1] &&
                    c.size[2] == c.in.size[2];
  if (same && c.y_step[1] == c.size[2] * c.y_step[2] && n <= 256) {
    joined.size[1] = joined.in.size[1] = 1;
    joined.size[2] = joined.in.size[2] = n;
  }
  return joined;
}
}  // namespace

void direct_conv(const DirectConv<float>& c) {
  const DirectWay way = choose_direct(c, conv_machine(DType::kFloat32));
  if (way == DirectWay::kNarrow) return narrow_conv(c);
  if (way == DirectWay::kWinograd && winograd_conv(c)) return;
  TESSERA_SIMD(DirectConvolution)(joined_lines(c));
}
TileCut cut_positions(int64_t n, int64_t vectors, int64_t step) { return TESSERA_SIMD(CutPositions)(n, vectors, step); }
void transpose_32(const float* from, float* to) { TESSERA_SIMD(Transpose32)(from, to); }

namespace {
// Rows are mostly short: no call for these.
template <class E>
inline void copy_row(E* to, const E* from, int64_t n) {
  constexpr int64_t kStep = 16 / sizeof(E);
  int64_t i = 0;
  if (n > 16 * kStep) {
    std::memcpy(to, from, n * sizeof(E));
    return;
  }
  for (; i + kStep <= n; i += kStep) std::memcpy(to + i, from + i, 16);
  for (; i < n; ++i) to[i] = from[i];
}
// Neighbouring rows as they are copied: in place or, reduced, widened in `room`.
const uint16_t* rows_at(const uint16_t* x, int64_t, ScratchArray<float>&) { return x; }
const float* rows_at(Numbers x, int64_t n, ScratchArray<float>& room) {
  if (x.is_float()) return x.floats();
  x.read(n, room.get());
  return room.get();
}
int64_t room_for(const uint16_t*, int64_t) { return 0; }
int64_t room_for(Numbers x, int64_t n) { return x.is_float() ? 0 : n; }

template <class E>
inline void zero_row(E* to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] = 0;
}
}  // namespace

ImageLayout ImageLayout::with(const Border& b) const {
  ImageLayout padded = *this;
  for (int i = 0; i < 3; ++i) padded.size[i] += b.low[i] + b.high[i];
  return padded;
}

template <class E>
void copy_images_with_border(int64_t images, int64_t planes, const ImageLayout& layout, const Border& b, Source<E> x,
                             int64_t x_image, E* to) {
  const ImageLayout padded = layout.with(b);
  const int64_t row = layout.step(1), left = b.low[2] * layout.unit, right = b.high[2] * layout.unit,
                padded_row = padded.step(1);
  const int64_t height = padded.size[1], depth = padded.size[0];
  parallel_for(images * planes * depth, 1 + 16384 / (height * padded_row), [&](int64_t begin, int64_t end) {
    ScratchArray<float> room(room_for(x, layout.size[1] * row));
    for (int64_t i = begin; i < end; ++i) {
      E* out = to + i * height * padded_row;
      const int64_t e = i % depth - b.low[0];
      if (e < 0 || e >= layout.size[0]) {
        std::memset(out, 0, height * padded_row * sizeof(E));
        continue;
      }
      const E* from =
          rows_at(x + (i / depth / planes * x_image + i / depth % planes * layout.plane() + e * layout.step(0)),
                  layout.size[1] * row, room);
      std::memset(out, 0, b.low[1] * padded_row * sizeof(E));
      out += b.low[1] * padded_row;
      for (int64_t h = 0; h < layout.size[1]; ++h, from += row, out += padded_row) {
        zero_row(out, left);
        copy_row(out + left, from, row);
        zero_row(out + left + row, right);
      }
      std::memset(out, 0, b.high[1] * padded_row * sizeof(E));
    }
  });
}
template void copy_images_with_border<float>(int64_t, int64_t, const ImageLayout&, const Border&, Numbers, int64_t,
                                             float*);
template void copy_images_with_border<uint16_t>(int64_t, int64_t, const ImageLayout&, const Border&, const uint16_t*,
                                                int64_t, uint16_t*);

}  // namespace tessera::cpu::internal
#endif
