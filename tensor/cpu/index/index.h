// Gather, scatter and mask engines, below the Tensor. Indices are int64 (the caller converts) and are checked here;
// where self itself is written, all of them before the first write: "index 7 is out of bounds for dimension 1 with size
// 5", an IndexError, but from gather and scatter a RuntimeError. Element moves are by size (1, 2, 4, 8, 16 bytes) and
// so serve every dtype; accumulation is by dtype.
#pragma once

#include <cstdint>
#include <span>

#include "tensor/core/dtype.h"
#include "tensor/cpu/support/operand.h"

namespace tessera::cpu {

// How a scattered value meets what is there.
enum class ScatterMode : uint8_t { kAssign, kAdd, kMultiply, kMean, kMax, kMin };

// out[p] = self[p with p[dim] = index[p]] over index's shape; self strides are for its own rank (same rank),
// self_dim_size its size at dim.
void run_gather(std::span<const int64_t> index_shape, int dim, int64_t self_dim_size, const Operand& out,
                const Operand& self, const Operand& index);
// self[p with p[dim] = index[p]] (op)= src[p]; src.strides all 0 for a scalar. Sequential along dim, so duplicates have
// a defined order.
void run_scatter(ScatterMode mode, std::span<const int64_t> index_shape, int dim, int64_t self_dim_size,
                 const Operand& self, const Operand& src, const Operand& index);

// The general form behind x[i, :, j] with index tensors: `shape` is the result's iteration shape; indices are int64
// operands broadcast to it (0 strides where they do not vary); indexed_sizes / indexed_strides (bytes) describe the
// indexed dimensions of self; self.strides walk self along the result's dimensions (0 at dimensions that come from the
// index tensors). Negative indices count from the end. dim_numbers names the indexed dimensions in messages (empty: 0,
// 1, ...).
void run_index_get(std::span<const int64_t> shape, const Operand& out, const Operand& self,
                   std::span<const Operand> indices, std::span<const int64_t> indexed_sizes,
                   std::span<const int64_t> indexed_strides, std::span<const int64_t> dim_numbers = {});
void run_index_put(std::span<const int64_t> shape, const Operand& self, const Operand& values,
                   std::span<const Operand> indices, std::span<const int64_t> indexed_sizes,
                   std::span<const int64_t> indexed_strides, bool accumulate,
                   std::span<const int64_t> dim_numbers = {});

// out rows <- self rows along dim by a 1-d index (contiguous int64, n of them): the fast path of embedding and
// index_select. All operands have rank of `shape`, the shape of self.
void run_index_select(std::span<const int64_t> shape, int dim, const Operand& out, const Operand& self,
                      const int64_t* index, int64_t n);
// self slices (op)= alpha * src slices.
void run_index_add(std::span<const int64_t> shape, int dim, const Operand& self, const Operand& src,
                   const int64_t* index, int64_t n, KernelParam alpha);

// Number of nonzero elements; then their coordinates, row-major order: out is int64 [count, rank] with byte strides
// out_row, out_col.
int64_t run_count_nonzero(std::span<const int64_t> shape, const Operand& in);
void run_nonzero(std::span<const int64_t> shape, const Operand& in, int64_t* out, int64_t out_row_bytes,
                 int64_t out_col_bytes);
// out (contiguous) = the elements of self where mask (bool), in row-major order; returns how many. capacity is checked
// by the caller through run_count_nonzero(mask).
int64_t run_masked_select(std::span<const int64_t> shape, void* out, const Operand& self, const Operand& mask);
// self[mask] = src elements in order (src contiguous, src_n of them; too few: Error before anything is written).
void run_masked_scatter(std::span<const int64_t> shape, const Operand& self, const Operand& mask, const void* src,
                        int64_t src_n);
// Copies with elements right of / left of the diagonal zeroed; shape's last two dimensions are the matrix.
void run_tril_triu(bool upper, int64_t diagonal, std::span<const int64_t> shape, const Operand& out,
                   const Operand& self);
// out[p] = self[p with the dimensions in flip_mask reversed].
void run_flip(std::span<const int64_t> shape, uint64_t flip_mask, const Operand& out, const Operand& self);

}  // namespace tessera::cpu
