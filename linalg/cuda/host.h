// Copies in host memory of what lies on the device, for the CPU's engines: the host waits.
#pragma once

#include <vector>

#include "linalg/cuda/columns.h"
#include "linalg/cuda/engines.h"
#include "tensor/core/error.h"

namespace tessera::cuda {

// The CPU's function of that name. Throws where it has not been set.
const HostEngines& host_engines();
template <class F>
F* host_engine(F* HostEngines::*name) {
  F* const f = host_engines().*name;
  TESSERA_CHECK(f, "linear algebra on CUDA devices: a function of the CPU, which it needs here, has not been set");
  return f;
}

// m by columns; finish() writes them back.
class HostMatrices {
 public:
  HostMatrices(DType dtype, const MatrixBatch& m)
      : dtype_(dtype), of_(m), bytes_(static_cast<size_t>(m.count * m.rows * m.cols * item_size(dtype))) {
    const OwnColumns copy(dtype, m);
    copy_to_host(bytes_.data(), copy->data, bytes_.size());
  }
  MatrixBatch batch() {
    return {bytes_.data(), of_.count, of_.rows, of_.cols, 1, std::max<int64_t>(1, of_.rows), of_.rows * of_.cols};
  }
  void finish() const {
    const OwnColumns copy(dtype_, of_.count, of_.rows, of_.cols);
    copy_to_device(copy->data, bytes_.data(), bytes_.size());
    copy_matrices(dtype_, of_, copy->batch());
  }

 private:
  DType dtype_;
  MatrixBatch of_;
  std::vector<char> bytes_;
};

// Numbers one behind the other.
template <class T>
class HostNumbers {
 public:
  HostNumbers(T* device, int64_t n) : device_(device), numbers_(static_cast<size_t>(n)) {}
  T* data() { return numbers_.data(); }
  void read() { copy_to_host(numbers_.data(), device_, numbers_.size() * sizeof(T)); }
  void finish() const { copy_to_device(device_, numbers_.data(), numbers_.size() * sizeof(T)); }

 private:
  T* device_;
  std::vector<T> numbers_;
};

}  // namespace tessera::cuda
