// Copies, conversions and fills over strides.
#include "tensor/cuda/pointwise/engines.h"
#include "tensor/cuda/pointwise/pointwise.h"

namespace tessera::cuda {
namespace {

struct Copy : Unary {
  template <class T>
  static __device__ T call(const KernelParam*, T x) {
    return x;
  }
};
// param: the bits that change, those of signs.
struct Flip : Unary {
  template <class T>
  static __device__ T call(const KernelParam* p, T x) {
    T mask;
    memcpy(&mask, p, sizeof mask);
    if constexpr (std::is_same_v<T, Bytes16>)
      return {x.a ^ mask.a, x.b ^ mask.b};
    else
      return static_cast<T>(x ^ mask);
  }
};
struct Negate : Unary {
  template <class T>
  static __device__ T call(const KernelParam*, T x) {
    return static_cast<T>(T{0} - x);
  }
};

template <class F>
PointwiseKernelInfo kernel_of_size(int64_t size) {
  return visit_size(size, [](auto tag) { return PointwiseKernelInfo::of<F, typename decltype(tag)::type>(); });
}

// dst = kernel(src): a kernel that works on elements of the size of `wanted`.
void run(const PointwiseKernelInfo& k, std::span<const int64_t> shape, const Operand& dst, const Operand& src,
         DType wanted, const KernelParam& param = {}) {
  const DType both[2] = {wanted, wanted};
  launch_pointwise(k, shape, dst, {&src, 1}, both, &param, 1);
}

// Signs of numbers: -x, the conjugate, or both.
void copy_changed(std::span<const int64_t> shape, const Operand& dst, const Operand& src, bool conj, bool neg) {
  const DType t = src.dtype;
  const int64_t size = item_size(t);
  if (is_integral(t, false) || category_of(t) == Category::kQuantized) {
    return run(visit_size(size,
                          [](auto tag) {
                            using T = typename decltype(tag)::type;
                            if constexpr (sizeof(T) <= 8)
                              return PointwiseKernelInfo::of<Negate, T>();
                            else
                              return PointwiseKernelInfo();
                          }),
               shape, dst, src, t);
  }
  KernelParam mask{};
  unsigned char* const bytes = reinterpret_cast<unsigned char*>(&mask);
  if (is_complex(t)) {
    if (neg) bytes[size / 2 - 1] = 0x80;
    if (neg != conj) bytes[size - 1] = 0x80;
  } else {
    bytes[size - 1] = 0x80;
  }
  run(kernel_of_size<Flip>(size), shape, dst, src, t, mask);
}

// Tiles of kTile x kTile elements: read along the source's memory, written along the destination's.
constexpr int kTile = 32, kTileRows = 8;
struct Transpose {
  char* dst;
  const char* src;
  int64_t rows, columns;  // dimension 0 of the walk, and the one along which the source is dense
  int64_t dst_column_stride, src_row_stride;
  int64_t row_tiles, column_tiles, tiles;
  Walk<2> outer;  // the other dimensions
};
template <class T>
__global__ void transpose_kernel(const __grid_constant__ Transpose t) {
  __shared__ T tile[kTile][kTile + 1];
  for (int64_t i = blockIdx.x; i < t.tiles; i += gridDim.x) {
    const int64_t rest = i / t.row_tiles, row = (i - rest * t.row_tiles) * kTile, outer = rest / t.column_tiles,
                  column = (rest - outer * t.column_tiles) * kTile;
    int64_t at[2];
    t.outer.offsets(outer, at);
    const char* const src = t.src + at[1];
    char* const dst = t.dst + at[0];
    for (int y = threadIdx.y; y < kTile; y += kTileRows) {
      if (row + y < t.rows && column + threadIdx.x < t.columns)
        tile[y][threadIdx.x] = reinterpret_cast<const T*>(src + (row + y) * t.src_row_stride)[column + threadIdx.x];
    }
    __syncthreads();
    for (int y = threadIdx.y; y < kTile; y += kTileRows) {
      if (column + y < t.columns && row + threadIdx.x < t.rows)
        reinterpret_cast<T*>(dst + (column + y) * t.dst_column_stride)[row + threadIdx.x] = tile[threadIdx.x][y];
    }
    __syncthreads();
  }
}

// The dimension along which the source is dense while the destination is along dimension 0, or -1.
int transposed_dim(const Walk<2>& w, int64_t size) {
  if (w.rank < 2 || w.strides[0][0] != size || std::abs(w.strides[0][1]) <= size || w.sizes[0] < 8) return -1;
  for (int d = 1; d < w.rank; ++d) {
    if (w.strides[d][1] == size && w.sizes[d] >= 8) return d;
  }
  return -1;
}

void copy_transposed(const Walk<2>& w, int column_dim, char* dst, const char* src, int64_t size) {
  Transpose t;
  t.dst = dst;
  t.src = src;
  t.rows = w.sizes[0];
  t.columns = w.sizes[column_dim];
  t.dst_column_stride = w.strides[column_dim][0];
  t.src_row_stride = w.strides[0][1];
  t.row_tiles = (t.rows + kTile - 1) / kTile;
  t.column_tiles = (t.columns + kTile - 1) / kTile;
  for (int d = 1; d < w.rank; ++d) {
    if (d == column_dim) continue;
    t.outer.sizes[t.outer.rank] = w.sizes[d];
    t.outer.strides[t.outer.rank][0] = w.strides[d][0];
    t.outer.strides[t.outer.rank++][1] = w.strides[d][1];
    t.outer.numel *= w.sizes[d];
  }
  t.tiles = t.row_tiles * t.column_tiles * t.outer.numel;
  visit_size(size, [&](auto tag) {
    using T = typename decltype(tag)::type;
    launch_blocks(transpose_kernel<T>, blocks_for(t.tiles, 1), dim3(kTile, kTileRows), 0, t);
  });
}

// Whether elements of `from` become elements of `to` without a change of their bits.
bool same_bits(DType to, DType from) {
  return to == from || (is_integral(to, false) && is_integral(from, false) && item_size(to) == item_size(from));
}

void copy_bits(std::span<const int64_t> shape, const Operand& dst, const Operand& src) {
  const int64_t size = item_size(dst.dtype);
  const Walk<2> w = make_walk<2>(shape, {dst.strides, src.strides}, false);
  if (w.numel == 0) return;
  if (is_dense(w, 0, size) && is_dense(w, 1, size)) {
    if (dst.data != src.data)
      check(cudaMemcpyAsync(dst.data, src.data, static_cast<size_t>(w.numel * size), cudaMemcpyDeviceToDevice,
                            current_stream()),
            "copy");
    return;
  }
  const int column_dim = transposed_dim(w, size);
  if (column_dim > 0)
    return copy_transposed(w, column_dim, static_cast<char*>(dst.data), static_cast<const char*>(src.data), size);
  run(kernel_of_size<Copy>(size), shape, dst, {src.data, dst.dtype, src.strides}, dst.dtype);
}

bool is_float_or_half(DType t) { return t == DType::kFloat32 || is_reduced_float(t); }

}  // namespace

void copy_strided(std::span<const int64_t> shape, const Operand& dst, const Operand& src, bool conj, bool neg) {
  conj = conj && is_complex(src.dtype);
  neg = neg && src.dtype != DType::kBool;
  for (const DType t : {dst.dtype, src.dtype}) {
    TESSERA_CHECK_NOT_IMPLEMENTED(!is_storage_only(t) || dst.dtype == src.dtype, "\"copy_\" not implemented for '",
                                  type_name_of(t), "'");
  }
  if (src.host) {
    Bytes16 value, changed;
    const int64_t zero = 0;
    const Operand from{src.data, src.dtype, &zero}, to{&changed, src.dtype, &zero};
    cpu::copy_strided({}, to, from, conj, neg);
    cpu::convert(dst.dtype, &value, src.dtype, &changed, 1);
    return cuda::fill_strided(shape, dst, &value);
  }
  if (conj || neg) return copy_changed(shape, dst, src, conj, neg);
  if (same_bits(dst.dtype, src.dtype)) return copy_bits(shape, dst, src);
  if (is_float_or_half(dst.dtype) && is_float_or_half(src.dtype))
    return run(PointwiseKernelInfo::of<Copy, float>(), shape, dst, src, DType::kFloat32);
  const Walk<2> w = make_walk<2>(shape, {dst.strides, src.strides}, false);
  if (w.numel == 0) return;
  if (is_dense(w, 0, item_size(dst.dtype)) && is_dense(w, 1, item_size(src.dtype)) &&
      convert_dense(dst.dtype, src.dtype, w.numel, dst.data, src.data))
    return;
  run(kernel_of_size<Copy>(item_size(dst.dtype)), shape, dst, src, dst.dtype);
}

void fill_strided(std::span<const int64_t> shape, const Operand& dst, const void* value) {
  const int64_t size = item_size(dst.dtype);
  const Walk<1> w = make_walk<1>(shape, {dst.strides}, false);
  if (w.numel == 0) return;
  const unsigned char* const bytes = static_cast<const unsigned char*>(value);
  const bool one_byte = std::all_of(bytes, bytes + size, [&](unsigned char b) { return b == bytes[0]; });
  if (one_byte && is_dense(w, 0, size)) return fill_bytes(dst.data, bytes[0], static_cast<size_t>(w.numel * size));
  run(kernel_of_size<Copy>(size), shape, dst, {const_cast<void*>(value), dst.dtype, nullptr, true}, dst.dtype);
}

}  // namespace tessera::cuda
