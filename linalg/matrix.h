// What the operators of linear algebra share: what they take, batches, and what they say where there is no result.
#pragma once

#include <string_view>

#include "linalg/cpu/matrix.h"
#include "tensor/core/tensor.h"
#include "tensor/ops/result_memory.h"

namespace tessera::linalg {

// `name` is that of the documented function ("linalg.cholesky").

// What is said of integers: that they are no numbers of this algebra, or what half types are told, which are, and for
// which there is no kernel (NotImplementedError).
enum class Integers : uint8_t { kNoNumbers, kAsHalf };
// Error unless A has at least two dimensions (the last two of which are matrices) and is float32, float64, complex64 or
// complex128.
void check_matrix(const char* name, const Tensor& A, const char* argument = "A",
                  Integers integers = Integers::kNoNumbers);
// And unless they have as many rows as columns.
void check_square(const char* name, const Tensor& A, const char* argument = "A",
                  Integers integers = Integers::kNoNumbers);
// Error unless both have the same dtype and device.
void check_alike(const char* name, const Tensor& A, const Tensor& B);

// All sizes but the last two.
IntList batch_sizes(const Tensor& A);
// What the batches of A and B broadcast to: Error if they do not.
IntVector broadcast_batch(const Tensor& A, const Tensor& B);
// `batch` followed by rows and cols.
IntVector with_matrix(IntList batch, int64_t rows, int64_t cols);

// The matrices of t, whose batch dimensions must be laid out like one dimension (new tensors are); those of no batch
// are one matrix.
cpu::MatrixBatch matrices(const Tensor& t);
// Whether `matrices` can say where the matrices of t are, and each has dense rows.
bool is_dense_batch(const Tensor& t);
// t, or a row-major copy of it, broadcast to `batch`, such that is_dense_batch.
Tensor dense_batch(const Tensor& t, IntList batch);

// Where an engine writes a result: `out` itself where is_dense_batch, else memory that finish() copies to it.
inline kernels::ResultMemory dense_result(const Tensor& out) {
  return kernels::ResultMemory(out, is_dense_batch(out), {}, out.dtype());
}

// What an engine that looks at MatrixBatch::from makes A to: matrices that lie as the result does are read where they
// are, if they are a batch of small ones, or of any size (where the engine reads each just once); others are copied.
cpu::MatrixBatch taken(const Tensor& A, const Tensor& to, bool of_any_size = false);

// LinAlgError if an element of info (integers, one a matrix, as LAPACK's) is not 0; `name` decides what the number
// stands for. is_matrix: there is no batch, whose first such element the message would count. Waits for devices; does
// nothing for the meta device.
void check_errors(const Tensor& info, std::string_view name, bool is_matrix);

}  // namespace tessera::linalg
