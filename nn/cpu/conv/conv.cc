// Convolution as matrix products: blocks of the image become columns (im2col), small enough to stay in cache, in pieces
// that depend on the sizes only.
#include <complex>
#include <cstring>
#include <type_traits>

#include "tensor/core/parallel.h"
#include "nn/cpu/conv/conv_bf16.h"
#include "nn/cpu/conv/conv_depthwise.h"
#include "nn/cpu/conv/conv_direct.h"
#include "nn/cpu/conv/conv_im2col.h"
#include "nn/cpu/conv/conv_implicit.h"
#include "tensor/cpu/gemm/gemm.h"
#include "nn/cpu/conv/conv.h"
#include "tensor/cpu/support/types.h"
#include "tensor/cpu/support/scratch.h"

namespace tessera::cpu {
namespace {

using namespace internal;  // NOLINT: helpers of these kernels

constexpr int64_t kColumns = int64_t{1} << 18;       // elements of a block of columns
constexpr int64_t kLargeImage = 128;                 // positions from which an image is a matrix of its own
constexpr int64_t kLargeProduct = int64_t{1} << 18;  // elements of a gradient whose product several threads share well
constexpr int64_t kPieceWork = int64_t{1} << 18;     // multiplications worth a piece of their own

inline int64_t clamp(int64_t x, int64_t low, int64_t high) { return x < low ? low : x > high ? high : x; }
inline int64_t grain_for(int64_t work) { return work >= kPieceWork ? 1 : kPieceWork / (work + 1) + 1; }

KernelParam real_param(DType t, int v) {
  KernelParam p;
  if (is_complex(t)) {
    p.c[0] = v;
    p.c[1] = 0;
  } else if (is_floating_point(t)) {
    p.f = v;
  } else {
    p.i = v;
  }
  return p;
}

// Sizes that all three directions use. Pointers are bytes; `item` is the element size.
struct Conv {
  const ConvGeometry& g;
  DType dtype;
  int64_t item = item_size(dtype);
  int64_t in_c = g.in_channels / g.groups, out_c = g.out_channels / g.groups;  // per group
  int64_t taps = volume(g.kernel), rows = in_c * taps;
  int64_t positions = volume(g.out_size), plane = volume(g.in_size);
  KernelParam zero = real_param(dtype, 0), one = real_param(dtype, 1);

  // The columns are the image itself.
  bool pointwise() const {
    for (int i = 0; i < 3; ++i)
      if (g.kernel[i] != 1 || g.stride[i] != 1 || g.padding[i] != 0) return false;
    return true;
  }
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

MatrixRef matrix(const void* data, int64_t row_stride, int64_t col_stride) {
  return {const_cast<void*>(data), row_stride, col_stride};
}

template <class E>
void fill_rows(E* to, int64_t stride, const E* values, int64_t rows, int64_t n) {
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t i = 0; i < n; ++i) to[r * stride + i] = values[r];
}
// Row r of n elements = values[r].
void broadcast_rows(int64_t item, void* to, int64_t stride, const void* values, int64_t rows, int64_t n) {
  struct Wide {
    uint64_t a, b;
  };
  const auto run = [&](auto e) {
    using E = decltype(e);
    fill_rows(static_cast<E*>(to), stride, static_cast<const E*>(values), rows, n);
  };
  switch (item) {
    case 1:
      return run(uint8_t{});
    case 2:
      return run(uint16_t{});
    case 4:
      return run(uint32_t{});
    case 8:
      return run(uint64_t{});
    default:
      return run(Wide{});
  }
}

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
  if (v.pointwise())
    return forward_product(v, w, bias, y, n, group, p0, p1, matrix(image + p0 * v.item, v.positions, 1));
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

void forward(DType dtype, const ConvGeometry& g, const void* x, const void* w, const void* bias, void* y) {
  const Conv v{g, dtype};
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

template <class T>
void backward_input_channels(const Conv& v, const void* dy, const void* w, T* dx, int64_t n, int64_t group,
                             int64_t channel, int64_t channels) {
  const char* const grad = v.output(dy, n, group);
  const MatrixRef weights = matrix(v.weights(w, group, channel), 1, v.rows);
  const int64_t rows = channels * v.taps;
  if (v.pointwise()) {
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

template <class T>
void backward_input(DType dtype, const ConvGeometry& g, const void* dy, const void* w, void* dx) {
  const Conv v{g, dtype};
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
        images_(kPadded && (most_images > 1 || !v.pointwise()) ? most_images * channels * padded_ + 16 : 0),
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
  const bool copy = !v.pointwise() || blocks.together > 1;
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

template <class T>
void backward_weight(DType dtype, const ConvGeometry& g, const void* dy, const void* x, void* dw) {
  const Conv v{g, dtype};
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

// ---- Reduced floats: all in float32, rounded once ----

template <class T>
__attribute__((optimize("O3"))) void convert(const T* from, int64_t n, Acc<T>* to) {
  for (int64_t i = 0; i < n; ++i) to[i] = from[i];
}
template <class T>
class WideCopy {
 public:
  WideCopy(const void* from, int64_t n) : data_(n) {
    const T* const in = static_cast<const T*>(from);
    if (in) parallel_for(n, 16384, [&](int64_t b, int64_t e) { convert(in + b, e - b, data_.get() + b); });
  }
  Acc<T>* get() const { return data_.get(); }

 private:
  ScratchArray<Acc<T>> data_;
};
template <class T>
void narrow(const Acc<T>* from, void* to, int64_t n) {
  parallel_for(n, 16384, [&](int64_t b, int64_t e) {
    for (int64_t i = b; i < e; ++i) static_cast<T*>(to)[i] = static_cast<T>(from[i]);
  });
}

struct Sizes {
  explicit Sizes(const ConvGeometry& g)
      : x(g.batch * g.in_channels * volume(g.in_size)),
        w(g.out_channels * (g.in_channels / g.groups) * volume(g.kernel)),
        y(g.batch * g.out_channels * volume(g.out_size)) {}
  int64_t x, w, y;
};

// Direct convolution works on vectors of `channels`; where there are few of them, vectors of positions are better
// filled. Windows of one position are a plain product of matrices, if the images are large enough for one.
bool suits_direct(const ConvGeometry& g, int64_t channels, int64_t summed_channels) {
  if (g.batch * g.in_channels * g.out_channels * volume(g.in_size) * volume(g.out_size) == 0 || is_depthwise(g))
    return false;
  if (!g.channels_last && is_pointwise(g) && volume(g.in_size) >= kLargeImage) return false;
  if (fills_vectors(channels / g.groups) || g.channels_last) return true;
  // Long sums are worth emptier vectors.
  return summed_channels / g.groups * volume(g.kernel) >= 128 && fills_vectors((channels / g.groups * 8 + 4) / 5);
}

constexpr const char* kName = "slow_conv2d_cpu";  // the name that the documented messages use

}  // namespace

namespace {

// bfloat16 on dot products, which take whole steps of channels.
bool suits_panels(DType dtype, const ConvGeometry& g) {
  return dtype == DType::kBFloat16 && g.in_channels >= 16 * g.groups && g.out_channels >= 16 * g.groups &&
         has_bf16_conv() && g.batch * volume(g.in_size) * volume(g.out_size) > 0;
}

}  // namespace

bool conv_channels_last(DType dtype, const ConvGeometry& g) {
  ConvGeometry last = g;
  last.channels_last = true;
  return (dtype == DType::kFloat32 || suits_panels(dtype, g)) && suits_direct(last, g.out_channels, g.in_channels);
}

namespace {

const uint16_t* bits(const void* p) { return static_cast<const uint16_t*>(p); }

// y[n] = w x[n] + bias, or w^T x[n].
template <class T>
void pointwise_product(const ConvGeometry& g, bool transposed, const T* x, const T* w, const T* bias, T* y) {
  constexpr DType kType = DTypeOf<T>::value;
  const int64_t in_c = g.in_channels / g.groups, out_c = g.out_channels / g.groups, plane = volume(g.in_size),
                m = transposed ? in_c : out_c, k = transposed ? out_c : in_c;
  const int64_t w_row = transposed ? 1 : in_c, w_col = transposed ? in_c : 1, x_image = g.groups * k * plane,
                y_image = g.groups * m * plane;
  const KernelParam one = real_param(kType, 1), beta = real_param(kType, bias != nullptr);
  for (int64_t group = 0; group < g.groups; ++group, w += out_c * in_c, x += k * plane, y += m * plane) {
    const T* const b = bias ? bias + group * m : nullptr;
    if constexpr (std::is_same_v<T, float>) {
      if (pointwise_conv({g.batch, k, m, plane, x, x_image, w, w_row, w_col, b, y, y_image})) continue;
    }
    for (int64_t n = 0; b && n < g.batch; ++n) broadcast_rows(sizeof(T), y + n * y_image, plane, b, m, plane);
    gemm_batched(kType, g.batch, m, plane, k, one, matrix(w, w_row, w_col), 0, matrix(x, plane, 1), x_image, beta,
                 matrix(y, plane, 1), y_image);
  }
}

// The convolutions of float and double, by the way that suits them.
template <class T>
void forward_real(const ConvGeometry& g, const T* x, const T* w, const T* bias, T* y) {
  if (is_depthwise(g)) return depthwise_forward(g, x, w, bias, y);
  if constexpr (std::is_same_v<T, float>) {
    if (suits_direct(g, g.out_channels, g.in_channels)) return direct_forward(g, g.channels_last, x, w, bias, y);
  }
  if (g.in_channels > 0 && is_pointwise(g) && volume(g.in_size) >= kLargeImage)
    return pointwise_product(g, false, x, w, bias, y);
  implicit_forward(g, x, w, bias, y);
}

template <class T>
void backward_input_real(const ConvGeometry& g, const T* dy, const T* w, T* dx) {
  if (is_depthwise(g)) return depthwise_backward_input(g, dy, w, dx);
  if constexpr (std::is_same_v<T, float>) {
    if (suits_direct(g, g.in_channels, g.out_channels)) return direct_backward_input(g, g.channels_last, dy, w, dx);
  }
  if (g.out_channels > 0 && is_pointwise(g) && volume(g.in_size) >= kLargeImage)
    return pointwise_product<T>(g, true, dy, w, nullptr, dx);
  if (g.in_channels / g.groups >= 4 && has_implicit_backward(g)) return implicit_backward_input(g, dy, w, dx);
  backward_input<T>(DTypeOf<T>::value, g, dy, w, dx);
}

template <class T>
void backward_weight_real(const ConvGeometry& g, const T* dy, const T* x, T* dw) {
  if (is_depthwise(g)) return depthwise_backward_weight(g, dy, x, dw);
  if constexpr (std::is_same_v<T, float>) {
    if (suits_direct(g, g.out_channels, g.in_channels)) return direct_backward_weight(g, g.channels_last, dy, x, dw);
  }
  backward_weight<T>(DTypeOf<T>::value, g, dy, x, dw);
}

template <class T>
inline constexpr bool kIsReal = std::is_same_v<T, float> || std::is_same_v<T, double>;

}  // namespace

void conv_forward(DType dtype, const ConvGeometry& g, const void* x, const void* w, const void* bias, void* y) {
  visit_addable(kName, dtype, [&](auto tag) {
    using T = decltype(tag);
    if constexpr (kIsReduced<T>) {
      if (suits_panels(dtype, g))
        return direct_forward(g, g.channels_last, bits(x), bits(w), bits(bias), static_cast<uint16_t*>(y));
      const Sizes n(g);
      WideCopy<T> wide_x(x, n.x), wide_w(w, n.w), wide_bias(bias, bias ? g.out_channels : 0), wide_y(nullptr, n.y);
      conv_forward(DTypeOf<Acc<T>>::value, g, wide_x.get(), wide_w.get(), bias ? wide_bias.get() : nullptr,
                   wide_y.get());
      narrow<T>(wide_y.get(), y, n.y);
    } else if constexpr (kIsReal<T>) {
      forward_real(g, static_cast<const T*>(x), static_cast<const T*>(w), static_cast<const T*>(bias),
                   static_cast<T*>(y));
    } else {
      forward(dtype, g, x, w, bias, y);
    }
  });
}

void conv_backward_input(DType dtype, const ConvGeometry& g, const void* dy, const void* w, void* dx) {
  visit_addable(kName, dtype, [&](auto tag) {
    using T = decltype(tag);
    if constexpr (kIsReduced<T>) {
      if (suits_panels(dtype, g))
        return direct_backward_input(g, g.channels_last, bits(dy), bits(w), static_cast<uint16_t*>(dx));
      const Sizes n(g);
      WideCopy<T> wide_dy(dy, n.y), wide_w(w, n.w), wide_dx(nullptr, n.x);
      conv_backward_input(DTypeOf<Acc<T>>::value, g, wide_dy.get(), wide_w.get(), wide_dx.get());
      narrow<T>(wide_dx.get(), dx, n.x);
    } else if constexpr (kIsReal<T>) {
      backward_input_real(g, static_cast<const T*>(dy), static_cast<const T*>(w), static_cast<T*>(dx));
    } else {
      backward_input<T>(dtype, g, dy, w, dx);
    }
  });
}

void conv_backward_weight(DType dtype, const ConvGeometry& g, const void* dy, const void* x, void* dw) {
  visit_addable(kName, dtype, [&](auto tag) {
    using T = decltype(tag);
    if constexpr (kIsReduced<T>) {
      if (suits_panels(dtype, g)) return bf16_backward_weight(g, bits(dy), bits(x), static_cast<uint16_t*>(dw));
      const Sizes n(g);
      WideCopy<T> wide_dy(dy, n.y), wide_x(x, n.x), wide_dw(nullptr, n.w);
      conv_backward_weight(DTypeOf<Acc<T>>::value, g, wide_dy.get(), wide_x.get(), wide_dw.get());
      narrow<T>(wide_dw.get(), dw, n.w);
    } else if constexpr (kIsReal<T>) {
      backward_weight_real(g, static_cast<const T*>(dy), static_cast<const T*>(x), static_cast<T*>(dw));
    } else {
      backward_weight<T>(dtype, g, dy, x, dw);
    }
  });
}

}  // namespace tessera::cpu
