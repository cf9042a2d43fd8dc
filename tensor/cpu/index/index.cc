// Indexing by tensors of positions: the offsets of all indexed positions are computed (and checked) first, once for
// each distinct combination of indices.
#include "tensor/cpu/index/index.h"

#include <algorithm>
#include <cstring>

#include "tensor/core/parallel.h"
#include "tensor/cpu/index/index_internal.h"
#include "tensor/cpu/index/index_simd.h"
#include "tensor/cpu/support/scratch.h"

namespace tessera::cpu {
namespace {

constexpr int64_t kGrain = 32768;

// Byte offsets into self for the dimensions of the iteration shape along which some index varies: a dense array over
// those.
struct Offsets {
  std::span<const int64_t> shape;
  uint64_t varying = 0;
  int64_t strides[kMaxNestRank] = {};  // of the array, bytes; 0 along the other dimensions
  int64_t count = 1;

  Offsets(std::span<const int64_t> s, std::span<const Operand> indices) : shape(s) {
    for (int d = static_cast<int>(s.size()) - 1; d >= 0; --d) {
      bool varies = false;
      for (const Operand& x : indices) varies |= x.strides[d] != 0;
      if (!varies || s[d] == 1) continue;
      varying |= uint64_t{1} << d;
      strides[d] = count * static_cast<int64_t>(sizeof(int64_t));
      count *= s[d];
    }
  }
};

// Adds the part of index tensor x to the offsets (the first one sets them); throws for an index outside [-size, size).
void add_offsets(const Offsets& o, int64_t* offsets, bool first, const Operand& x, int64_t size, int64_t stride,
                 int64_t dim_number) {
  Nest<2> nest;
  for (size_t d = 0; d < o.shape.size(); ++d) {
    if (o.varying >> d & 1) nest.push(o.shape[d], {o.strides[d], x.strides[d]});
  }
  nest.coalesce();
  parallel_for(nest.count(), kGrain, [&](int64_t begin, int64_t end) {
    for_each_run(nest, begin, end, [&](const int64_t(&offset)[2], int64_t len) {
      int64_t* to = reinterpret_cast<int64_t*>(at_byte(offsets, offset[0]));
      const char* from = at_byte(x.data, offset[1]);
      const int64_t step = nest.inner_stride(1);
      for (int64_t i = 0; i < len; ++i) {
        const int64_t v = *reinterpret_cast<const int64_t*>(from + i * step);
        TESSERA_CHECK_INDEX(v >= -size && v < size, "index ", v, " is out of bounds for dimension ", dim_number,
                            " with size ", size);
        const int64_t offset_of = (v < 0 ? v + size : v) * stride;
        to[i] = first ? offset_of : to[i] + offset_of;
      }
    });
  });
}

void fill_offsets(const Offsets& o, int64_t* offsets, std::span<const Operand> indices, std::span<const int64_t> sizes,
                  std::span<const int64_t> strides, std::span<const int64_t> dim_numbers) {
  if (indices.empty()) std::memset(offsets, 0, sizeof(int64_t) * o.count);
  for (size_t k = 0; k < indices.size(); ++k)
    add_offsets(o, offsets, k == 0, indices[k], sizes[k], strides[k],
                dim_numbers.empty() ? static_cast<int64_t>(k) : dim_numbers[k]);
}

// Elements of self at one index tensor that varies along all dimensions, x[i]: positions are computed and asked for a
// block ahead of their elements.
class ElementsAt {
 public:
  ElementsAt(const Operand& self, int64_t size, int64_t stride, int64_t dim_number)
      : self_(static_cast<const char*>(self.data)),
        item_(item_size(self.dtype)),
        size_(size),
        scale_(stride / item_),
        dim_number_(dim_number),
        far_(std::abs(stride) * size > kNear) {}

  void gather(char* out, const char* index, int64_t step, int64_t n) const {
    int64_t positions[2][kBlock];
    if (n > 0) find(index, step, std::min(n, kBlock), positions[0]);
    for (int64_t i = 0, k = 0; i < n; i += kBlock, k ^= 1) {
      const int64_t next = i + kBlock;
      if (next < n) find(index + next * step, step, std::min(n - next, kBlock), positions[k ^ 1]);
      gather_elements(item_, out + i * item_, self_, positions[k], std::min(n - i, kBlock), size_ * scale_);
    }
  }

 private:
  static constexpr int64_t kBlock = 256;
  static constexpr int64_t kNear = 1 << 20;  // bytes that are in a core's own cache anyway

  void find(const char* index, int64_t step, int64_t n, int64_t* to) const {
    int64_t bad = 0;
    for (int64_t i = 0; i < n; ++i) {
      const int64_t v = *reinterpret_cast<const int64_t*>(index + i * step), at = v + (v >> 63 & size_);
      bad |= at | (size_ - 1 - at);
      to[i] = at * scale_;
    }
    if (bad < 0) fail(index, step, n);
    if (far_) {
      for (int64_t i = 0; i < n; ++i) __builtin_prefetch(self_ + to[i] * item_);
    }
  }
  [[gnu::noinline]] void fail(const char* index, int64_t step, int64_t n) const {
    for (int64_t i = 0; i < n; ++i) {
      const int64_t v = *reinterpret_cast<const int64_t*>(index + i * step);
      TESSERA_CHECK_INDEX(v >= -size_ && v < size_, "index ", v, " is out of bounds for dimension ", dim_number_,
                          " with size ", size_);
    }
  }

  const char* self_;
  int64_t item_, size_, scale_, dim_number_;
  bool far_;
};

bool get_elements(std::span<const int64_t> shape, const Operand& out, const Operand& self, const Operand& index,
                  int64_t size, int64_t stride, int64_t dim_number) {
  const int64_t item = item_size(self.dtype);
  if ((item != 4 && item != 8) || stride <= 0 || stride % item != 0) return false;
  Nest<2> nest;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] > 1 && (index.strides[d] == 0 || self.strides[d] != 0)) return false;
    nest.push(shape[d], {out.strides[d], index.strides[d]});
  }
  nest.sort_by(0);
  nest.coalesce();
  if (nest.rank != 0 && nest.inner_stride(0) != item) return false;
  const ElementsAt elements(self, size, stride, dim_number);
  parallel_for(nest.count(), kGrain / 2, [&](int64_t begin, int64_t end) {
    for_each_run(nest, begin, end, [&](const int64_t(&offset)[2], int64_t len) {
      elements.gather(at_byte(out.data, offset[0]), at_byte(index.data, offset[1]), nest.inner_stride(1), len);
    });
  });
  return true;
}

}  // namespace

void run_index_get(std::span<const int64_t> shape, const Operand& out, const Operand& self,
                   std::span<const Operand> indices, std::span<const int64_t> indexed_sizes,
                   std::span<const int64_t> indexed_strides, std::span<const int64_t> dim_numbers) {
  const Offsets o(shape, indices);
  // An empty slice does not excuse a wrong index; no index positions at all has none.
  if (o.count == 0) return;
  if (indices.size() == 1 && get_elements(shape, out, self, indices[0], indexed_sizes[0], indexed_strides[0],
                                          dim_numbers.empty() ? 0 : dim_numbers[0]))
    return;
  const internal::ScratchArray<int64_t> offsets(o.count);
  fill_offsets(o, offsets.get(), indices, indexed_sizes, indexed_strides, dim_numbers);
  Nest<3> nest;
  for (size_t d = 0; d < shape.size(); ++d) nest.push(shape[d], {self.strides[d], out.strides[d], o.strides[d]});
  nest.sort_by(1);
  nest.coalesce();
  gather_nest(nest, 1, INT64_MAX, out, self, {offsets.get(), DType::kInt64, o.strides});
}

void run_index_put(std::span<const int64_t> shape, const Operand& self, const Operand& values,
                   std::span<const Operand> indices, std::span<const int64_t> indexed_sizes,
                   std::span<const int64_t> indexed_strides, bool accumulate, std::span<const int64_t> dim_numbers) {
  const ScatterFn fn = choose_scatter(accumulate ? ScatterMode::kAdd : ScatterMode::kAssign, self.dtype);
  const Offsets o(shape, indices);
  if (o.count == 0) return;
  const internal::ScratchArray<int64_t> offsets(o.count);
  fill_offsets(o, offsets.get(), indices, indexed_sizes, indexed_strides, dim_numbers);
  Nest<3> free, ordered;
  for (size_t d = 0; d < shape.size(); ++d) {
    // A dimension that neither self nor the indices walk writes the same place each time.
    const bool meets = (o.varying >> d & 1) || self.strides[d] == 0;
    (meets ? ordered : free).push(shape[d], {self.strides[d], values.strides[d], o.strides[d]});
  }
  scatter_nests(fn, free, ordered, 1, self, values, {offsets.get(), DType::kInt64, o.strides}, {{}, true});
}

}  // namespace tessera::cpu
