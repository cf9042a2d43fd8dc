// Indexing by tensors of positions: the offsets of all indexed positions are computed (and checked) first, once for each distinct combination of indices.
#include "tensor/cpu/index.h"

#include <algorithm>
#include <cstring>

#include "tensor/core/parallel.h"
#include "tensor/cpu/index_internal.h"
#include "tensor/cpu/scratch.h"

namespace tessera::cpu {
namespace {

constexpr int64_t kGrain = 32768;

// Byte offsets into self for the dimensions of the iteration shape along which some index varies: a dense array over those.
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
void add_offsets(const Offsets& o, int64_t* offsets, bool first, const Operand& x, int64_t size, int64_t stride, int64_t dim_number) {
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
        TESSERA_CHECK_INDEX(v >= -size && v < size, "index ", v, " is out of bounds for dimension ", dim_number, " with size ", size);
        const int64_t offset_of = (v < 0 ? v + size : v) * stride;
        to[i] = first ? offset_of : to[i] + offset_of;
      }
    });
  });
}

void fill_offsets(const Offsets& o, int64_t* offsets, std::span<const Operand> indices, std::span<const int64_t> sizes, std::span<const int64_t> strides,
                  std::span<const int64_t> dim_numbers) {
  if (indices.empty()) std::memset(offsets, 0, sizeof(int64_t) * o.count);
  for (size_t k = 0; k < indices.size(); ++k) add_offsets(o, offsets, k == 0, indices[k], sizes[k], strides[k], dim_numbers.empty() ? static_cast<int64_t>(k) : dim_numbers[k]);
}

}  // namespace

void run_index_get(std::span<const int64_t> shape, const Operand& out, const Operand& self, std::span<const Operand> indices, std::span<const int64_t> indexed_sizes,
                   std::span<const int64_t> indexed_strides, std::span<const int64_t> dim_numbers) {
  const Offsets o(shape, indices);
  // An empty slice does not excuse a wrong index; no index positions at all has none.
  if (o.count == 0) return;
  const internal::ScratchArray<int64_t> offsets(o.count);
  fill_offsets(o, offsets.get(), indices, indexed_sizes, indexed_strides, dim_numbers);
  Nest<3> nest;
  for (size_t d = 0; d < shape.size(); ++d) nest.push(shape[d], {self.strides[d], out.strides[d], o.strides[d]});
  nest.sort_by(1);
  nest.coalesce();
  gather_nest(nest, 1, INT64_MAX, out, self, {offsets.get(), DType::kInt64, o.strides});
}

void run_index_put(std::span<const int64_t> shape, const Operand& self, const Operand& values, std::span<const Operand> indices, std::span<const int64_t> indexed_sizes,
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
