// Masks: count_nonzero, nonzero, masked_select, masked_scatter. The row-major elements are cut into tiles, a block for
// each; hits are counted, and from the summed counts every tile knows where its results belong.
#include "tensor/cuda/index/engines.h"
#include "tensor/cuda/support/index_elements.h"
#include "tensor/cuda/support/prefix.h"

namespace tessera::cuda {
namespace {

constexpr int kMaskItems = 16;  // of a thread, one behind the other
constexpr int kMaskTile = kThreads * kMaskItems;

// Which bits of an element make it differ from zero.
struct Nonzero {
  uint64_t low, high;  // high: of elements of 16 bytes
  bool always;
  __device__ bool operator()(uint64_t x) const { return (x & low) != 0 || always; }
  __device__ bool operator()(const Bytes16& x) const { return (x.a & low) != 0 || (x.b & high) != 0; }
};
Nonzero nonzero_rule(DType t) {
  const uint64_t all = ~uint64_t{0};
  switch (t) {
    case DType::kFloat16:
    case DType::kBFloat16:
      return {0x7fff, 0, false};
    case DType::kFloat32:
      return {0x7fffffffu, 0, false};
    case DType::kFloat64:
      return {all >> 1, 0, false};
    case DType::kComplex32:
      return {0x7fff7fffu, 0, false};
    case DType::kComplex64:
      return {UINT64_C(0x7fffffff7fffffff), 0, false};
    case DType::kComplex128:
      return {all >> 1, all >> 1, false};
    case DType::kFloat8_e4m3fn:
    case DType::kFloat8_e5m2:
      return {0x7f, 0, false};
    case DType::kFloat8_e8m0fnu:
      return {all, 0, true};  // powers of two and NaN
    default:
      return {all, 0, false};
  }
}

// Operands of the walk: mask, self.
template <class T>
struct Mask {
  Walk<2> walk;
  const char* data;
  Nonzero nonzero;
  bool dense;  // one behind the other, and aligned to 16 bytes

  // A bit for each of this thread's elements of the tile.
  __device__ unsigned bits(int64_t tile) const {
    const int64_t first = tile * kMaskTile + threadIdx.x * kMaskItems;
    unsigned found = 0;
    if (dense && first + kMaskItems <= walk.numel) {
      constexpr int kOfVector = 16 / sizeof(T);
      const Bytes16* vectors = reinterpret_cast<const Bytes16*>(data + first * static_cast<int64_t>(sizeof(T)));
      for (int v = 0; v < kMaskItems / kOfVector; ++v) {
        const Bytes16 vector = vectors[v];
        T items[kOfVector];
        memcpy(items, &vector, sizeof vector);
        for (int i = 0; i < kOfVector; ++i) found |= static_cast<unsigned>(nonzero(items[i])) << (v * kOfVector + i);
      }
      return found;
    }
    for (int i = 0; i < kMaskItems && first + i < walk.numel; ++i) {
      int64_t at[2];
      walk.offsets(first + i, at);
      found |= static_cast<unsigned>(nonzero(*reinterpret_cast<const T*>(data + at[0]))) << i;
    }
    return found;
  }
};

template <class T>
__global__ void count_hits(Mask<T> mask, int64_t tiles, int64_t* counts) {
  for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const int hits = block_reduce(__popc(mask.bits(tile)), [](int a, int b) { return a + b; });
    if (threadIdx.x == 0) counts[tile] = hits;
  }
}

// use(h, i): hit number h is element number i. starts: the summed counts of the tiles, then their total.
template <class T, class Use>
__global__ void use_hits(Mask<T> mask, int64_t tiles, const int64_t* starts, Use use) {
  __shared__ uint16_t hits[kMaskTile];
  if (!use.ready(starts[tiles])) return;
  for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const unsigned bits = mask.bits(tile);
    const Scanned<int> scanned = block_scan(
        __popc(bits), [](int a, int b) { return a + b; }, 0);
    int to = scanned.before;
    for (unsigned rest = bits; rest != 0; rest &= rest - 1)
      hits[to++] = static_cast<uint16_t>(threadIdx.x * kMaskItems + __ffs(static_cast<int>(rest)) - 1);
    __syncthreads();
    for (int h = threadIdx.x; h < scanned.total; h += kThreads) use(starts[tile] + h, tile * kMaskTile + hits[h]);
    __syncthreads();
  }
}

// Coordinates of an element of `rank` dimensions.
struct WriteCoordinates {
  int rank;
  int64_t shape[kMaxDims];
  char* out;
  int64_t row, col;
  __device__ bool ready(int64_t) const { return true; }
  __device__ void operator()(int64_t h, int64_t i) const {
    for (int d = rank - 1; d >= 0; --d) {
      const int64_t q = quotient(i, shape[d]);
      *reinterpret_cast<int64_t*>(out + h * row + d * col) = i - q * shape[d];
      i = q;
    }
  }
};

template <class T>
struct Select {
  Walk<2> walk;
  const char* self;
  T* out;
  __device__ bool ready(int64_t) const { return true; }
  __device__ void operator()(int64_t h, int64_t i) const {
    int64_t at[2];
    walk.offsets(i, at);
    out[h] = *reinterpret_cast<const T*>(self + at[1]);
  }
};

// Nothing is written if there are too few values.
template <class T>
struct Fill {
  Walk<2> walk;
  char* self;
  const T* src;
  int64_t src_n;
  Report* slot;
  __device__ bool ready(int64_t total) const {
    if (total > src_n && threadIdx.x == 0) report(slot, ReportKind::kOther, total, 0, src_n);
    return total <= src_n;
  }
  __device__ void operator()(int64_t h, int64_t i) const {
    int64_t at[2];
    walk.offsets(i, at);
    *reinterpret_cast<T*>(self + at[1]) = src[h];
  }
};

int64_t tiles_of(int64_t n) { return (n + kMaskTile - 1) / kMaskTile; }
dim3 blocks_of(int64_t tiles) { return blocks_for(tiles, 1); }

template <class T>
Mask<T> make_mask(std::span<const int64_t> shape, const Operand& mask, const Operand& self) {
  Mask<T> m{make_walk<2>(shape, {mask.strides, self.strides}), static_cast<const char*>(mask.data),
            nonzero_rule(mask.dtype), false};
  m.dense = is_dense(m.walk, 0, sizeof(T)) && address(mask.data) % 16 == 0;
  return m;
}

// Hits before each tile, then all of them.
template <class T>
Buffer count_tiles(const Mask<T>& m) {
  const int64_t tiles = tiles_of(m.walk.numel);
  Buffer counts((tiles + 1) * sizeof(int64_t));
  launch_blocks(count_hits<T>, blocks_of(tiles), dim3(kThreads), 0, m, tiles, counts.as<int64_t>());
  exclusive_sums(counts.as<int64_t>(), tiles, counts.as<int64_t>() + tiles);
  return counts;
}

template <class T, class Use>
void for_each_hit(const Mask<T>& m, const Buffer& starts, const Use& use) {
  const int64_t tiles = tiles_of(m.walk.numel);
  launch_blocks(use_hits<T, Use>, blocks_of(tiles), dim3(kThreads), 0, m, tiles, starts.as<int64_t>(), use);
}

}  // namespace

int64_t run_count_nonzero(std::span<const int64_t> shape, const Operand& in) {
  return visit_size(item_size(in.dtype), [&](auto tag) {
    const auto m = make_mask<typename decltype(tag)::type>(shape, in, in);
    if (m.walk.numel == 0) return int64_t{0};
    const Buffer counts = count_tiles(m);
    return read(counts.template as<int64_t>() + tiles_of(m.walk.numel));
  });
}

void run_nonzero(std::span<const int64_t> shape, const Operand& in, int64_t* out, int64_t out_row_bytes,
                 int64_t out_col_bytes) {
  const int rank = static_cast<int>(shape.size());
  if (rank == 0) return;  // a row per hit, but no columns
  TESSERA_CHECK(rank <= kMaxDims, "tensors have at most ", kMaxDims, " dimensions");
  visit_size(item_size(in.dtype), [&](auto tag) {
    const auto m = make_mask<typename decltype(tag)::type>(shape, in, in);
    if (m.walk.numel == 0) return;
    WriteCoordinates write{rank, {}, reinterpret_cast<char*>(out), out_row_bytes, out_col_bytes};
    for (int d = 0; d < rank; ++d) write.shape[d] = shape[d];
    for_each_hit(m, count_tiles(m), write);
  });
}

int64_t run_masked_select(std::span<const int64_t> shape, void* out, const Operand& self, const Operand& mask) {
  const Mask<uint8_t> m = make_mask<uint8_t>(shape, mask, self);
  if (m.walk.numel == 0) return 0;
  const Buffer counts = count_tiles(m);
  visit_size(item_size(self.dtype), [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_each_hit(m, counts, Select<T>{m.walk, static_cast<const char*>(self.data), static_cast<T*>(out)});
  });
  return read(counts.as<int64_t>() + tiles_of(m.walk.numel));
}

void run_masked_scatter(std::span<const int64_t> shape, const Operand& self, const Operand& mask, const void* src,
                        int64_t src_n) {
  const Mask<uint8_t> m = make_mask<uint8_t>(shape, mask, self);
  if (m.walk.numel == 0) return;
  const Buffer counts = count_tiles(m);
  visit_size(item_size(self.dtype), [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_each_hit(m, counts,
                 Fill<T>{m.walk, static_cast<char*>(self.data), static_cast<const T*>(src), src_n, report_slot()});
  });
}

}  // namespace tessera::cuda
