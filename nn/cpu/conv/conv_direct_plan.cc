// Convolutions and their input gradients as direct convolutions: which taps a position takes, and the border that they
// reach into.
#include <algorithm>
#include <vector>

#include "tensor/core/parallel.h"
#include "nn/cpu/conv/conv_direct.h"
#include "tensor/cpu/support/types.h"
#include "tensor/cpu/support/scratch.h"

namespace tessera::cpu::internal {
namespace {

inline int64_t at_least_zero(int64_t x) { return x > 0 ? x : 0; }

ImageLayout layout_of(const int64_t (&size)[3], int64_t channels, bool channels_last) {
  return {{size[0], size[1], size[2]}, channels_last ? channels : 1, channels_last};
}

// Where the elements of one group of a tensor (images, channels, ...) or (images, ..., channels) lie.
struct Planes {
  ImageLayout layout;
  int64_t channels, per_group;
  int64_t image() const { return layout.plane() * (layout.channels_last ? 1 : channels); }
  int64_t group(int64_t i) const { return i * per_group * layout.channel(); }
};
Planes tensor_of(const int64_t (&size)[3], int64_t channels, int64_t groups, bool channels_last) {
  return {layout_of(size, channels, channels_last), channels, channels / groups};
}

template <class Problem, class E>  // DirectConv or DirectWeight
void set_x(Problem& c, const Planes& t, int64_t group, E x) {
  c.in = t.layout;
  c.in_channels = t.per_group;
  c.x = x + (t.layout.channels_last ? 0 : t.group(group));
  c.x_image = t.image();
  c.first_channel = t.layout.channels_last ? t.group(group) : 0;
}

// A tap of the kernel by its place there.
struct Taps {
  std::vector<int64_t> at, w;  // three of `at` for each
  void add(int64_t d, int64_t h, int64_t w_at, int64_t index) {
    at.insert(at.end(), {d, h, w_at});
    w.push_back(index);
  }
  template <class E>
  void give_to(DirectConv<E>& c) const {
    c.taps = static_cast<int64_t>(w.size());
    c.tap = reinterpret_cast<const int64_t(*)[3]>(at.data());
    c.tap_w = w.data();
  }
};

// Element strides of the weights of a group: (out, in, taps), or (out, taps, in).
struct Weights {
  Weights(const ConvGeometry& g, bool channels_last)
      : in_c(g.in_channels / g.groups),
        taps(volume(g.kernel)),
        out(in_c * taps),
        in(channels_last ? 1 : taps),
        tap(channels_last ? in_c : 1),
        group(g.out_channels / g.groups * out) {}
  int64_t in_c, taps, out, in, tap, group;
};

// What the windows reach beyond the image.
Border border_of(const ConvGeometry& g) {
  Border b;
  for (int i = 0; i < 3; ++i) {
    b.low[i] = g.padding[i];
    b.high[i] = at_least_zero((g.out_size[i] - 1) * g.stride[i] + g.dilation[i] * (g.kernel[i] - 1) + 1 - g.padding[i] -
                              g.in_size[i]);
  }
  return b;
}

}  // namespace

template <class E>
void direct_forward(const ConvGeometry& g, bool channels_last, Source<E> x, Source<E> w, Source<E> bias, Target<E> y) {
  const Planes image = tensor_of(g.in_size, g.in_channels, g.groups, channels_last),
               result = tensor_of(g.out_size, g.out_channels, g.groups, channels_last);
  const Weights weights(g, channels_last);
  DirectConv<E> c{};
  c.images = g.batch;
  c.out_channels = result.per_group;
  c.border = border_of(g);
  for (int i = 0; i < 3; ++i) {
    c.step[i] = g.stride[i];
    c.size[i] = g.out_size[i];
    c.y_step[i] = result.layout.step(i);
  }
  Taps taps;
  for (int64_t d = 0, t = 0; d < g.kernel[0]; ++d)
    for (int64_t h = 0; h < g.kernel[1]; ++h)
      for (int64_t k = 0; k < g.kernel[2]; ++k, ++t)
        taps.add(d * g.dilation[0], h * g.dilation[1], k * g.dilation[2], t * weights.tap);
  taps.give_to(c);
  c.w_out = weights.out;
  c.w_channel = weights.in;
  c.y_image = result.image();
  c.y_channel = result.layout.channel();
  for (int64_t group = 0; group < g.groups; ++group) {
    set_x(c, image, group, x);
    c.w = w + group * weights.group;
    c.bias = bias ? bias + group * result.per_group : bias;
    c.y = y + result.group(group);
    direct_conv(c);
  }
}

namespace {

// The positions of the input i = phase + stride * q of one dimension: each takes the taps k with i + padding = stride *
// o + dilation * k, that is o = q + shift(k).
struct Phase {
  Phase(const ConvGeometry& g, int dim, int64_t first)
      : first(first), count(first < g.in_size[dim] ? (g.in_size[dim] - 1 - first) / g.stride[dim] + 1 : 0) {
    for (int64_t k = 0; k < g.kernel[dim]; ++k) {
      const int64_t at = first + g.padding[dim] - g.dilation[dim] * k;
      if (at % g.stride[dim] == 0) taps.push_back({k, at / g.stride[dim]});
    }
  }
  struct Tap {
    int64_t k, shift;
  };
  int64_t first, count;
  std::vector<Tap> taps;
};

std::vector<Phase> phases_of(const ConvGeometry& g, int dim, Border& border) {
  std::vector<Phase> phases;
  border.low[dim] = border.high[dim] = 0;
  for (int64_t p = 0; p < g.stride[dim] && p < g.in_size[dim]; ++p) {
    phases.emplace_back(g, dim, p);
    for (const Phase::Tap& t : phases.back().taps) {
      border.low[dim] = std::max(border.low[dim], -t.shift);
      border.high[dim] = std::max(border.high[dim], t.shift + phases.back().count - g.out_size[dim]);
    }
  }
  return phases;
}

void zero_at(Numbers to, int64_t i) { to.put(i, 0); }
void zero_at(uint16_t* to, int64_t i) { to[i] = 0; }

template <class E>
void zero_phase(const DirectConv<E>& c, int64_t channels) {
  const int64_t lines = c.size[0] * c.size[1];
  parallel_for(c.images * channels, 1 + 16384 / (lines * c.size[2]), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      for (int64_t line = 0; line < lines; ++line) {
        const Target<E> to = c.y + (i / channels * c.y_image + i % channels * c.y_channel +
                                    line / c.size[1] * c.y_step[0] + line % c.size[1] * c.y_step[1]);
        for (int64_t q = 0; q < c.size[2]; ++q) zero_at(to, q * c.y_step[2]);
      }
  });
}

}  // namespace

template <class E>
void direct_backward_input(const ConvGeometry& g, bool channels_last, Source<E> dy, Source<E> w, Target<E> dx) {
  Planes from = tensor_of(g.out_size, g.out_channels, g.groups, channels_last);
  const Planes to = tensor_of(g.in_size, g.in_channels, g.groups, channels_last);
  const Weights weights(g, channels_last);
  DirectConv<E> c{};
  c.images = g.batch;
  c.out_channels = to.per_group;
  const std::vector<Phase> ds = phases_of(g, 0, c.border), hs = phases_of(g, 1, c.border),
                           ws = phases_of(g, 2, c.border);
  const Border border = c.border;
  // Several phases share one copy with a border.
  const bool copy = ds.size() * hs.size() * ws.size() > 1 && !border.none();
  const int64_t planes = g.batch * (channels_last ? 1 : g.out_channels);
  ScratchArray<E> padded(copy ? planes * from.layout.with(border).plane() : 0);
  if (copy) {
    copy_images_with_border<E>(1, planes, from.layout, border, dy, 0, padded.get());
    dy = padded.get();
    from.layout = from.layout.with(border);
    c.border = {};
  }
  for (int i = 0; i < 3; ++i) {
    c.step[i] = 1;
    c.y_step[i] = g.stride[i] * to.layout.step(i);
  }
  c.w_out = weights.in;
  c.w_channel = weights.out;
  c.y_image = to.image();
  c.y_channel = to.layout.channel();
  for (const Phase& pd : ds)
    for (const Phase& ph : hs)
      for (const Phase& pw : ws) {
        Taps taps;
        for (const Phase::Tap& td : pd.taps)
          for (const Phase::Tap& th : ph.taps)
            for (const Phase::Tap& tw : pw.taps)
              taps.add(td.shift + border.low[0], th.shift + border.low[1], tw.shift + border.low[2],
                       ((td.k * g.kernel[1] + th.k) * g.kernel[2] + tw.k) * weights.tap);
        taps.give_to(c);
        c.size[0] = pd.count;
        c.size[1] = ph.count;
        c.size[2] = pw.count;
        for (int64_t group = 0; group < g.groups; ++group) {
          set_x(c, from, group, dy);
          c.w = w + group * weights.group;
          c.y = dx + (to.group(group) + pd.first * to.layout.step(0) + ph.first * to.layout.step(1) +
                      pw.first * to.layout.step(2));
          if (c.taps == 0)
            zero_phase(c, to.per_group);
          else
            direct_conv(c);
        }
      }
}

void direct_backward_weight(const ConvGeometry& g, bool channels_last, Numbers dy, Numbers x, Numbers dw) {
  const Planes image = tensor_of(g.in_size, g.in_channels, g.groups, channels_last),
               grad = tensor_of(g.out_size, g.out_channels, g.groups, channels_last);
  const Weights weights(g, channels_last);
  DirectWeight c{};
  c.images = g.batch;
  c.out_channels = grad.per_group;
  c.border = border_of(g);
  for (int i = 0; i < 3; ++i) {
    c.step[i] = g.stride[i];
    c.kernel[i] = g.kernel[i];
    c.dilation[i] = g.dilation[i];
    c.size[i] = g.out_size[i];
    c.dy_step[i] = grad.layout.step(i);
  }
  c.dy_image = grad.image();
  c.dy_channel = grad.layout.channel();
  for (int64_t group = 0; group < g.groups; ++group) {
    set_x(c, image, group, x);
    c.dy = dy + grad.group(group);
    c.dw = dw + group * weights.group;
    direct_weight(c);
  }
}

template void direct_forward<float>(const ConvGeometry&, bool, Numbers, Numbers, Numbers, Numbers);
template void direct_backward_input<float>(const ConvGeometry&, bool, Numbers, Numbers, Numbers);
template void direct_forward<uint16_t>(const ConvGeometry&, bool, const uint16_t*, const uint16_t*, const uint16_t*,
                                       uint16_t*);
template void direct_backward_input<uint16_t>(const ConvGeometry&, bool, const uint16_t*, const uint16_t*, uint16_t*);

}  // namespace tessera::cpu::internal
