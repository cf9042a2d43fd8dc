// Elements taken from elsewhere: gather, index_select, indexing by tensors, flip, tril and triu.
#include <algorithm>

#include "tensor/cuda/index/engines.h"
#include "tensor/cuda/index/index_plan.h"

namespace tessera::cuda {
namespace {

constexpr int kAtOnce = 4;  // elements of a thread under way at a time

// Operands: out, self, index.
template <class T>
__global__ void gather_kernel(Walk<3> walk, char* out, const char* self, Index index) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t first = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; first < walk.numel; first += kAtOnce * step) {
    int64_t at[kAtOnce][3], from[kAtOnce];
    T v[kAtOnce];
#pragma unroll
    for (int u = 0; u < kAtOnce; ++u) {
      from[u] = kNowhere;
      if (first + u * step >= walk.numel) continue;
      walk.offsets(first + u * step, at[u]);
      from[u] = index.offset(at[u][2]);
    }
#pragma unroll
    for (int u = 0; u < kAtOnce; ++u)
      if (from[u] != kNowhere) v[u] = *reinterpret_cast<const T*>(self + at[u][1] + from[u]);
#pragma unroll
    for (int u = 0; u < kAtOnce; ++u)
      if (from[u] != kNowhere) *reinterpret_cast<T*>(out + at[u][0]) = v[u];
  }
}

void gather(std::span<const int64_t> shape, const Operand& out, const Operand& self, const int64_t* self_strides,
            const int64_t* index_strides, const Index& index, uint64_t alignment) {
  Walk<3> walk = make_walk<3>(shape, {out.strides, self_strides, index_strides}, false);
  if (walk.numel == 0) return;
  const int64_t size = widen(walk, item_size(out.dtype), 0b011, alignment | address(out.data) | address(self.data));
  visit_size(size, [&](auto tag) {
    using T = typename decltype(tag)::type;
    launch(gather_kernel<T>, blocks_for(walk.numel, kAtOnce * kThreads), dim3(kThreads), walk,
           static_cast<char*>(out.data), static_cast<const char*>(self.data), index);
  });
}

// Operands: out, self.
template <class T>
__global__ void move_kernel(Walk<2> walk, char* out, const char* self) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t first = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; first < walk.numel; first += kAtOnce * step) {
    int64_t at[kAtOnce][2];
    T v[kAtOnce];
#pragma unroll
    for (int u = 0; u < kAtOnce; ++u) {
      if (first + u * step >= walk.numel) continue;
      walk.offsets(first + u * step, at[u]);
      v[u] = *reinterpret_cast<const T*>(self + at[u][1]);
    }
#pragma unroll
    for (int u = 0; u < kAtOnce; ++u)
      if (first + u * step < walk.numel) *reinterpret_cast<T*>(out + at[u][0]) = v[u];
  }
}

// One element of a batch of matrices, in the order of the matrices' rows.
template <class T>
struct Triangle {
  Walk<2> batches;
  char* out;
  const char* self;
  int64_t rows, cols, diagonal;
  int64_t out_row, out_col, self_row, self_col;
  bool upper;
  __device__ void operator()(int64_t i) const {
    const int64_t line = quotient(i, cols), c = i - line * cols, batch = quotient(line, rows), r = line - batch * rows;
    int64_t at[2];
    batches.offsets(batch, at);
    T v = {};
    if (upper ? c - r >= diagonal : c - r <= diagonal)
      v = *reinterpret_cast<const T*>(self + at[1] + r * self_row + c * self_col);
    *reinterpret_cast<T*>(out + at[0] + r * out_row + c * out_col) = v;
  }
};

// The offsets of the positions that all index tensors together name: one index tensor's part. kNowhere stays.
struct AddOffsets {
  Walk<1> walk;
  Index index;
  int64_t* offsets;
  bool first;
  __device__ void operator()(int64_t i) const {
    int64_t at[1];
    walk.offsets(i, at);
    const int64_t before = first ? 0 : offsets[i], more = index.offset(at[0]);
    offsets[i] = before == kNowhere || more == kNowhere ? kNowhere : before + more;
  }
};

}  // namespace

IndexPlan::IndexPlan(std::span<const int64_t> shape, std::span<const Operand> indices, std::span<const int64_t> sizes,
                     std::span<const int64_t> steps, std::span<const int64_t> dim_numbers) {
  int64_t varying[kMaxDims];
  size_t dims[kMaxDims], n = 0;
  for (size_t d = 0; d < shape.size(); ++d) {
    bool varies = false;
    for (const Operand& x : indices) varies = varies || (x.strides[d] != 0 && shape[d] != 1);
    if (!varies) continue;
    varying[n] = shape[d];
    dims[n++] = d;
    count *= shape[d];
  }
  if (count == 0) return;
  auto one = [&](size_t k) {
    const int64_t dim = dim_numbers.empty() ? static_cast<int64_t>(k) : dim_numbers[k];
    return Index{static_cast<const char*>(indices[k].data),
                 sizes[k],
                 steps[k],
                 dim,
                 ReportKind::kIndexOutOfBounds,
                 true,
                 false,
                 report_slot()};
  };
  if (indices.size() == 1) {
    index = one(0);
    for (size_t i = 0; i < n; ++i) strides.of[dims[i]] = indices[0].strides[dims[i]];
    return;
  }
  offsets_ = Buffer(count * sizeof(int64_t));
  if (indices.empty()) fill_bytes(offsets_.get(), 0, count * sizeof(int64_t));
  for (size_t k = 0; k < indices.size(); ++k) {
    int64_t from[kMaxDims];
    for (size_t i = 0; i < n; ++i) from[i] = indices[k].strides[dims[i]];
    for_each(count, AddOffsets{make_walk<1>({varying, n}, {from}), one(k), offsets_.as<int64_t>(), k == 0});
  }
  index = Index{static_cast<const char*>(offsets_.get()), 0, 0, 0};
  index.resolved = true;
  int64_t step = sizeof(int64_t);
  for (size_t i = n; i-- > 0; step *= varying[i]) strides.of[dims[i]] = step;
}

void run_index_get(std::span<const int64_t> shape, const Operand& out, const Operand& self,
                   std::span<const Operand> indices, std::span<const int64_t> indexed_sizes,
                   std::span<const int64_t> indexed_strides, std::span<const int64_t> dim_numbers) {
  const IndexPlan plan(shape, indices, indexed_sizes, indexed_strides, dim_numbers);
  if (plan.count == 0) return;
  uint64_t alignment = 0;
  for (int64_t s : indexed_strides) alignment |= static_cast<uint64_t>(s);
  gather(shape, out, self, self.strides, plan.strides.of, plan.index, alignment);
}

void run_gather(std::span<const int64_t> index_shape, int dim, int64_t self_dim_size, const Operand& out,
                const Operand& self, const Operand& index) {
  Strides from(self.strides, index_shape.size());
  from.of[dim] = 0;
  const int64_t scale = index_shape.empty() ? 0 : self.strides[dim];
  gather(index_shape, out, self, from.of, index.strides,
         {static_cast<const char*>(index.data), self_dim_size, scale, dim, ReportKind::kGatherIndex, false, false,
          report_slot()},
         static_cast<uint64_t>(scale));
}

void run_index_select(std::span<const int64_t> shape, int dim, const Operand& out, const Operand& self,
                      const int64_t* index, int64_t n) {
  Strides sizes(shape.data(), shape.size()), from(self.strides, shape.size()), along;
  const bool scalar = shape.empty();
  sizes.of[dim] = n;
  from.of[dim] = 0;
  along.of[dim] = sizeof(int64_t);
  const int64_t scale = scalar ? 0 : self.strides[dim];
  gather({sizes.of, shape.size()}, out, self, from.of, along.of,
         {reinterpret_cast<const char*>(index), scalar ? 1 : shape[dim], scale, dim, ReportKind::kIndexOutOfBounds,
          false, false, report_slot()},
         static_cast<uint64_t>(scale));
}

void run_flip(std::span<const int64_t> shape, uint64_t flip_mask, const Operand& out, const Operand& self) {
  Strides from(self.strides, shape.size());
  int64_t start = 0;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (!(flip_mask >> d & 1)) continue;
    start += (shape[d] - 1) * self.strides[d];
    from.of[d] = -self.strides[d];
  }
  Walk<2> walk = make_walk<2>(shape, {out.strides, from.of}, false);
  if (walk.numel == 0) return;
  const char* first = static_cast<const char*>(self.data) + start;
  visit_size(widen(walk, item_size(out.dtype), 0b11, address(out.data) | address(first)), [&](auto tag) {
    using T = typename decltype(tag)::type;
    launch(move_kernel<T>, blocks_for(walk.numel, kAtOnce * kThreads), dim3(kThreads), walk,
           static_cast<char*>(out.data), first);
  });
}

void run_tril_triu(bool upper, int64_t diagonal, std::span<const int64_t> shape, const Operand& out,
                   const Operand& self) {
  const size_t rank = shape.size();
  TESSERA_CHECK(rank >= 2, upper ? "triu" : "tril", ": input tensor must have at least 2 dimensions");
  const Walk<2> batches = make_walk<2>(shape.first(rank - 2), {out.strides, self.strides});
  const int64_t rows = shape[rank - 2], cols = shape[rank - 1], n = batches.numel * rows * cols;
  visit_size(item_size(out.dtype), [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_each(n, Triangle<T>{batches, static_cast<char*>(out.data), static_cast<const char*>(self.data), rows, cols,
                            std::clamp(diagonal, -rows, cols), out.strides[rank - 2], out.strides[rank - 1],
                            self.strides[rank - 2], self.strides[rank - 1], upper});
  });
}

}  // namespace tessera::cuda
