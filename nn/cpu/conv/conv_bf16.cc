// Convolution of bfloat16 on the CPU's dot products. Images are copied with a border and channels last, in whole steps
// of 32 channels; 32 positions of them, tap after tap, are a panel of the product's left side, and the weights of 32
// output channels one of the right side.
#include "nn/cpu/conv/conv_bf16.h"

#include <immintrin.h>

#include <cstring>

#include "tensor/core/half.h"
#include "tensor/core/parallel.h"
#include "nn/cpu/conv/conv_direct.h"
#include "tensor/cpu/gemm/gemm_amx.h"
#include "tensor/cpu/support/integer.h"
#include "tensor/cpu/support/types.h"
#include "tensor/cpu/support/scratch.h"

namespace tessera::cpu::internal {

bool has_bf16_conv() { return bf16_panel_level() != PanelLevel::kNone; }

namespace {

constexpr int64_t kImageElements = int64_t{1} << 19;  // of the images copied at once
constexpr int64_t kPanelsBytes = int64_t{1} << 19;    // of the panels of positions packed at once
constexpr int64_t kStepChannels = kStepBytes / 2;

// The bits of x rounded to bfloat16, as the lower halves of 16 numbers.
__attribute__((target("avx512f,avx512bw,avx512vl"))) inline __m256i rounded(__m512 x) {
  const __m512i bits = _mm512_castps_si512(x);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  const __m512i up = _mm512_srli_epi32(_mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd), 16);
  const __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
  return _mm512_cvtepi32_epi16(_mm512_mask_or_epi32(up, nan, _mm512_srli_epi32(bits, 16), _mm512_set1_epi32(0x40)));
}
// to[i] = from[i] rounded, n <= 32
__attribute__((target("avx512f,avx512bw,avx512vl"))) void round_row(const float* from, int64_t n, uint16_t* to) {
  const __m512i all = _mm512_inserti64x4(_mm512_castsi256_si512(rounded(_mm512_loadu_ps(from))),
                                         rounded(_mm512_loadu_ps(from + 16)), 1);
  _mm512_mask_storeu_epi16(to, n >= 32 ? ~__mmask32{0} : (__mmask32{1} << n) - 1, all);
}
__attribute__((target("avx512f"))) inline void copy_step(const uint16_t* from, char* to) {
  _mm512_storeu_si512(to, _mm512_loadu_si512(from));
}

// Images with a border and channels last, in whole steps of channels; what is added is zero.
struct PixelCopies {
  PixelCopies(const ImageLayout& in, const Border& border, int64_t channels)
      : in(in),
        border(border),
        padded(in.with(border)),
        channels(channels),
        steps(ceil_div(channels, kStepChannels)),
        pixel(steps * kStepChannels),
        image(padded.size[0] * padded.size[1] * padded.size[2] * pixel) {}
  // Where a place of the padded image begins.
  int64_t at(int64_t e, int64_t h, int64_t w) const { return ((e * padded.size[1] + h) * padded.size[2] + w) * pixel; }
  void copy(const uint16_t* x, int64_t x_image, int64_t count, uint16_t* to) const;

  const ImageLayout in;
  const Border border;
  const ImageLayout padded;
  const int64_t channels, steps, pixel, image;
};

// One line of an image at a time, through a panel, which brings its channels together.
void PixelCopies::copy(const uint16_t* x, int64_t x_image, int64_t count, uint16_t* copies) const {
  const int64_t lines = padded.size[0] * padded.size[1], line = padded.size[2] * pixel, row = in.size[2];
  parallel_for(count * lines, max64(1, 32768 / line), [&](int64_t begin, int64_t end) {
    ScratchArray<char> panel(steps * kPanelStepBytes);
    for (int64_t i = begin; i < end; ++i) {
      uint16_t* const to = copies + i * line;
      const int64_t h = i % padded.size[1] - border.low[1], e = i / padded.size[1] % padded.size[0] - border.low[0];
      if (h < 0 || h >= in.size[1] || e < 0 || e >= in.size[0]) {
        std::memset(to, 0, line * 2);
        continue;
      }
      const uint16_t* const from = x + i / lines * x_image + e * in.step(0) + h * in.step(1);
      std::memset(to, 0, border.low[2] * pixel * 2);
      for (int64_t w = 0; w < row; w += kPanelLines) {
        const int64_t n = min64(kPanelLines, row - w);
        uint16_t* const pixels = to + (border.low[2] + w) * pixel;
        pack_panel_a(2, from + w * in.unit, in.unit, in.channel(), n, channels, 0, panel.get());
        for (int64_t q = 0; q < n; ++q)
          for (int64_t s = 0; s < steps; ++s)
            copy_step(reinterpret_cast<const uint16_t*>(panel.get() + s * kPanelStepBytes + q * kStepBytes),
                      reinterpret_cast<char*>(pixels + q * pixel + s * kStepChannels));
      }
      std::memset(to + (border.low[2] + row) * pixel, 0, border.high[2] * pixel * 2);
    }
  });
}

// The sums of 64 positions, `row` bytes apart, by 16 channels, straight from the copied images: for each tap its steps
// of channels. So much of both stays in L1. The tiles of TileScope.
constexpr int64_t kTilePositions = 64;
void tiles_in_place(const char* x, int64_t row, const int64_t* taps, int64_t num_taps, int64_t steps, const char* w,
                    float* sums) {
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (int64_t t = 0; t < num_taps; ++t) {
    const char* a = x + 2 * taps[t];
    for (int64_t s = 0; s < steps; ++s, a += kStepBytes, w += kPanelStepBytes) {
      _tile_loadd(6, w, 64);
      _tile_loadd(4, a, row);
      _tile_dpbf16ps(0, 4, 6);
      _tile_loadd(5, a + 16 * row, row);
      _tile_dpbf16ps(1, 5, 6);
      _tile_loadd(4, a + 32 * row, row);
      _tile_dpbf16ps(2, 4, 6);
      _tile_loadd(5, a + 48 * row, row);
      _tile_dpbf16ps(3, 5, 6);
    }
  }
  constexpr int64_t kSumsRow = kPanelLines * sizeof(float);
  char* const to = reinterpret_cast<char*>(sums);
  _tile_stored(0, to, kSumsRow);
  _tile_stored(1, to + 16 * kSumsRow, kSumsRow);
  _tile_stored(2, to + 32 * kSumsRow, kSumsRow);
  _tile_stored(3, to + 48 * kSumsRow, kSumsRow);
}

class Plan {
 public:
  explicit Plan(const DirectConv<uint16_t>& c)
      : c_(c),
        level_(bf16_panel_level()),
        block_(bf16_panel_block(level_)),
        pixels_(c.in, c.border, c.in_channels),
        channel_steps_(pixels_.steps),
        steps_(c.taps * channel_steps_),
        image_(pixels_.image),
        in_place_(suits_in_place()),
        positions_(in_place_ ? (c.size[1] - 1) * pixels_.padded.size[2] + c.size[2] : volume(c.size)),
        blocks_(ceil_div(c.out_channels, kPanelLines)),
        images_(max64(1, min64(c.images, kImageElements / image_))),
        group_(max64(1, kPanelsBytes / (steps_ * kPanelStepBytes))),
        copies_(images_ * image_ + kTilePositions * pixels_.pixel),  // tiles may read beyond the last position
        taps_(c.taps),
        bias_(blocks_ * kPanelLines),
        weights_(blocks_ * steps_ * kPanelStepBytes) {
    for (int64_t t = 0; t < c.taps; ++t) taps_[t] = pixels_.at(c.tap[t][0], c.tap[t][1], c.tap[t][2]);
    for (int64_t o = 0; o < blocks_ * kPanelLines; ++o)
      bias_[o] = c.bias && o < c.out_channels ? bfloat16_bits_to_float(c.bias[o]) : 0.0f;
  }

  void run() const {
    pack_weights();
    for (int64_t n = 0; n < c_.images; n += images_) {
      const int64_t count = min64(images_, c_.images - n);
      pixels_.copy(c_.x + n * c_.x_image + c_.first_channel, c_.x_image, count, copies_.get());
      uint16_t* const y = c_.y + n * c_.y_image;
      const int64_t all = count * positions_, step = group_ * kPanelLines;
      if (in_place_) {
        const int64_t parts = ceil_div(positions_, kPlacePositions);
        parallel_for(count * parts, 1, [&](int64_t begin, int64_t end) {
          const TileScope tiles(level_);
          for (int64_t i = begin; i < end; ++i)
            run_places(i / parts, i % parts * kPlacePositions, y + i / parts * c_.y_image);
        });
        continue;
      }
      parallel_for(ceil_div(all, step), 1, [&](int64_t begin, int64_t end) {
        const TileScope tiles(level_);
        for (int64_t i = begin; i < end; ++i) run_group(i * step, min64(all, (i + 1) * step), y);
      });
    }
  }

 private:
  void pack_weights() const {
    parallel_for(blocks_ * c_.taps, max64(1, 16384 / (pixels_.pixel * kPanelLines)), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t b = i / c_.taps, t = i % c_.taps, o = b * kPanelLines;
        pack_panel_b(2, c_.w + o * c_.w_out + c_.tap_w[t], c_.w_out, c_.w_channel,
                     min64(kPanelLines, c_.out_channels - o), c_.in_channels,
                     weights_.get() + (b * steps_ + t * channel_steps_) * kPanelStepBytes);
      }
    });
  }

  // Where windows move by one, the places of a copied image follow each other as the positions do, with a few between
  // the lines that are no positions: tiles take all of them.
  bool suits_in_place() const {
    return level_ == PanelLevel::kAmx && c_.size[0] == 1 && c_.step[1] == 1 && c_.step[2] == 1 &&
           8 * c_.size[2] >= 7 * pixels_.padded.size[2];
  }
  static constexpr int64_t kPlacePositions = 12 * kPanelLines;

  // Some positions of a copied image from `begin` on, for all output channels.
  void run_places(int64_t image, int64_t begin, uint16_t* y) const {
    const int64_t end = min64(positions_, begin + kPlacePositions), line = pixels_.padded.size[2];
    int64_t places[kPlacePositions];  // in y; -1: none
    for (int64_t p = begin; p < end; ++p)
      places[p - begin] = p % line < c_.size[2] ? p / line * c_.y_step[1] + p % line * c_.y_step[2] : -1;
    ScratchArray<float> sums(kPlacePositions * kPanelLines);
    const char* const x = reinterpret_cast<const char*>(copies_.get() + image * image_);
    const int64_t row = 2 * pixels_.pixel;
    for (int64_t b = 0; b < blocks_; ++b) {
      const int64_t channels = min64(kPanelLines, c_.out_channels - b * kPanelLines);
      for (int64_t o = 0; o < channels; o += 16)
        for (int64_t p = begin; p < end; p += kTilePositions)
          tiles_in_place(x + p * row, row, taps_.get(), c_.taps, channel_steps_,
                         weights_.get() + b * steps_ * kPanelStepBytes + o * 64,
                         sums.get() + (p - begin) * kPanelLines + o);
      for (int64_t p = begin; p < end; p += kPanelLines)
        store(sums.get() + (p - begin) * kPanelLines, min64(kPanelLines, end - p), b * kPanelLines, channels,
              places + (p - begin), y);
    }
  }

  // Positions [begin, end) of the copied images, for all output channels.
  void run_group(int64_t begin, int64_t end, uint16_t* y) const {
    ScratchArray<char> panels(group_ * steps_ * kPanelStepBytes);
    ScratchArray<int64_t> places(end - begin);  // in y
    for (int64_t p = begin; p < end; p += kPanelLines)
      pack_positions(p, min64(kPanelLines, end - p),
                     panels.get() + (p - begin) / kPanelLines * steps_ * kPanelStepBytes, places.get() + (p - begin));
    alignas(64) float sums[kPanelLines * kPanelLines];
    for (int64_t b = 0; b < blocks_; ++b) {
      const int64_t channels = min64(kPanelLines, c_.out_channels - b * kPanelLines);
      for (int64_t p = begin; p < end; p += kPanelLines) {
        const int64_t n = min64(kPanelLines, end - p);
        block_(steps_, panels.get() + (p - begin) / kPanelLines * steps_ * kPanelStepBytes,
               weights_.get() + b * steps_ * kPanelStepBytes, n, channels, sums, kPanelLines, false);
        store(sums, n, b * kPanelLines, channels, places.get() + (p - begin), y);
      }
    }
  }

  __attribute__((target("avx512f,avx512bw,avx512vl"))) void pack_positions(int64_t p, int64_t count, char* panel,
                                                                           int64_t* places) const {
    int64_t from[kPanelLines];
    for (int64_t i = 0; i < count; ++i) {
      const int64_t at = p + i, w = at % c_.size[2], h = at / c_.size[2] % c_.size[1],
                    e = at / c_.size[2] / c_.size[1] % c_.size[0], n = at / positions_;
      from[i] = n * image_ + pixels_.at(e * c_.step[0], h * c_.step[1], w * c_.step[2]);
      places[i] = n * c_.y_image + e * c_.y_step[0] + h * c_.y_step[1] + w * c_.y_step[2];
    }
    for (int64_t i = count; i < kPanelLines; ++i) from[i] = from[0];
    for (int64_t t = 0; t < c_.taps; ++t)
      for (int64_t s = 0; s < channel_steps_; ++s, panel += kPanelStepBytes) {
        const uint16_t* const x = copies_.get() + taps_[t] + s * kStepChannels;
        for (int64_t i = 0; i < kPanelLines; ++i) copy_step(x + from[i], panel + i * kStepBytes);
      }
  }

  // sums: positions by channels. places: a negative one is no position.
  void store(float* sums, int64_t count, int64_t first, int64_t channels, const int64_t* places, uint16_t* y) const {
    if (c_.bias)
      for (int64_t i = 0; i < count; ++i)
        for (int64_t o = 0; o < kPanelLines; ++o) sums[i * kPanelLines + o] += bias_[first + o];
    if (c_.y_channel == 1) {
      for (int64_t i = 0; i < count; ++i)
        if (places[i] >= 0) round_row(sums + i * kPanelLines, channels, y + places[i] + first);
      return;
    }
    alignas(64) float turned[kPanelLines * kPanelLines + kPanelLines];  // rows are read in whole vectors
    transpose_32(sums, turned);
    for (int64_t i = 0; i < count;) {
      if (places[i] < 0) {
        ++i;
        continue;
      }
      int64_t n = 1;  // positions that follow each other
      while (i + n < count && places[i + n] == places[i] + n) ++n;
      for (int64_t o = 0; o < channels; ++o) {
        uint16_t* const to = y + places[i] + (first + o) * c_.y_channel;
        if (n > 1)
          round_row(turned + o * kPanelLines + i, n, to);
        else
          *to = float_to_bfloat16_bits(turned[o * kPanelLines + i]);
      }
      i += n;
    }
  }
  const DirectConv<uint16_t>& c_;
  const PanelLevel level_;
  const PanelBlock block_;
  const PixelCopies pixels_;
  const int64_t channel_steps_, steps_, image_;
  const bool in_place_;
  const int64_t positions_, blocks_, images_, group_;  // positions of an image
  ScratchArray<uint16_t> copies_;
  ScratchArray<int64_t> taps_;
  ScratchArray<float> bias_;
  ScratchArray<char> weights_;
};

// The gradient of the weights of one group: for each tap and 32 input channels, the product of the gradients (output
// channels by positions) and the input there (positions by channels). Positions are taken in runs that begin a step:
// whole lines where they fill their steps well enough, so that the taps above each other share the input's panels; else
// whole images.
class WeightPlan {
 public:
  WeightPlan(const ConvGeometry& g, bool channels_last)
      : g_(g),
        last_(channels_last),
        level_(bf16_panel_level()),
        block_(bf16_panel_block(level_)),
        in_c_(g.in_channels / g.groups),
        out_c_(g.out_channels / g.groups),
        positions_(volume(g.out_size)),
        by_lines_(suits_lines(g)),
        run_(by_lines_ ? g.out_size[2] : positions_),
        run_steps_(ceil_div(run_, kStepChannels)),
        runs_(positions_ / run_),
        blocks_(ceil_div(out_c_, kPanelLines)),
        shared_(by_lines_ ? g.kernel[0] * g.kernel[1] : 1),
        pixels_({{g.in_size[0], g.in_size[1], g.in_size[2]}, channels_last ? g.in_channels : 1, channels_last},
                border_of(g), in_c_),
        copies_(g.batch * pixels_.image),
        panels_(blocks_ * g.batch * runs_ * run_steps_ * kPanelStepBytes) {}

  void run(const uint16_t* dy, const uint16_t* x, uint16_t* dw) const {
    const int64_t tasks = volume(g_.kernel) / shared_;
    for (int64_t group = 0; group < g_.groups; ++group) {
      pixels_.copy(x + group * in_c_ * pixels_.in.channel(), g_.in_channels * volume(g_.in_size), g_.batch,
                   copies_.get());
      pack_gradients(dy + group * out_c_ * (last_ ? 1 : positions_));
      uint16_t* const to = dw + group * out_c_ * in_c_ * volume(g_.kernel);
      parallel_for(tasks * pixels_.steps, 1, [&](int64_t begin, int64_t end) {
        const TileScope tiles(level_);
        for (int64_t i = begin; i < end; ++i)
          by_lines_ ? lines_task(i % tasks, i / tasks, to) : tap_task(i % tasks, i / tasks, to);
      });
    }
  }

 private:
  static constexpr int64_t kChunk = 16;  // steps of positions at once

  static Border border_of(const ConvGeometry& g) {
    Border b;
    for (int i = 0; i < 3; ++i) {
      b.low[i] = g.padding[i];
      b.high[i] = max64(
          0, (g.out_size[i] - 1) * g.stride[i] + g.dilation[i] * (g.kernel[i] - 1) + 1 - g.padding[i] - g.in_size[i]);
    }
    return b;
  }
  static bool suits_lines(const ConvGeometry& g) {
    return g.stride[0] == 1 && g.stride[1] == 1 && g.kernel[0] * g.kernel[1] > 1 &&
           4 * g.out_size[2] >= 3 * ceil_div(g.out_size[2], kStepChannels) * kStepChannels;
  }

  int64_t steps() const { return g_.batch * runs_ * run_steps_; }
  // The gradients of block b from step s on.
  const char* gradients(int64_t b, int64_t s) const { return panels_.get() + (b * steps() + s) * kPanelStepBytes; }
  void pack_gradients(const uint16_t* dy) const {
    const int64_t runs = g_.batch * runs_;
    parallel_for(blocks_ * runs, max64(1, 16384 / (run_ * kPanelLines)), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t r = i % runs, o = i / runs * kPanelLines, n = r / runs_, place = r % runs_ * run_;
        const uint16_t* const from =
            dy + n * g_.out_channels * positions_ + (last_ ? place * g_.out_channels + o : o * positions_ + place);
        pack_panel_a(2, from, last_ ? 1 : positions_, last_ ? g_.out_channels : 1, min64(kPanelLines, out_c_ - o), run_,
                     0, panels_.get() + i * run_steps_ * kPanelStepBytes);
      }
    });
  }

  // One tap; the input's panels are packed for it alone.
  void tap_task(int64_t tap, int64_t channel_step, uint16_t* dw) const {
    const int64_t w = tap % g_.kernel[2], h = tap / g_.kernel[2] % g_.kernel[1], e = tap / g_.kernel[2] / g_.kernel[1];
    const uint16_t* const x = copies_.get() + pixels_.at(e * g_.dilation[0], h * g_.dilation[1], w * g_.dilation[2]) +
                              channel_step * kStepChannels;
    ScratchArray<char> input(kChunk * kPanelStepBytes);
    ScratchArray<float> sums(blocks_ * kPanelLines * kPanelLines);
    for (int64_t s = 0; s < steps(); s += kChunk) {
      const int64_t count = min64(kChunk, steps() - s);
      for (int64_t i = 0; i < count; ++i) pack_positions(x, s + i, input.get() + i * kPanelStepBytes);
      for (int64_t b = 0; b < blocks_; ++b)
        multiply(count, b, s, input.get(), channel_step, sums.get() + b * kPanelLines * kPanelLines, s != 0);
    }
    store(sums.get(), tap, channel_step, dw);
  }

  // The taps of one place in their lines: those of a line share its panels.
  void lines_task(int64_t w, int64_t channel_step, uint16_t* dw) const {
    const int64_t height = pixels_.padded.size[1], lines = pixels_.padded.size[0] * height,
                  size = blocks_ * kPanelLines * kPanelLines, most = max64(1, kChunk / run_steps_);
    ScratchArray<char> input(lines * run_steps_ * kPanelStepBytes);
    ScratchArray<float> sums(shared_ * size);
    for (int64_t n = 0; n < g_.batch; ++n) {
      const uint16_t* const x =
          copies_.get() + n * pixels_.image + pixels_.at(0, 0, w * g_.dilation[2]) + channel_step * kStepChannels;
      for (int64_t i = 0; i < lines; ++i)
        pack_line(x + i * pixels_.padded.size[2] * pixels_.pixel, input.get() + i * run_steps_ * kPanelStepBytes);
      for (int64_t line = 0, count; line < runs_; line += count) {
        const int64_t e = line / g_.out_size[1], h = line % g_.out_size[1];
        count = min64(most, g_.out_size[1] - h);
        for (int64_t b = 0; b < blocks_; ++b)
          for (int64_t t = 0; t < shared_; ++t) {
            const int64_t at = (e + t / g_.kernel[1] * g_.dilation[0]) * height + h + t % g_.kernel[1] * g_.dilation[1];
            multiply(count * run_steps_, b, (n * runs_ + line) * run_steps_,
                     input.get() + at * run_steps_ * kPanelStepBytes, channel_step,
                     sums.get() + t * size + b * kPanelLines * kPanelLines, n + line > 0);
          }
      }
    }
    for (int64_t t = 0; t < shared_; ++t) store(sums.get() + t * size, t * g_.kernel[2] + w, channel_step, dw);
  }

  void multiply(int64_t count, int64_t b, int64_t s, const char* input, int64_t channel_step, float* sums,
                bool accumulate) const {
    block_(count, gradients(b, s), input, min64(kPanelLines, out_c_ - b * kPanelLines),
           min64(kStepChannels, in_c_ - channel_step * kStepChannels), sums, kPanelLines, accumulate);
  }
  void store(const float* sums, int64_t tap, int64_t channel_step, uint16_t* dw) const {
    const int64_t channel = channel_step * kStepChannels, channels = min64(kStepChannels, in_c_ - channel),
                  taps = volume(g_.kernel);
    const int64_t out = in_c_ * taps, in = last_ ? 1 : taps, first = channel * in + tap * (last_ ? in_c_ : 1);
    for (int64_t o = 0; o < out_c_; ++o)
      for (int64_t c = 0; c < channels; ++c)
        dw[o * out + first + c * in] = float_to_bfloat16_bits(sums[o * kPanelLines + c]);
  }

  // Elements 0 to 15, and 16 to 31, of two vectors, taken in turn.
  struct Pairs {
    alignas(64) uint16_t low[32], high[32];
    constexpr Pairs() : low(), high() {
      for (uint16_t i = 0; i < 16; ++i) {
        low[2 * i] = i;
        low[2 * i + 1] = static_cast<uint16_t>(32 + i);
        high[2 * i] = static_cast<uint16_t>(16 + i);
        high[2 * i + 1] = static_cast<uint16_t>(48 + i);
      }
    }
  };
  // A step of positions by 32 channels: pairs of positions element by element.
  __attribute__((target("avx512f,avx512bw"))) static void pack_step(const uint16_t* const (&rows)[kStepChannels],
                                                                    char* to) {
    static constexpr Pairs kPairs;
    const __m512i low = _mm512_load_si512(kPairs.low), high = _mm512_load_si512(kPairs.high);
    for (int64_t i = 0; i < kStepChannels; i += 2, to += kStepBytes) {
      const __m512i a = _mm512_loadu_si512(rows[i]), b = _mm512_loadu_si512(rows[i + 1]);
      _mm512_storeu_si512(to, _mm512_permutex2var_epi16(a, low, b));
      _mm512_storeu_si512(to + kPanelStepBytes / 2, _mm512_permutex2var_epi16(a, high, b));
    }
  }
  alignas(64) static constexpr uint16_t kZero[kStepChannels] = {};

  // The steps of a line.
  void pack_line(const uint16_t* x, char* to) const {
    const uint16_t* rows[kStepChannels];
    for (int64_t s = 0; s < run_steps_; ++s, to += kPanelStepBytes) {
      for (int64_t i = 0; i < kStepChannels; ++i) {
        const int64_t w = s * kStepChannels + i;
        rows[i] = w < run_ ? x + w * g_.stride[2] * pixels_.pixel : kZero;
      }
      pack_step(rows, to);
    }
  }
  // Step `step` of the images' positions.
  void pack_positions(const uint16_t* x, int64_t step, char* to) const {
    const int64_t image = step / run_steps_, first = step % run_steps_ * kStepChannels;
    int64_t w = first % g_.out_size[2], h = first / g_.out_size[2] % g_.out_size[1],
            e = first / g_.out_size[2] / g_.out_size[1];
    const uint16_t* rows[kStepChannels];
    for (int64_t i = 0; i < kStepChannels; ++i) {
      rows[i] = first + i < positions_
                    ? x + image * pixels_.image + pixels_.at(e * g_.stride[0], h * g_.stride[1], w * g_.stride[2])
                    : kZero;
      if (++w < g_.out_size[2]) continue;
      w = 0;
      if (++h < g_.out_size[1]) continue;
      h = 0;
      ++e;
    }
    pack_step(rows, to);
  }

  const ConvGeometry& g_;
  const bool last_;
  const PanelLevel level_;
  const PanelBlock block_;
  const int64_t in_c_, out_c_, positions_;
  const bool by_lines_;
  const int64_t run_, run_steps_, runs_, blocks_,
      shared_;  // positions of a run, their steps, runs of an image; blocks of output channels; taps that share panels
  const PixelCopies pixels_;
  ScratchArray<uint16_t> copies_;
  ScratchArray<char> panels_;
};

}  // namespace

void direct_conv(const DirectConv<uint16_t>& c) { Plan(c).run(); }

void bf16_backward_weight(const ConvGeometry& g, const uint16_t* dy, const uint16_t* x, uint16_t* dw) {
  WeightPlan(g, g.channels_last).run(dy, x, dw);
}

}  // namespace tessera::cpu::internal
