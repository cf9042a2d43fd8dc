// Convolutions with many weights for few positions: all positions of the batch together are the vectors, and the
// weights are read where they lie, an element for all positions at a time.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "nn/cpu/conv/conv_narrow.cc"
#include <cstdlib>
#include <cstring>

#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "tensor/core/parallel.h"
#include "nn/cpu/conv/conv_direct.h"
#include "nn/cpu/conv/conv_images.h"
#include "tensor/cpu/support/integer.h"
#include "tensor/cpu/support/types.h"
#include "tensor/cpu/support/scratch.h"
#include "tensor/cpu/support/simd.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::internal {
namespace HWY_NAMESPACE {
#if HWY_TARGET == HWY_SSE4
// The baseline takes other ways (choose.cc).
void NarrowConvolution(const DirectConv<float>&) { std::abort(); }
void NarrowWeights(const DirectWeight&) { std::abort(); }
#else
namespace {

namespace hn = hwy::HWY_NAMESPACE;
constexpr hn::ScalableTag<float> df;
constexpr hn::RebindToSigned<decltype(df)> di;
constexpr int64_t kLanes = HWY_MAX_BYTES / sizeof(float);
// Steps of the sums at once: a row's weights are read as far, from memory that is fastest in order.
constexpr int64_t kSteps = 2304;
// Output channels of a task. Where weights are widened to float32, those of all its rows have to stay in the cache.
constexpr int64_t kRange = 128, kWidenedRange = 32;

// Where the elements of a window begin: those of output position i of all images.
template <class Problem>
int32_t place_of(const Problem& c, const ImageLayout& padded, int64_t image, int64_t i) {
  const int64_t w = i % c.size[2], h = i / c.size[2] % c.size[1], e = i / c.size[2] / c.size[1] % c.size[0];
  return static_cast<int32_t>(i / volume(c.size) * image + e * c.step[0] * padded.step(0) +
                              h * c.step[1] * padded.step(1) + w * c.step[2] * padded.step(2));
}
HWY_INLINE void gather(const float* from, const int32_t* places, int64_t n, float* to) {
  for (int64_t i = 0; i < n; i += kLanes) hn::StoreU(hn::GatherIndex(df, from, hn::LoadU(di, places + i)), df, to + i);
}

class ForwardPlan {
 public:
  explicit ForwardPlan(const DirectConv<float>& c)
      : c_(c),
        images_(c, c.images),
        k_(c.in_channels * c.taps),
        plane_(volume(c.size)),
        positions_(c.images * plane_),
        width_(positions_ > kLanes ? 2 * kLanes : kLanes),
        panels_(ceil_div(positions_, width_)),
        chunks_(ceil_div(k_, kSteps)),
        chunk_(ceil_div(k_, chunks_)),
        offsets_(k_),
        x_offsets_(k_),
        places_(panels_ * width_),
        columns_(chunks_ * chunk_ * panels_ * width_) {
    const bool last = c.in.channels_last;
    for (int64_t p = 0; p < k_; ++p) {
      const int64_t channel = last ? p % c.in_channels : p / c.taps, tap = last ? p / c.in_channels : p % c.taps;
      const int64_t* const at = c.tap[tap];
      offsets_[p] = channel * c.w_channel + c.tap_w[tap];
      x_offsets_[p] = channel * images_.padded.channel() + at[0] * images_.padded.step(0) +
                      at[1] * images_.padded.step(1) + at[2] * images_.padded.step(2);
    }
    for (int64_t i = 0; i < panels_ * width_; ++i)
      places_[i] = place_of(c, images_.padded, images_.image, i < positions_ ? i : 0);
  }

  void run() const {
    const float* const x = images_.take(c_, 0, c_.images);
    parallel_for(k_, max64(1, 16384 / (panels_ * width_)), [&](int64_t begin, int64_t end) HWY_ATTR {
      for (int64_t p = begin; p < end; ++p)
        for (int64_t i = 0; i < panels_; ++i)
          gather(x + x_offsets_[p], places_.get() + i * width_, width_,
                 columns_.get() + ((p / chunk_ * panels_ + i) * chunk_ + p % chunk_) * width_);
    });
    int64_t ranges = ceil_div(c_.out_channels, c_.w.is_float() ? kRange : kWidenedRange);
    if (ranges > 1) ranges += ranges & 1;
    parallel_for(ranges, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) run_range(i * c_.out_channels / ranges, (i + 1) * c_.out_channels / ranges);
    });
  }

 private:
  // The weights of some output channels, a chunk at a time: where they lie or, reduced, widened for the chunk. These
  // are runs of neighbours: a row's where a row's weights lie together, else those of all rows.
  class Weights {
   public:
    Weights(const ForwardPlan& plan, int64_t rows)
        : plan_(plan),
          c_(plan.c_),
          rows_(rows),
          by_rows_(c_.w_out > c_.w_channel),
          offsets_(c_.w.is_float() ? 0 : plan.chunk_),
          room_(c_.w.is_float()             ? 0
                : by_rows_ || c_.w_out == 1 ? plan.chunk_ * rows
                                            : (plan.chunk_ / c_.taps + 2) * c_.w_out * rows) {}

    // Where the first row begins; the tile's offsets, and its step from row to row.
    const float* take(int64_t first, int64_t chunk, TileArgs& args) const {
      const int64_t* const offsets = plan_.offsets_.get() + chunk * plan_.chunk_;
      args.offsets = c_.w.is_float() ? offsets : offsets_.get();
      args.step = c_.w_out;
      if (c_.w.is_float()) return c_.w.floats() + first * c_.w_out;
      if (by_rows_) {  // each of a row's once, in their order
        args.step = args.k;
        for (int64_t p = 0; p < args.k; ++p) offsets_[p] = p;
        for (int64_t r = 0; r < rows_; ++r)
          (c_.w + ((first + r) * c_.w_out + offsets[0])).read(args.k, room_.get() + r * args.k);
        return room_.get();
      }
      const int64_t size = rows_ * c_.w_out;
      for (int64_t p = 0, from = -1, to = -size; p < args.k; ++p) {
        const int64_t run = c_.w_out == 1 ? offsets[p] : (chunk * plan_.chunk_ + p) / c_.taps * c_.w_channel;
        if (run != from) {
          from = run;
          to += size;
          const Numbers next = c_.w + (run + first * c_.w_out + 2 * c_.w_channel);  // it lies far from this one
          for (int64_t i = 0; i < size; i += 32) __builtin_prefetch((next + i).address());
          (c_.w + (run + first * c_.w_out)).read(size, room_.get() + to);
        }
        offsets_[p] = to + offsets[p] - run;
      }
      return room_.get();
    }

   private:
    const ForwardPlan& plan_;
    const DirectConv<float>& c_;
    const int64_t rows_;
    const bool by_rows_;
    ScratchArray<int64_t> offsets_;
    ScratchArray<float> room_;
  };

  // Output channels [begin, end).
  void run_range(int64_t begin, int64_t end) const {
    const int64_t rows = end - begin, width = panels_ * width_;
    const Weights weights(*this, rows);
    ScratchArray<float> sums(rows * width), zeros(width_);
    std::memset(zeros.get(), 0, width_ * sizeof(float));
    TileArgs args;
    args.c_row = width;
    for (int64_t chunk = 0; chunk < chunks_; ++chunk) {
      args.k = chunk_ < k_ - chunk * chunk_ ? chunk_ : k_ - chunk * chunk_;
      const float* const w = weights.take(begin, chunk, args);
      const TileCut cut = cut_positions(rows, width_ / kLanes, args.step);
      args.start = chunk == 0 ? zeros.get() : nullptr;
      for (int64_t i = 0; i < panels_; ++i) {
        args.x = w;
        args.w = columns_.get() + (chunk * panels_ + i) * chunk_ * width_;
        args.c = sums.get() + i * width_;
        run_tiles(cut, args);
      }
    }
    store(begin, end, sums.get(), width);
  }
  void store(int64_t begin, int64_t end, const float* sums, int64_t width) const {
    for (int64_t o = begin; o < end; ++o, sums += width) {
      const float bias = c_.bias ? c_.bias.get(o) : 0.0f;
      for (int64_t i = 0; i < positions_; i += c_.size[2]) {
        const int64_t line = i / c_.size[2], h = line % c_.size[1], e = line / c_.size[1] % c_.size[0];
        const Numbers y = c_.y + (i / plane_ * c_.y_image + o * c_.y_channel + e * c_.y_step[0] + h * c_.y_step[1]);
        for (int64_t w = 0; w < c_.size[2]; ++w) y.put(w * c_.y_step[2], sums[i + w] + bias);
      }
    }
  }

  const DirectConv<float>& c_;
  const Images images_;
  const int64_t k_, plane_, positions_, width_, panels_, chunks_, chunk_;
  ScratchArray<int64_t> offsets_, x_offsets_;
  ScratchArray<int32_t> places_;
  ScratchArray<float> columns_;
};

// The gradient of the weights: vectors of them, rows of output channels.
class WeightPlan {
 public:
  explicit WeightPlan(const DirectWeight& c)
      : c_(c),
        images_(c, c.images),
        taps_(volume(c.kernel)),
        k_(c.in_channels * taps_),
        plane_(volume(c.size)),
        positions_(c.images * plane_),
        panels_(ceil_div(k_, kPanel)),
        offsets_(positions_),
        places_(panels_ * kPanel),
        gradients_(c.out_channels * positions_) {
    for (int64_t p = 0; p < panels_ * kPanel; ++p) {
      const int64_t q = p < k_ ? p : 0, channel = c.in.channels_last ? q % c.in_channels : q / taps_,
                    t = c.in.channels_last ? q / c.in_channels : q % taps_;
      const int64_t w = t % c.kernel[2], h = t / c.kernel[2] % c.kernel[1], e = t / c.kernel[2] / c.kernel[1];
      const int64_t at = e * c.dilation[0] * images_.padded.step(0) + h * c.dilation[1] * images_.padded.step(1) +
                         w * c.dilation[2] * images_.padded.step(2);
      places_[p] = static_cast<int32_t>(channel * images_.padded.channel() + at);
    }
    for (int64_t i = 0; i < positions_; ++i) offsets_[i] = i;
    const int64_t reach =
        (c.images - 1) * c.dy_image + (c.out_channels - 1) * c.dy_channel + (plane_ - 1) * c.dy_step[2] + 1;
    ScratchArray<float> wide(c.dy.is_float() ? 0 : reach);
    if (!c.dy.is_float()) c.dy.read(reach, wide.get());
    const float* const dy = c.dy.is_float() ? c.dy.floats() : wide.get();
    for (int64_t o = 0; o < c.out_channels; ++o)
      for (int64_t i = 0; i < positions_; ++i)
        gradients_[o * positions_ + i] = dy[i / plane_ * c.dy_image + o * c.dy_channel + i % plane_ * c.dy_step[2]];
  }

  void run() const {
    const float* const x = images_.take(c_, 0, c_.images);
    parallel_for(ceil_div(panels_, kPanels), 1, [&](int64_t begin, int64_t end) HWY_ATTR {
      for (int64_t i = begin; i < end; ++i)
        run_panels(x, i * kPanels, (i + 1) * kPanels < panels_ ? (i + 1) * kPanels : panels_);
    });
  }

 private:
  static constexpr int64_t kPanel = 2 * kLanes, kPanels = 8, kRows = 14;

  void run_panels(const float* x, int64_t begin, int64_t end) const {
    const int64_t size = positions_ * kPanel, rest = k_ % kPanel, all = kPanels * kPanel;
    ScratchArray<float> columns((end - begin) * size), zeros(kPanel), aside(kRows * all);
    std::memset(zeros.get(), 0, kPanel * sizeof(float));
    for (int64_t p = begin; p < end; ++p)
      for (int64_t i = 0; i < positions_; ++i)
        gather(x + place_of(c_, images_.padded, images_.image, i), places_.get() + p * kPanel, kPanel,
               columns.get() + (p - begin) * size + i * kPanel);
    TileArgs args;
    args.k = positions_;
    args.offsets = offsets_.get();
    args.step = positions_;
    args.start = zeros.get();
    for (int64_t o = 0; o < c_.out_channels; o += kRows) {
      const int64_t rows = c_.out_channels - o < kRows ? c_.out_channels - o : kRows;
      const TileCut cut = cut_positions(rows, 2, positions_);
      for (int64_t p = begin; p < end; ++p) {
        const bool in_place = c_.dw.is_float() && (p + 1 < panels_ || rest == 0);
        args.x = gradients_.get() + o * positions_;
        args.w = columns.get() + (p - begin) * size;
        args.c = in_place ? c_.dw.floats() + o * k_ + p * kPanel : aside.get() + (p - begin) * kPanel;
        args.c_row = in_place ? k_ : all;
        run_tiles(cut, args);
      }
      const int64_t first = c_.dw.is_float() ? k_ - rest : begin * kPanel, cols = min64(k_, end * kPanel) - first;
      for (int64_t r = 0; r < rows && cols > 0; ++r)
        (c_.dw + ((o + r) * k_ + first)).write(cols, aside.get() + r * all + first - begin * kPanel);
    }
  }

  const DirectWeight& c_;
  const Images images_;
  const int64_t taps_, k_, plane_, positions_, panels_;
  ScratchArray<int64_t> offsets_;
  ScratchArray<int32_t> places_;
  ScratchArray<float> gradients_;
};

}  // namespace

void NarrowConvolution(const DirectConv<float>& c) { ForwardPlan(c).run(); }
void NarrowWeights(const DirectWeight& c) { WeightPlan(c).run(); }
#endif

}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu::internal
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::cpu::internal {

TESSERA_SIMD_TABLE(NarrowConvolution);
TESSERA_SIMD_TABLE(NarrowWeights);

void narrow_conv(const DirectConv<float>& c) { TESSERA_SIMD(NarrowConvolution)(c); }
void narrow_weight(const DirectWeight& c) { TESSERA_SIMD(NarrowWeights)(c); }

}  // namespace tessera::cpu::internal
#endif
