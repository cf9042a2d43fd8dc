#include "nn/cpu/conv/conv_columns.h"

#include <complex>
#include <cstring>
#include <type_traits>

#include "tensor/core/parallel.h"
#include "nn/cpu/conv/conv_im2col.h"
#include "nn/cpu/conv/conv_implicit.h"
#include "nn/cpu/conv/conv_matrix.h"
#include "nn/cpu/conv/conv_sizes.h"
#include "tensor/cpu/gemm/gemm.h"
#include "tensor/cpu/support/types.h"
#include "tensor/cpu/support/scratch.h"

namespace tessera::cpu::internal {
namespace {

constexpr int64_t kColumns = int64_t{1} << 18;       // elements of a block of columns
constexpr int64_t kLargeProduct = int64_t{1} << 18;  // elements of a gradient whose product several threads share well
constexpr int64_t kPieceWork = int64_t{1} << 18;     // multiplications worth a piece of their own

inline int64_t clamp(int64_t x, int64_t low, int64_t high) { return x < low ? low : x > high ? high : x; }
inline int64_t grain_for(int64_t work) { return work >= kPieceWork ? 1 : kPieceWork / (work + 1) + 1; }

// Sizes that all three directions use. Pointers are bytes; `item` is the element size.
struct Conv : ConvSizes {
  Conv(const ConvGeometry& geometry, DType t) : ConvSizes(geometry), g(geometry), dtype(t) {}
  const ConvGeometry& g;
  const DType dtype;
  const int64_t item = item_size(dtype);
  const bool pointwise = is_pointwise(g);
  const KernelParam zero = whole_number(dtype, 0), one = whole_number(dtype, 1);

  const char* image(const void* x, int64_t n, int64_t group, int64_t channel = 0) const {
    return static_cast<const char*>(x) + (n * g.in_channels + group * in_c + channel) * plane * item;
  }
  const char* output(const void* y, int64_t n, int64_t group) const {
    return static_cast<const char*>(y) + (n * g.out_channels + group * out_c) * positions * item;
  }
  const char* weights(const void* w, int64_t group, int64_t channel = 0) const {
    return static_cast<const char*>(w) + (group * out_c * rows + channel * taps) * item;
  }
};

// ---- Forward ----

struct ForwardBlocks {
  int64_t images;     // images side by side in one product, where one alone has few positions
  int64_t positions;  // of one image
};
ForwardBlocks forward_blocks(const Conv& v) {
  ForwardBlocks b{1, v.positions};
  if (v.positions < 128 && v.out_c * v.rows >= 16384) {
    b.images = clamp(256 / v.positions, 1, v.g.batch);
  } else if (v.positions > 256) {
    b.positions = clamp(kColumns / (v.rows + 1) / 64 * 64, 256, 4096);
  }
  return b;
}

// y[n, group, :, p0..p1) from the columns at cols.
void forward_product(const Conv& v, const void* w, const void* bias, void* y, int64_t n, int64_t group, int64_t p0,
                     int64_t p1, MatrixRef cols) {
  char* const out = const_cast<char*>(v.output(y, n, group)) + p0 * v.item;
  if (bias)
    broadcast_rows(v.item, out, v.positions, static_cast<const char*>(bias) + group * v.out_c * v.item, v.out_c,
                   p1 - p0);
  gemm(v.dtype, v.out_c, p1 - p0, v.rows, v.one, matrix(v.weights(w, group), v.rows, 1), cols, bias ? v.one : v.zero,
       matrix(out, v.positions, 1));
}

void forward_positions(const Conv& v, const void* x, const void* w, const void* bias, void* y, int64_t n, int64_t group,
                       int64_t p0, int64_t p1) {
  const char* const image = v.image(x, n, group);
  if (v.pointwise) return forward_product(v, w, bias, y, n, group, p0, p1, matrix(image + p0 * v.item, v.positions, 1));
  Scratch cols(v.rows * (p1 - p0) * v.item);
  im2col_block(v.item, v.g, image, v.in_c, p0, p1, cols.data(), p1 - p0);
  forward_product(v, w, bias, y, n, group, p0, p1, matrix(cols.data(), p1 - p0, 1));
}

// Images [n0, n1) in one product; the result is taken apart again.
void forward_images(const Conv& v, const void* x, const void* w, const void* bias, void* y, int64_t n0, int64_t n1,
                    int64_t group) {
  const int64_t count = n1 - n0, width = count * v.positions;
  Scratch cols(v.rows * width * v.item), product(v.out_c * width * v.item);
  for (int64_t i = 0; i < count; ++i)
    im2col_block(v.item, v.g, v.image(x, n0 + i, group), v.in_c, 0, v.positions,
                 cols.as<char>() + i * v.positions * v.item, width);
  if (bias)
    broadcast_rows(v.item, product.data(), width, static_cast<const char*>(bias) + group * v.out_c * v.item, v.out_c,
                   width);
  gemm(v.dtype, v.out_c, width, v.rows, v.one, matrix(v.weights(w, group), v.rows, 1), matrix(cols.data(), width, 1),
       bias ? v.one : v.zero, matrix(product.data(), width, 1));
  for (int64_t i = 0; i < count; ++i)
    for (int64_t o = 0; o < v.out_c; ++o)
      std::memcpy(const_cast<char*>(v.output(y, n0 + i, group)) + o * v.positions * v.item,
                  product.as<char>() + (o * width + i * v.positions) * v.item, v.positions * v.item);
}

}  // namespace

void columns_forward(DType dtype, const ConvGeometry& g, const void* x, const void* w, const void* bias, void* y) {
  const Conv v(g, dtype);
  if (g.batch == 0 || v.positions == 0 || g.out_channels == 0) return;
  const ForwardBlocks b = forward_blocks(v);
  const int64_t parts = ceil_div(v.positions, b.positions), batches = ceil_div(g.batch, b.images);
  const int64_t work = b.images * b.positions * v.rows * v.out_c;
  parallel_for(batches * g.groups * parts, grain_for(work), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t part = i % parts, group = i / parts % g.groups, n = i / parts / g.groups * b.images;
      if (b.images > 1) {
        forward_images(v, x, w, bias, y, n, clamp(n + b.images, 0, g.batch), group);
      } else {
        forward_positions(v, x, w, bias, y, n, group, part * b.positions,
                          clamp((part + 1) * b.positions, 0, v.positions));
      }
    }
  });
}

// ---- Gradient of the input ----

namespace {

template <class T>
void backward_input_channels(const Conv& v, const void* dy, const void* w, T* dx, int64_t n, int64_t group,
                             int64_t channel, int64_t channels) {
  const char* const grad = v.output(dy, n, group);
  const MatrixRef weights = matrix(v.weights(w, group, channel), 1, v.rows);
  const int64_t rows = channels * v.taps;
  if (v.pointwise) {
    gemm(v.dtype, rows, v.positions, v.out_c, v.one, weights, matrix(grad, v.positions, 1), v.zero,
         matrix(dx, v.positions, 1));
    return;
  }
  for (int64_t i = 0; i < channels * v.plane; ++i) dx[i] = T{};
  if (v.positions == 0) return;
  const int64_t block = clamp(kColumns / rows, 256, v.positions > 256 ? v.positions : 256);
  ScratchArray<T> cols(rows * clamp(block, 0, v.positions));
  for (int64_t p = 0; p < v.positions; p += block) {
    const int64_t width = clamp(v.positions - p, 0, block);
    gemm(v.dtype, rows, width, v.out_c, v.one, weights, matrix(grad + p * v.item, v.positions, 1), v.zero,
         matrix(cols.get(), width, 1));
    col2im_block(v.g, cols.get(), width, channels, p, p + width, dx);
  }
}

}  // namespace

template <class T>
void columns_backward_input(DType dtype, const ConvGeometry& g, const void* dy, const void* w, void* dx) {
  const Conv v(g, dtype);
  if (g.batch == 0 || g.in_channels == 0 || v.plane == 0) return;
  const int64_t channels = clamp(kColumns / (v.taps * v.positions + 1), 1, v.in_c), parts = ceil_div(v.in_c, channels);
  const int64_t work = channels * v.taps * v.positions * v.out_c;
  parallel_for(g.batch * g.groups * parts, grain_for(work), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t channel = i % parts * channels, group = i / parts % g.groups, n = i / parts / g.groups;
      T* const to = reinterpret_cast<T*>(const_cast<char*>(v.image(dx, n, group, channel)));
      backward_input_channels<T>(v, dy, w, to, n, group, channel, clamp(v.in_c - channel, 0, channels));
    }
  });
}

// ---- Gradient of the weight ----

namespace {

struct WeightBlocks {
  int64_t images;    // per piece; each piece has sums of its own, added in order at the end
  int64_t channels;  // per piece
  int64_t together;  // images side by side in one product
};
WeightBlocks weight_blocks(const Conv& v) {
  const int64_t size = v.g.out_channels * v.rows;
  const int64_t chunks = clamp(clamp((int64_t{1} << 22) / (size + 1), 1, 16), 1, v.g.batch);
  const int64_t parts = clamp(clamp(16 / (chunks * v.g.groups), 1, ceil_div(v.rows, 256)), 1, v.in_c);
  return {ceil_div(v.g.batch, chunks), ceil_div(v.in_c, parts),
          v.positions <= 512 ? clamp(1024 / v.positions, 1, ceil_div(v.g.batch, chunks)) : 1};
}

// The columns of a few images: through padded copies for float and double, element by element else.
template <class T>
class WeightColumns {
  static constexpr bool kPadded = std::is_same_v<T, float> || std::is_same_v<T, double>;
  static int64_t plane(const ConvGeometry& g) {
    if constexpr (kPadded) return PaddedImages<T>::plane(g);
    return 0;
  }

 public:
  WeightColumns(const Conv& v, int64_t channels, int64_t most_images)
      : v_(v),
        channels_(channels),
        padded_(plane(v.g)),
        images_(kPadded && (most_images > 1 || !v.pointwise) ? most_images * channels * padded_ + 16 : 0),
        taps_(kPadded ? channels * v.taps : 0) {
    if constexpr (kPadded) PaddedImages<T>::tap_offsets(v.g, channels, taps_.get());
  }
  void load(const void* x, int64_t n0, int64_t n1, int64_t group, int64_t channel) {
    first_ = v_.image(x, n0, group, channel);
    if constexpr (kPadded)
      PaddedImages<T>::fill(v_.g, reinterpret_cast<const T*>(first_), v_.g.in_channels * v_.plane, n1 - n0, channels_,
                            images_.get());
  }
  // Positions [p0, p1) of each of the `count` loaded images, side by side.
  void write(int64_t count, int64_t p0, int64_t p1, T* cols) const {
    const int64_t width = count * (p1 - p0);
    if constexpr (kPadded) {
      const VirtualColumns<T> columns{&v_.g, images_.get(), channels_ * padded_, taps_.get()};
      const int64_t rows = channels_ * v_.taps;
      parallel_for(rows, grain_for(width * 16), [&](int64_t begin, int64_t end) {
        columns.pack(p0, width, begin, end - begin, width, cols + begin * width);
      });
    } else {
      for (int64_t i = 0; i < count; ++i)
        im2col_block(v_.item, v_.g, first_ + i * v_.g.in_channels * v_.plane * v_.item, channels_, p0, p1,
                     cols + i * (p1 - p0), width);
    }
  }

 private:
  const Conv& v_;
  const int64_t channels_, padded_;
  const char* first_ = nullptr;
  ScratchArray<T> images_;
  ScratchArray<int64_t> taps_;
};

// The gradients of `count` images side by side: out_c x (count * positions).
template <class T>
void gather_gradients(const Conv& v, const void* dy, int64_t n0, int64_t count, int64_t group, T* to) {
  for (int64_t o = 0; o < v.out_c; ++o)
    for (int64_t i = 0; i < count; ++i, to += v.positions)
      std::memcpy(static_cast<void*>(to), v.output(dy, n0 + i, group) + o * v.positions * v.item, v.positions * v.item);
}

// dw (out_c x (channels * taps), rows v.rows apart) of images [n0, n1). Several images go into one product only whole.
template <class T>
void weight_piece(const Conv& v, const WeightBlocks& blocks, const void* dy, const void* x, char* dw, int64_t n0,
                  int64_t n1, int64_t group, int64_t channel) {
  const int64_t channels = clamp(v.in_c - channel, 0, blocks.channels), rows = channels * v.taps;
  const int64_t block = blocks.together > 1 ? v.positions : clamp(clamp(kColumns / rows, 512, 8192), 1, v.positions);
  const bool copy = !v.pointwise || blocks.together > 1;
  WeightColumns<T> columns(v, channels, blocks.together);
  ScratchArray<T> cols(copy ? rows * block * blocks.together : 0),
      grads(blocks.together > 1 ? v.out_c * block * blocks.together : 0);
  bool first = true;
  for (int64_t n = n0; n < n1; n += blocks.together) {
    const int64_t count = clamp(n1 - n, 0, blocks.together);
    if (copy) columns.load(x, n, n + count, group, channel);
    if (count > 1) gather_gradients(v, dy, n, count, group, grads.get());
    for (int64_t p = 0; p < v.positions; p += block, first = false) {
      const int64_t end = clamp(p + block, 0, v.positions), width = count * (end - p);
      MatrixRef a = matrix(v.output(dy, n, group) + p * v.item, v.positions, 1),
                b = matrix(v.image(x, n, group, channel) + p * v.item, 1, v.positions);
      if (count > 1) a = matrix(grads.get(), width, 1);
      if (copy) {
        columns.write(count, p, end, cols.get());
        b = matrix(cols.get(), 1, width);
      }
      gemm(v.dtype, v.out_c, rows, width, v.one, a, b, first ? v.zero : v.one, matrix(dw, v.rows, 1));
    }
  }
}

}  // namespace

template <class T>
void columns_backward_weight(DType dtype, const ConvGeometry& g, const void* dy, const void* x, void* dw) {
  const Conv v(g, dtype);
  const int64_t size = g.out_channels * v.rows;
  if (size == 0) return;
  if (g.batch == 0 || v.positions == 0) {
    for (int64_t i = 0; i < size; ++i) static_cast<T*>(dw)[i] = T{};
    return;
  }
  const WeightBlocks b = weight_blocks(v);
  const int64_t chunks = ceil_div(g.batch, b.images), parts = ceil_div(v.in_c, b.channels);
  ScratchArray<T> sums(chunks > 1 ? chunks * size : 0);
  T* const out = chunks > 1 ? sums.get() : static_cast<T*>(dw);
  const int64_t work = b.images * v.positions * b.channels * v.taps * v.out_c;
  // Few pieces run one after the other and share out their products instead, where these are large.
  const int64_t pieces = chunks * g.groups * parts;
  parallel_for(
      pieces, pieces <= 4 && v.out_c * v.rows >= kLargeProduct ? pieces : grain_for(work),
      [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const int64_t channel = i % parts * b.channels, group = i / parts % g.groups, chunk = i / parts / g.groups;
          char* const to = const_cast<char*>(v.weights(out + chunk * size, group, channel));
          weight_piece<T>(v, b, dy, x, to, chunk * b.images, clamp((chunk + 1) * b.images, 0, g.batch), group, channel);
        }
      });
  if (chunks == 1) return;
  parallel_for(size, 16384, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      T sum = sums[i];
      for (int64_t c = 1; c < chunks; ++c) sum = static_cast<T>(sum + sums[c * size + i]);
      static_cast<T*>(dw)[i] = sum;
    }
  });
}

#define TESSERA_COLUMNS(T)                                                                              \
  template void columns_backward_input<T>(DType, const ConvGeometry&, const void*, const void*, void*); \
  template void columns_backward_weight<T>(DType, const ConvGeometry&, const void*, const void*, void*);
// clang-format off
TESSERA_COLUMNS(uint8_t)
TESSERA_COLUMNS(uint16_t)
TESSERA_COLUMNS(uint32_t)
TESSERA_COLUMNS(uint64_t)
TESSERA_COLUMNS(float)
TESSERA_COLUMNS(double)
TESSERA_COLUMNS(std::complex<float>)
TESSERA_COLUMNS(std::complex<double>)
// clang-format on
#undef TESSERA_COLUMNS

}  // namespace tessera::cpu::internal
