#include "nn/cpu/conv/conv_implicit.h"

#include <cstring>

#include "tensor/core/parallel.h"
#include "nn/cpu/conv/conv_im2col.h"
#include "nn/cpu/conv/conv_sizes.h"
#include "tensor/cpu/gemm/gemm_internal.h"
#include "tensor/cpu/support/types.h"
#include "tensor/cpu/support/scratch.h"

namespace tessera::cpu::internal {
namespace {

constexpr int64_t kPaddedElements = int64_t{1} << 22;  // of the images that one product takes

constexpr int64_t kChunkWork = int64_t{1} << 20;  // multiplications worth a chunk of images of their own
constexpr int64_t kLeastChunks = 6;

// How a row of packed columns is put together: first copies of 64 bytes, then of 16, each in ascending order, then
// single elements. A copy of 64 bytes, and the last copy of a run of positions, may spill onto the positions after it,
// which are written later, but never beyond the row.
struct Move {
  int64_t to, from;
};
template <class T>
struct Moves {
  static constexpr int64_t kWide = 64 / sizeof(T), kStep = 16 / sizeof(T), kMost = 128;
  Move wide[kMost], vectors[kMost], singles[kMost];
  int64_t num_wide = 0, num_vectors = 0, num_singles = 0;

  bool full() const { return num_wide + 16 >= kMost || num_vectors + 16 >= kMost || num_singles + kStep > kMost; }
  // Takes up to 16 copies of the run; returns how many elements that is. end: elements of a row.
  int64_t add(int64_t to, int64_t from, int64_t n, int64_t end) {
    int64_t i = 0;
    for (int64_t most = num_wide + 16; i < n && to + i + kWide <= end && num_wide < most; i += kWide)
      wide[num_wide++] = {to + i, from + i};
    if (i >= n || to + i + kWide <= end) return i < n ? i : n;
    for (; i < n && (i + kStep <= n || to + i + kStep <= end); i += kStep) vectors[num_vectors++] = {to + i, from + i};
    for (; i < n; ++i) singles[num_singles++] = {to + i, from + i};
    return n;
  }
  void copy(T* to, const T* from) const {
    for (int64_t i = 0; i < num_wide; ++i) std::memcpy(to + wide[i].to, from + wide[i].from, 64);
    for (int64_t i = 0; i < num_vectors; ++i) std::memcpy(to + vectors[i].to, from + vectors[i].from, 16);
    for (int64_t i = 0; i < num_singles; ++i) to[singles[i].to] = from[singles[i].from];
  }
};

// to[i] = from[i * step], for rows that are mostly short.
template <class T>
inline void copy_row(T* to, const T* from, int64_t n, int64_t step) {
  constexpr int64_t kStep = 16 / sizeof(T);
  int64_t i = 0;
  if (step == 1) {
    if (n > 64) {
      std::memcpy(to, from, n * sizeof(T));
      return;
    }
    for (; i + kStep <= n; i += kStep) std::memcpy(to + i, from + i, 16);
  }
  for (; i < n; ++i) to[i] = from[i * step];
}

}  // namespace

template <class T>
void PaddedImages<T>::fill(const ConvGeometry& g, const T* x, int64_t image_stride, int64_t count, int64_t channels,
                           T* to) {
  const int64_t height = size(g, 1), phases = g.stride[2], length = phase(g), all = plane(g),
                in_plane = volume(g.in_size);
  const Range slices = valid_outputs(0, size(g, 0), 1, -g.padding[0], g.in_size[0]),
              rows = valid_outputs(0, height, 1, -g.padding[1], g.in_size[1]);
  ScratchArray<Range> inside(phases);  // of each phase
  for (int64_t q = 0; q < phases; ++q) inside[q] = valid_outputs(0, length, phases, q - g.padding[2], g.in_size[2]);
  parallel_for(count * channels, 1 + 16384 / all, [&](int64_t begin, int64_t end) {
    std::memset(to + begin * all, 0, (end - begin) * all * sizeof(T));
    for (int64_t i = begin; i < end; ++i) {
      const T* const from = x + i / channels * image_stride + i % channels * in_plane;
      for (int64_t d = slices.first; d < slices.last; ++d)
        for (int64_t h = rows.first; h < rows.last; ++h) {
          const T* const line =
              from + ((d - g.padding[0]) * g.in_size[1] + h - g.padding[1]) * g.in_size[2] - g.padding[2];
          T* const row = to + i * all + (d * height + h) * phases * length;
          for (int64_t q = 0; q < phases; ++q) {
            const Range r = inside[q];
            copy_row(row + q * length + r.first, line + q + r.first * phases, r.last - r.first, phases);
          }
        }
    }
  });
  for (int64_t k = 0; k < kSlack; ++k) to[count * channels * all + k] = T{0};
}

template <class T>
void PaddedImages<T>::tap_offsets(const ConvGeometry& g, int64_t channels, int64_t* offsets) {
  const int64_t height = size(g, 1), width = row(g), all = plane(g), phases = g.stride[2], length = phase(g);
  for (int64_t c = 0; c < channels; ++c)
    for (int64_t kd = 0; kd < g.kernel[0]; ++kd)
      for (int64_t kh = 0; kh < g.kernel[1]; ++kh)
        for (int64_t kw = 0; kw < g.kernel[2]; ++kw) {
          const int64_t x = kw * g.dilation[2];
          *offsets++ =
              c * all + (kd * g.dilation[0] * height + kh * g.dilation[1]) * width + x % phases * length + x / phases;
        }
}

template <class T>
void VirtualColumns<T>::pack(int64_t j, int64_t count, int64_t p, int64_t k, int64_t width, T* dst) const {
  const int64_t out_w = g->out_size[2], plane = volume(g->out_size);
  for (int64_t done = 0; done < count;) {
    Moves<T> moves;
    while (done < count && !moves.full()) {
      const int64_t at = (j + done) % plane, ow = at % out_w, oh = at / out_w % g->out_size[1],
                    od = at / out_w / g->out_size[1];
      const int64_t n = count - done < out_w - ow ? count - done : out_w - ow;
      done += moves.add(done, (j + done) / plane * image_size + PaddedImages<T>::window(*g, od, oh, ow), n, count);
    }
    for (int64_t r = 0; r < k; ++r) moves.copy(dst + r * width, images + taps[p + r]);
  }
  if (count < width)
    for (int64_t r = 0; r < k; ++r)
      for (int64_t q = count; q < width; ++q) dst[r * width + q] = T{0};
}

namespace {

template <class T>
void pack_virtual(const void* data, int64_t j, int64_t count, int64_t p, int64_t k, int64_t width, void* dst) {
  static_cast<const VirtualColumns<T>*>(data)->pack(j, count, p, k, width, static_cast<T*>(dst));
}

// The images of a product as they are: one window, one position.
template <class T>
struct PlainColumns {
  const T* images;
  int64_t image_size, plane;
  static void pack(const void* data, int64_t j, int64_t count, int64_t p, int64_t k, int64_t width, void* out) {
    const auto& s = *static_cast<const PlainColumns*>(data);
    T* const dst = static_cast<T*>(out);
    for (int64_t done = 0, n; done < count; done += n) {
      const int64_t at = (j + done) % s.plane;
      n = count - done < s.plane - at ? count - done : s.plane - at;
      const T* from = s.images + (j + done) / s.plane * s.image_size + p * s.plane + at;
      for (int64_t r = 0; r < k; ++r, from += s.plane) std::memcpy(dst + r * width + done, from, n * sizeof(T));
    }
    for (int64_t r = 0; r < k && count < width; ++r)
      for (int64_t q = count; q < width; ++q) dst[r * width + q] = T{0};
  }
};

// y[n0 .. n0 + count) of one group; y already holds the bias (accumulate) or anything.
template <class T>
void forward_group(const ConvGeometry& g, const T* x, const T* w, bool accumulate, T* y, int64_t n0, int64_t count,
                   int64_t group, const int64_t* taps) {
  const ConvSizes s(g);
  const T* const first = x + (n0 * g.in_channels + group * s.in_c) * s.plane;
  GemmProblem<T> problem{s.out_c,
                         count * s.positions,
                         s.rows,
                         T{1},
                         accumulate ? T{1} : T{0},
                         {w + group * s.out_c * s.rows, s.rows, 1},
                         {},
                         y + (n0 * g.out_channels + group * s.out_c) * s.positions,
                         s.positions,
                         1};
  problem.c_block = s.positions;
  problem.c_block_stride = g.out_channels * s.positions;
  problem.b.kind = SourceKind::kVirtual;
  if (is_pointwise(g)) {
    const PlainColumns<T> columns{first, g.in_channels * s.plane, s.plane};
    problem.b.data = &columns;
    problem.b.pack = PlainColumns<T>::pack;
    return gemm_real(problem);
  }
  const int64_t padded = PaddedImages<T>::plane(g);
  ScratchArray<T> images(count * s.in_c * padded + PaddedImages<T>::kSlack);
  PaddedImages<T>::fill(g, first, g.in_channels * s.plane, count, s.in_c, images.get());
  const VirtualColumns<T> columns{&g, images.get(), s.in_c * padded, taps};
  problem.b.data = &columns;
  problem.b.pack = pack_virtual<T>;
  gemm_real(problem);
}

template <class T>
__attribute__((optimize("O3"))) void fill_value(T* to, T value, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] = value;
}

// y[n, o, ...] = bias[o]
template <class T>
void fill_bias(const ConvGeometry& g, const T* bias, T* y) {
  const int64_t positions = volume(g.out_size);
  parallel_for(g.batch * g.out_channels, 1 + 32768 / positions, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) fill_value(y + i * positions, bias[i % g.out_channels], positions);
  });
}

}  // namespace

template <class T>
void implicit_forward(const ConvGeometry& g, const T* x, const T* w, const T* bias, T* y) {
  const ConvSizes s(g);
  if (g.batch == 0 || s.positions == 0 || g.out_channels == 0) return;
  if (bias) fill_bias(g, bias, y);
  if (s.rows == 0) {
    if (!bias)
      for (int64_t i = 0; i < g.batch * g.out_channels * s.positions; ++i) y[i] = T{0};
    return;
  }
  ScratchArray<int64_t> taps(s.rows);
  PaddedImages<T>::tap_offsets(g, s.in_c, taps.get());
  // Small images go to the threads in chunks; large ones share each product, as do few groups.
  const int64_t most = kPaddedElements / (s.in_c * PaddedImages<T>::plane(g)),
                enough = kChunkWork / (s.out_c * s.rows * s.positions) + 1;
  const bool shared_out = g.batch >= kLeastChunks * enough;
  int64_t images = shared_out && enough < most ? enough : most;
  images = images < 1 ? 1 : images > g.batch ? g.batch : images;
  const int64_t chunks = ceil_div(g.batch, images);
  parallel_for(chunks * g.groups, shared_out || g.groups >= 8 ? 1 : chunks * g.groups, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t n0 = i / g.groups * images;
      forward_group(g, x, w, bias != nullptr, y, n0, g.batch - n0 < images ? g.batch - n0 : images, i % g.groups,
                    taps.get());
    }
  });
}

ConvGeometry mirrored_geometry(const ConvGeometry& g) {
  ConvGeometry mirrored = g;
  mirrored.in_channels = g.out_channels;
  mirrored.out_channels = g.in_channels;
  for (int i = 0; i < 3; ++i) {
    mirrored.in_size[i] = g.out_size[i];
    mirrored.out_size[i] = g.in_size[i];
    mirrored.padding[i] = g.dilation[i] * (g.kernel[i] - 1) - g.padding[i];
  }
  return mirrored;
}

template <class T>
void mirror_weights(const ConvGeometry& g, const T* w, T* mirrored) {
  const ConvSizes s(g);
  for (int64_t group = 0; group < g.groups; ++group)
    for (int64_t o = 0; o < s.out_c; ++o)
      for (int64_t c = 0; c < s.in_c; ++c) {
        const T* const from = w + ((group * s.out_c + o) * s.in_c + c) * s.taps;
        T* const to = mirrored + ((group * s.in_c + c) * s.out_c + o) * s.taps;
        for (int64_t t = 0; t < s.taps; ++t) to[t] = from[s.taps - 1 - t];
      }
}

template <class T>
void implicit_backward_input(const ConvGeometry& g, const T* dy, const T* w, T* dx) {
  ScratchArray<T> weights(g.out_channels * (g.in_channels / g.groups) * volume(g.kernel));
  mirror_weights(g, w, weights.get());
  implicit_forward<T>(mirrored_geometry(g), dy, weights.get(), nullptr, dx);
}

template void mirror_weights<float>(const ConvGeometry&, const float*, float*);
template void mirror_weights<double>(const ConvGeometry&, const double*, double*);
template class PaddedImages<float>;
template class PaddedImages<double>;
template struct VirtualColumns<float>;
template struct VirtualColumns<double>;
template void implicit_forward<float>(const ConvGeometry&, const float*, const float*, const float*, float*);
template void implicit_forward<double>(const ConvGeometry&, const double*, const double*, const double*, double*);
template void implicit_backward_input<float>(const ConvGeometry&, const float*, const float*, float*);
template void implicit_backward_input<double>(const ConvGeometry&, const double*, const double*, double*);

}  // namespace tessera::cpu::internal
