// Convolution of bfloat16 on the CPU's dot products. Images are copied with a border and channels last, in whole steps
// of 32 channels; 32 positions of them, tap after tap, are a panel of the product's left side, and the weights of 32
// output channels one of the right side.
#include "nn/cpu/conv/conv_bf16.h"

#include <immintrin.h>

#include <cstring>

#include "tensor/core/half.h"
#include "tensor/core/parallel.h"
#include "nn/cpu/conv/conv_bf16_taps.h"
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
constexpr int64_t kFewPositions = 128;                // of all images
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
        few_(!in_place_ && images_ == c.images && c.images * positions_ <= kFewPositions),
        group_(max64(1, kPanelsBytes / (steps_ * kPanelStepBytes))),
        copies_(images_ * image_ + kTilePositions * pixels_.pixel),  // tiles may read beyond the last position
        taps_(c.taps),
        lying_(lying_taps(c)),
        rows_(lying_),
        bias_(blocks_ * kPanelLines),
        weights_(few_ ? 0 : blocks_ * steps_ * kPanelStepBytes) {
    for (int64_t t = 0; t < c.taps; ++t) taps_[t] = pixels_.at(c.tap[t][0], c.tap[t][1], c.tap[t][2]);
    for (int64_t o = 0; o < blocks_ * kPanelLines; ++o)
      bias_[o] = c.bias && o < c.out_channels ? bfloat16_bits_to_float(c.bias[o]) : 0.0f;
  }

  void run() const {
    if (few_) {
      pixels_.copy(c_.x + c_.first_channel, c_.x_image, c_.images, copies_.get());
      return run_few(c_.y);
    }
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
  // The weights' taps where these lie beside each other, channel by channel or output by output; else 0.
  static int64_t lying_taps(const DirectConv<uint16_t>& c) {
    const int64_t taps = min64(c.w_out, c.w_channel);
    bool beside = taps > 1 && taps <= TapRows::kMostTaps;
    for (int64_t t = 0; t < c.taps; ++t) beside = beside && c.tap_w[t] >= 0 && c.tap_w[t] < taps;
    return beside ? taps : 0;
  }

  // The block's 32 output channels by 32 input channels with all taps, whose memory is read but once.
  void pack_lying(int64_t b, int64_t s, char* block) const {
    constexpr int64_t kSquare = kPanelLines * kStepChannels;
    const int64_t o = b * kPanelLines, i = s * kStepChannels, lines = min64(kPanelLines, c_.out_channels - o),
                  channels = min64(kStepChannels, c_.in_channels - i);
    const bool by_channel = c_.w_channel == lying_;  // else by output
    const uint16_t* const from = c_.w + o * c_.w_out + i * c_.w_channel;
    ScratchArray<uint16_t> turned(c_.taps * kSquare);
    for (int64_t r = 0; r < (by_channel ? lines : channels); ++r)
      rows_.split(from + r * (by_channel ? c_.w_out : c_.w_channel), by_channel ? channels : lines, c_.tap_w, c_.taps,
                  turned.get() + r * kStepChannels, kSquare);
    for (int64_t t = 0; t < c_.taps; ++t)
      pack_panel_b(2, turned.get() + t * kSquare, by_channel ? kStepChannels : 1, by_channel ? 1 : kPanelLines, lines,
                   channels, block + (t * channel_steps_ + s) * kPanelStepBytes);
  }
  // Part i of parts() of a block's weights.
  int64_t parts() const { return lying_ ? channel_steps_ : c_.taps; }
  void pack_part(int64_t b, int64_t i, char* block) const {
    if (lying_) return pack_lying(b, i, block);
    const int64_t o = b * kPanelLines;
    pack_panel_b(2, c_.w + o * c_.w_out + c_.tap_w[i], c_.w_out, c_.w_channel, min64(kPanelLines, c_.out_channels - o),
                 c_.in_channels, block + i * channel_steps_ * kPanelStepBytes);
  }

  void pack_weights() const {
    const int64_t elements = pixels_.pixel * kPanelLines * c_.taps;
    parallel_for(blocks_ * parts(), max64(1, 16384 * parts() / elements), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        pack_part(i / parts(), i % parts(), weights_.get() + i / parts() * steps_ * kPanelStepBytes);
    });
  }

  // Whether a tap of a position lies in the image, not in its border.
  bool is_inside(const int64_t (&position)[3], int64_t t) const {
    for (int i = 0; i < 3; ++i) {
      const int64_t at = position[i] * c_.step[i] + c_.tap[t][i] - c_.border.low[i];
      if (at < 0 || at >= c_.in.size[i]) return false;
    }
    return true;
  }

  // Few positions of small images. Of each tap only those are multiplied where it meets the image, and each block's
  // weights are packed and used at once, as they would not stay in the cache.
  void run_few(uint16_t* y) const {
    const int64_t all = c_.images * positions_, row = kPanelLines * kPanelLines;
    ScratchArray<int64_t> places(all), rows(c_.taps * all),
        counts(c_.taps + 1);  // of y; of each tap, and of those before
    counts[0] = 0;
    for (int64_t t = 0; t < c_.taps; ++t) {
      counts[t + 1] = counts[t];
      for (int64_t p = 0; p < all; ++p)
        if (const Position at(c_, p % positions_); is_inside(at.place, t)) rows[counts[t + 1]++] = p;
    }
    int64_t panels = 0;
    ScratchArray<int64_t> first(c_.taps);  // panel of each tap
    for (int64_t t = 0; t < c_.taps; ++t) {
      first[t] = panels;
      panels += ceil_div(counts[t + 1] - counts[t], kPanelLines);
    }
    const int64_t panel = channel_steps_ * kPanelStepBytes;
    ScratchArray<char> packed(panels * panel);
    for (int64_t p = 0; p < all; ++p) {
      const Position at(c_, p % positions_);
      places[p] = p / positions_ * c_.y_image + at.place[0] * c_.y_step[0] + at.place[1] * c_.y_step[1] +
                  at.place[2] * c_.y_step[2];
    }
    parallel_for(c_.taps, 1, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t)
        pack_rows(t, rows.get() + counts[t], counts[t + 1] - counts[t], packed.get() + first[t] * panel);
    });
    parallel_for(blocks_, 1, [&](int64_t begin, int64_t end) {
      const TileScope tiles(level_);
      ScratchArray<char> weights(steps_ * kPanelStepBytes);
      ScratchArray<float> sums(ceil_div(all, kPanelLines) * row);
      alignas(64) float part[kPanelLines * kPanelLines];
      for (int64_t b = begin; b < end; ++b) {
        const int64_t channels = min64(kPanelLines, c_.out_channels - b * kPanelLines);
        for (int64_t i = 0; i < parts(); ++i) pack_part(b, i, weights.get());
        std::memset(sums.get(), 0, static_cast<size_t>(all * kPanelLines) * sizeof(float));
        for (int64_t t = 0; t < c_.taps; ++t)
          for (int64_t r = counts[t], n; r < counts[t + 1]; r += n) {
            n = min64(kPanelLines, counts[t + 1] - r);
            block_(channel_steps_, packed.get() + (first[t] + (r - counts[t]) / kPanelLines) * panel,
                   weights.get() + t * panel, n, channels, part, kPanelLines, false);
            for (int64_t i = 0; i < n; ++i) add_row(part + i * kPanelLines, sums.get() + rows[r + i] * kPanelLines);
          }
        for (int64_t p = 0; p < all; p += kPanelLines)
          store(sums.get() + p * kPanelLines, min64(kPanelLines, all - p), b * kPanelLines, channels, places.get() + p,
                y);
      }
    });
  }
  struct Position {
    Position(const DirectConv<uint16_t>& c, int64_t p)
        : place{p / c.size[2] / c.size[1], p / c.size[2] % c.size[1], p % c.size[2]} {}
    int64_t place[3];
  };
  __attribute__((target("avx512f"))) static void add_row(const float* from, float* to) {
    for (int64_t i = 0; i < kPanelLines; i += 16)
      _mm512_storeu_ps(to + i, _mm512_add_ps(_mm512_loadu_ps(to + i), _mm512_loadu_ps(from + i)));
  }
  // The places of one tap, by positions, as panels of their own.
  void pack_rows(int64_t t, const int64_t* rows, int64_t count, char* panels) const {
    for (int64_t r = 0; r < count; r += kPanelLines, panels += channel_steps_ * kPanelStepBytes)
      for (int64_t i = 0; i < kPanelLines; ++i) {
        const int64_t p = rows[r + i < count ? r + i : r];
        const Position at(c_, p % positions_);
        const uint16_t* const from =
            copies_.get() + p / positions_ * image_ + taps_[t] +
            pixels_.at(at.place[0] * c_.step[0], at.place[1] * c_.step[1], at.place[2] * c_.step[2]);
        for (int64_t s = 0; s < channel_steps_; ++s)
          copy_step(from + s * kStepChannels, panels + s * kPanelStepBytes + i * kStepBytes);
      }
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
  const int64_t positions_, blocks_, images_;  // positions of an image
  const bool few_;
  const int64_t group_;
  ScratchArray<uint16_t> copies_;
  ScratchArray<int64_t> taps_;
  const int64_t lying_;
  const TapRows rows_;
  ScratchArray<float> bias_;
  ScratchArray<char> weights_;
};

// The gradient of the weights of one group: for each tap and 32 input channels, the product of the gradients (output
// channels by positions) and the input there (positions by channels). Positions are taken in runs that begin a step:
// whole lines where they fill their steps well enough, so that the taps above each other share the input's panels; else
// whole images, and of small ones the whole batch.
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
        batch_(!by_lines_ && positions_ <= kSmallImage && positions_ % kStepChannels != 0),
        run_(by_lines_ ? g.out_size[2]
             : batch_  ? g.batch * positions_
                       : positions_),
        run_steps_(ceil_div(run_, kStepChannels)),
        runs_(positions_ / min64(run_, positions_)),
        blocks_(ceil_div(out_c_, kPanelLines)),
        shared_(by_lines_ ? g.kernel[0] * g.kernel[1] : 1),
        pixels_({{g.in_size[0], g.in_size[1], g.in_size[2]}, channels_last ? g.in_channels : 1, channels_last},
                border_of(g), in_c_),
        copies_(g.batch * pixels_.image),
        panels_(blocks_ * steps() * kPanelStepBytes),
        taps_(volume(g.kernel)),
        joined_(!last_ && taps_ > 1 && taps_ <= TapRows::kMostTaps),
        row_(pixels_.steps * kStepChannels),
        by_channel_(joined_ && !by_lines_ && steps() <= kChunk),
        by_tap_(joined_ && !by_channel_ ? taps_ * out_c_ * row_ : 0) {}

  void run(const uint16_t* dy, const uint16_t* x, uint16_t* dw) const {
    const int64_t tasks = volume(g_.kernel) / shared_;
    for (int64_t group = 0; group < g_.groups; ++group) {
      pixels_.copy(x + group * in_c_ * pixels_.in.channel(), g_.in_channels * volume(g_.in_size), g_.batch,
                   copies_.get());
      pack_gradients(dy + group * out_c_ * (last_ ? 1 : positions_));
      uint16_t* const to = dw + group * out_c_ * in_c_ * volume(g_.kernel);
      if (by_channel_) {
        const TapRows rows(taps_);
        parallel_for(pixels_.steps, 1, [&](int64_t begin, int64_t end) {
          const TileScope tiles(level_);
          for (int64_t i = begin; i < end; ++i) channels_task(rows, i, to);
        });
        continue;
      }
      parallel_for(tasks * pixels_.steps, 1, [&](int64_t begin, int64_t end) {
        const TileScope tiles(level_);
        for (int64_t i = begin; i < end; ++i)
          by_lines_ ? lines_task(i % tasks, i / tasks, to) : tap_task(i % tasks, i / tasks, to);
      });
      if (joined_) join_all(to);
    }
  }

 private:
  static constexpr int64_t kChunk = 16;        // steps of positions at once
  static constexpr int64_t kSmallImage = 256;  // positions

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

  int64_t all_runs() const { return batch_ ? 1 : g_.batch * runs_; }
  int64_t steps() const { return all_runs() * run_steps_; }
  // The gradients of block b from step s on.
  const char* gradients(int64_t b, int64_t s) const { return panels_.get() + (b * steps() + s) * kPanelStepBytes; }
  // The whole batch as one run: of channels last it lies so.
  void pack_batch(const uint16_t* dy) const {
    parallel_for(blocks_ * run_steps_, 16, [&](int64_t begin, int64_t end) {
      alignas(64) uint16_t lines[kPanelLines * kStepChannels];
      for (int64_t i = begin; i < end; ++i) {
        const int64_t o = i / run_steps_ * kPanelLines, p = i % run_steps_ * kStepChannels,
                      n = min64(kStepChannels, run_ - p), count = min64(kPanelLines, out_c_ - o);
        char* const to = panels_.get() + i * kPanelStepBytes;
        if (last_) {
          pack_panel_a(2, dy + p * g_.out_channels + o, 1, g_.out_channels, count, n, 0, to);
          continue;
        }
        for (int64_t q = 0, m; q < n; q += m) {  // what lies in one image
          const int64_t image = (p + q) / positions_, at = (p + q) % positions_;
          m = min64(n - q, positions_ - at);
          const uint16_t* const from = dy + (image * g_.out_channels + o) * positions_ + at;
          for (int64_t r = 0; r < count; ++r)
            std::memcpy(lines + r * kStepChannels + q, from + r * positions_, static_cast<size_t>(m) * 2);
        }
        pack_panel_a(2, lines, kStepChannels, 1, count, n, 0, to);
      }
    });
  }
  void pack_gradients(const uint16_t* dy) const {
    if (batch_) return pack_batch(dy);
    const int64_t runs = all_runs();
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

  // All taps of some channels, where few steps of positions leave room for them.
  void channels_task(const TapRows& rows, int64_t channel_step, uint16_t* dw) const {
    constexpr int64_t kSquare = kPanelLines * kStepChannels;
    const int64_t channel = channel_step * kStepChannels, channels = min64(kStepChannels, in_c_ - channel), n = steps();
    ScratchArray<char> input(taps_ * n * kPanelStepBytes);
    for (int64_t t = 0; t < taps_; ++t)
      for (int64_t s = 0; s < n; ++s)
        pack_positions(tap_image(t) + channel, s, input.get() + (t * n + s) * kPanelStepBytes);
    ScratchArray<uint16_t> rounded(taps_ * kSquare);
    alignas(64) float sums[kSquare];
    for (int64_t b = 0; b < blocks_; ++b) {
      const int64_t lines = min64(kPanelLines, out_c_ - b * kPanelLines);
      for (int64_t t = 0; t < taps_; ++t) {
        multiply(n, b, 0, input.get() + t * n * kPanelStepBytes, channel_step, sums, false);
        for (int64_t o = 0; o < lines; ++o)
          round_row(sums + o * kPanelLines, kStepChannels, rounded.get() + t * kSquare + o * kStepChannels);
      }
      for (int64_t o = 0; o < lines; ++o)
        rows.join(rounded.get() + o * kStepChannels, kSquare, channels,
                  dw + ((b * kPanelLines + o) * in_c_ + channel) * taps_);
    }
  }

  // Where the copied images begin for a tap.
  const uint16_t* tap_image(int64_t tap) const {
    const int64_t w = tap % g_.kernel[2], h = tap / g_.kernel[2] % g_.kernel[1], e = tap / g_.kernel[2] / g_.kernel[1];
    return copies_.get() + pixels_.at(e * g_.dilation[0], h * g_.dilation[1], w * g_.dilation[2]);
  }
  // One tap; the input's panels are packed for it alone.
  void tap_task(int64_t tap, int64_t channel_step, uint16_t* dw) const {
    const uint16_t* const x = tap_image(tap) + channel_step * kStepChannels;
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
                  out = in_c_ * taps_, in = last_ ? 1 : taps_;
    uint16_t* const to =
        joined_ ? by_tap_.get() + tap * out_c_ * row_ + channel : dw + channel * in + tap * (last_ ? in_c_ : 1);
    const int64_t to_row = joined_ ? row_ : out;
    for (int64_t o = 0; o < out_c_; ++o) {
      if (joined_ || in == 1) {
        round_row(sums + o * kPanelLines, joined_ ? kStepChannels : channels, to + o * to_row);
        continue;
      }
      for (int64_t c = 0; c < channels; ++c)
        to[o * to_row + c * in] = float_to_bfloat16_bits(sums[o * kPanelLines + c]);
    }
  }
  // Taps beside each other, as the weights have them.
  void join_all(uint16_t* dw) const {
    const TapRows rows(taps_);
    parallel_for(out_c_, max64(1, 16384 / (in_c_ * taps_)), [&](int64_t begin, int64_t end) {
      for (int64_t o = begin; o < end; ++o)
        for (int64_t c = 0; c < in_c_; c += kStepChannels)
          rows.join(by_tap_.get() + o * row_ + c, out_c_ * row_, min64(kStepChannels, in_c_ - c),
                    dw + (o * in_c_ + c) * taps_);
    });
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
    const int64_t first = step % run_steps_ * kStepChannels, place = first % positions_;
    int64_t image = batch_ ? first / positions_ : step / run_steps_, w = place % g_.out_size[2],
            h = place / g_.out_size[2] % g_.out_size[1], e = place / g_.out_size[2] / g_.out_size[1];
    const uint16_t* rows[kStepChannels];
    for (int64_t i = 0; i < kStepChannels; ++i) {
      rows[i] = first + i < run_
                    ? x + image * pixels_.image + pixels_.at(e * g_.stride[0], h * g_.stride[1], w * g_.stride[2])
                    : kZero;
      if (++w < g_.out_size[2]) continue;
      w = 0;
      if (++h < g_.out_size[1]) continue;
      h = 0;
      if (++e < g_.out_size[0]) continue;
      e = 0;
      ++image;
    }
    pack_step(rows, to);
  }

  const ConvGeometry& g_;
  const bool last_;
  const PanelLevel level_;
  const PanelBlock block_;
  const int64_t in_c_, out_c_, positions_;
  const bool by_lines_, batch_;
  const int64_t run_, run_steps_, runs_, blocks_,
      shared_;  // positions of a run, their steps, runs of an image; blocks of output channels; taps that share panels
  const PixelCopies pixels_;
  ScratchArray<uint16_t> copies_;
  ScratchArray<char> panels_;
  const int64_t taps_;
  const bool joined_;  // the results go to by_tap_ first: [taps][out_c_][row_]
  const int64_t row_;
  const bool by_channel_;
  ScratchArray<uint16_t> by_tap_;
};

}  // namespace

void direct_conv(const DirectConv<uint16_t>& c) { Plan(c).run(); }

void bf16_backward_weight(const ConvGeometry& g, const uint16_t* dy, const uint16_t* x, uint16_t* dw) {
  WeightPlan(g, g.channels_last).run(dy, x, dw);
}

}  // namespace tessera::cpu::internal
