// Convolution of bfloat16 on the CPU's dot products. Images are copied with a border and channels last, in whole steps of 32 channels; 32 positions of them, tap after tap,
// are a panel of the product's left side, and the weights of 32 output channels one of the right side.
#include <immintrin.h>

#include <cstring>

#include "tensor/core/half.h"
#include "tensor/core/parallel.h"
#include "tensor/cpu/conv_direct.h"
#include "tensor/cpu/gemm_amx.h"
#include "tensor/cpu/nn_types.h"
#include "tensor/cpu/scratch.h"

namespace tessera::cpu::internal {

bool has_bf16_conv() { return bf16_panel_level() != PanelLevel::kNone; }

namespace {

constexpr int64_t kImageElements = int64_t{1} << 19;  // of the images copied at once
constexpr int64_t kPanelsBytes = int64_t{1} << 19;    // of the panels of positions packed at once
constexpr int64_t kStepChannels = kStepBytes / 2;

inline int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }
inline int64_t max64(int64_t a, int64_t b) { return a > b ? a : b; }

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
  const __m512i all = _mm512_inserti64x4(_mm512_castsi256_si512(rounded(_mm512_loadu_ps(from))), rounded(_mm512_loadu_ps(from + 16)), 1);
  _mm512_mask_storeu_epi16(to, n >= 32 ? ~__mmask32{0} : (__mmask32{1} << n) - 1, all);
}
__attribute__((target("avx512f"))) inline void copy_step(const uint16_t* from, char* to) { _mm512_storeu_si512(to, _mm512_loadu_si512(from)); }

class Plan {
 public:
  explicit Plan(const DirectConv<uint16_t>& c)
      : c_(c),
        level_(bf16_panel_level()),
        block_(bf16_panel_block(level_)),
        padded_(c.in.with(c.border)),
        channel_steps_(ceil_div(c.in_channels, kStepChannels)),
        steps_(c.taps * channel_steps_),
        pixel_(channel_steps_ * kStepChannels),
        image_(padded_.size[0] * padded_.size[1] * padded_.size[2] * pixel_),
        positions_(volume(c.size)),
        blocks_(ceil_div(c.out_channels, kPanelLines)),
        images_(max64(1, min64(c.images, kImageElements / image_))),
        group_(max64(1, kPanelsBytes / (steps_ * kPanelStepBytes))),
        copies_(images_ * image_),
        taps_(c.taps),
        bias_(blocks_ * kPanelLines),
        weights_(blocks_ * steps_ * kPanelStepBytes) {
    for (int64_t t = 0; t < c.taps; ++t) taps_[t] = ((c.tap[t][0] * padded_.size[1] + c.tap[t][1]) * padded_.size[2] + c.tap[t][2]) * pixel_;
    for (int64_t o = 0; o < blocks_ * kPanelLines; ++o) bias_[o] = c.bias && o < c.out_channels ? bfloat16_bits_to_float(c.bias[o]) : 0.0f;
  }

  void run() const {
    pack_weights();
    for (int64_t n = 0; n < c_.images; n += images_) {
      const int64_t count = min64(images_, c_.images - n);
      copy_images(c_.x + n * c_.x_image, count);
      uint16_t* const y = c_.y + n * c_.y_image;
      const int64_t all = count * positions_, step = group_ * kPanelLines;
      parallel_for(ceil_div(all, step), 1, [&](int64_t begin, int64_t end) {
        const TileScope tiles(level_);
        for (int64_t i = begin; i < end; ++i) run_group(i * step, min64(all, (i + 1) * step), y);
      });
    }
  }

 private:
  void pack_weights() const {
    parallel_for(blocks_ * c_.taps, max64(1, 16384 / (pixel_ * kPanelLines)), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t b = i / c_.taps, t = i % c_.taps, o = b * kPanelLines;
        pack_panel_b(2, c_.w + o * c_.w_out + c_.tap_w[t], c_.w_out, c_.w_channel, min64(kPanelLines, c_.out_channels - o), c_.in_channels,
                     weights_.get() + (b * steps_ + t * channel_steps_) * kPanelStepBytes);
      }
    });
  }

  // One line of an image at a time, through a panel where its channels have to be brought together.
  void copy_images(const uint16_t* x, int64_t count) const {
    const int64_t lines = padded_.size[0] * padded_.size[1], line = padded_.size[2] * pixel_, row = c_.in.size[2];
    parallel_for(count * lines, max64(1, 32768 / line), [&](int64_t begin, int64_t end) {
      ScratchArray<char> panel(channel_steps_ * kPanelStepBytes);
      for (int64_t i = begin; i < end; ++i) {
        uint16_t* const to = copies_.get() + i * line;
        const int64_t h = i % padded_.size[1] - c_.border.low[1], e = i / padded_.size[1] % padded_.size[0] - c_.border.low[0];
        if (h < 0 || h >= c_.in.size[1] || e < 0 || e >= c_.in.size[0]) {
          std::memset(to, 0, line * 2);
          continue;
        }
        const uint16_t* const from = x + i / lines * c_.x_image + c_.first_channel + e * c_.in.step(0) + h * c_.in.step(1);
        std::memset(to, 0, c_.border.low[2] * pixel_ * 2);
        for (int64_t w = 0; w < row; w += kPanelLines) {
          const int64_t n = min64(kPanelLines, row - w);
          uint16_t* const pixels = to + (c_.border.low[2] + w) * pixel_;
          pack_panel_a(2, from + w * c_.in.unit, c_.in.unit, c_.in.channel(), n, c_.in_channels, 0, panel.get());
          for (int64_t q = 0; q < n; ++q)
            for (int64_t s = 0; s < channel_steps_; ++s)
              copy_step(reinterpret_cast<const uint16_t*>(panel.get() + s * kPanelStepBytes + q * kStepBytes), reinterpret_cast<char*>(pixels + q * pixel_ + s * kStepChannels));
        }
        std::memset(to + (c_.border.low[2] + row) * pixel_, 0, c_.border.high[2] * pixel_ * 2);
      }
    });
  }

  // Positions [begin, end) of the copied images, for all output channels.
  void run_group(int64_t begin, int64_t end, uint16_t* y) const {
    ScratchArray<char> panels(group_ * steps_ * kPanelStepBytes);
    ScratchArray<int64_t> places(end - begin);  // in y
    for (int64_t p = begin; p < end; p += kPanelLines)
      pack_positions(p, min64(kPanelLines, end - p), panels.get() + (p - begin) / kPanelLines * steps_ * kPanelStepBytes, places.get() + (p - begin));
    alignas(64) float sums[kPanelLines * kPanelLines];
    for (int64_t b = 0; b < blocks_; ++b) {
      const int64_t channels = min64(kPanelLines, c_.out_channels - b * kPanelLines);
      for (int64_t p = begin; p < end; p += kPanelLines) {
        const int64_t n = min64(kPanelLines, end - p);
        block_(steps_, panels.get() + (p - begin) / kPanelLines * steps_ * kPanelStepBytes, weights_.get() + b * steps_ * kPanelStepBytes, n, channels, sums, kPanelLines, false);
        store(sums, n, b * kPanelLines, channels, places.get() + (p - begin), y);
      }
    }
  }

  void pack_positions(int64_t p, int64_t count, char* panel, int64_t* places) const {
    int64_t from[kPanelLines];
    for (int64_t i = 0; i < count; ++i) {
      const int64_t at = p + i, w = at % c_.size[2], h = at / c_.size[2] % c_.size[1], e = at / c_.size[2] / c_.size[1] % c_.size[0], n = at / positions_;
      from[i] = n * image_ + ((e * c_.step[0] * padded_.size[1] + h * c_.step[1]) * padded_.size[2] + w * c_.step[2]) * pixel_;
      places[i] = n * c_.y_image + e * c_.y_step[0] + h * c_.y_step[1] + w * c_.y_step[2];
    }
    for (int64_t i = count; i < kPanelLines; ++i) from[i] = from[0];
    for (int64_t t = 0; t < c_.taps; ++t)
      for (int64_t s = 0; s < channel_steps_; ++s, panel += kPanelStepBytes) {
        const uint16_t* const x = copies_.get() + taps_[t] + s * kStepChannels;
        for (int64_t i = 0; i < kPanelLines; ++i) copy_step(x + from[i], panel + i * kStepBytes);
      }
  }

  // sums: positions by channels.
  void store(float* sums, int64_t count, int64_t first, int64_t channels, const int64_t* places, uint16_t* y) const {
    if (c_.bias)
      for (int64_t i = 0; i < count; ++i)
        for (int64_t o = 0; o < kPanelLines; ++o) sums[i * kPanelLines + o] += bias_[first + o];
    if (c_.y_channel == 1) {
      for (int64_t i = 0; i < count; ++i) round_row(sums + i * kPanelLines, channels, y + places[i] + first);
      return;
    }
    alignas(64) float turned[kPanelLines * kPanelLines + kPanelLines];  // rows are read in whole vectors
    transpose_32(sums, turned);
    for (int64_t i = 0; i < count;) {
      int64_t n = 1;  // positions that follow each other
      while (i + n < count && places[i + n] == places[i] + n) ++n;
      for (int64_t o = 0; o < channels; ++o) {
        uint16_t* const to = y + places[i] + (first + o) * c_.y_channel;
        if (n > 1) round_row(turned + o * kPanelLines + i, n, to);
        else *to = float_to_bfloat16_bits(turned[o * kPanelLines + i]);
      }
      i += n;
    }
  }
  const DirectConv<uint16_t>& c_;
  const PanelLevel level_;
  const PanelBlock block_;
  const ImageLayout padded_;
  const int64_t channel_steps_, steps_, pixel_, image_, positions_, blocks_, images_, group_;
  ScratchArray<uint16_t> copies_;
  ScratchArray<int64_t> taps_;
  ScratchArray<float> bias_;
  ScratchArray<char> weights_;
};

}  // namespace

void direct_conv(const DirectConv<uint16_t>& c) { Plan(c).run(); }

}  // namespace tessera::cpu::internal
