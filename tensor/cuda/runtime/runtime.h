// The device side of the CUDA library, below the Tensor: errors, devices, streams, memory. What kernels and engines
// need; the documented torch.cuda functions are built on it (streams.h, allocator.h, graph.h).
//
// Each thread has a *current device*, which the user selects, and during an operator the device of its tensors
// (OpDevice). Engines work on the latter and on that device's current stream; they never wait for the device unless
// they must return a number.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

namespace tessera::cuda {

// Throws AcceleratorError "CUDA error: out of memory ..." (OutOfMemoryError is the allocator's) if e is an error.
void check(cudaError_t e, const char* what);

// What is asked of a device all the time; read once.
struct Properties {
  std::string name;
  int major, minor;
  int multi_processor_count;
  int max_shared_per_block;  // bytes, with the opt-in of cudaFuncSetAttribute
  size_t total_memory;
  int l2_bytes;
  int warp_size;
};

int device_count();              // 0 without a driver; never throws
const Properties& properties();  // of op_device()
const Properties& properties(int device);

// The device that kernels of this thread go to now: set by OpDevice, else the selected one.
int op_device();
// Selects the device of an operator's tensors for this thread until another one is selected; `device` < 0: the user's.
void set_op_device(int device);
class OpDevice {
 public:
  explicit OpDevice(int device) : before_(op_device()) { set_op_device(device); }
  ~OpDevice() { set_op_device(before_); }
  OpDevice(const OpDevice&) = delete;
  OpDevice& operator=(const OpDevice&) = delete;

 private:
  int before_;
};

// The current stream of op_device().
cudaStream_t current_stream();
// Waits for current_stream(), then raises what kernels reported (check_reports).
void synchronize_stream();

// Device memory of the caching allocator, on op_device() and its current stream. Freed memory is used again by later
// work of the same stream, without waiting.
void* allocate(size_t nbytes);
void free(void* p);

// Temporary device memory of a kernel call.
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(size_t nbytes) : data_(nbytes ? allocate(nbytes) : nullptr) {}
  Buffer(Buffer&& o) noexcept : data_(std::exchange(o.data_, nullptr)) {}
  Buffer& operator=(Buffer&& o) noexcept {
    std::swap(data_, o.data_);
    return *this;
  }
  ~Buffer() {
    if (data_) cuda::free(data_);
  }
  void* get() const { return data_; }
  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  void* data_ = nullptr;
};

// Copies n bytes between host and device on the current stream. To the host: waits until they are there.
void copy_to_host(void* host, const void* device, size_t n);
void copy_to_device(void* device, const void* host, size_t n);  // the host bytes may change as soon as it returns
void fill_bytes(void* device, int value, size_t n);
template <class T>
T read(const T* device) {
  T v;
  copy_to_host(&v, device, sizeof v);
  return v;
}

// What a kernel found wrong with its data (an index out of bounds). It lies in host memory that the device can write. A
// kernel calls report() and goes on with a harmless value; the error is raised by the next operation that waits for the
// device, or at once under CUDA_LAUNCH_BLOCKING=1.
enum class ReportKind : int {
  kNone = 0,
  kIndexOutOfBounds,
  kGatherIndex,
  kScatterIndex,
  kTargetOutOfBounds,
  kIntegerDivisionByZero,
  kBadProbability,
  kNotBetween0And1,
  kBadBags,
  kOther
};
struct Report {
  int kind;                  // ReportKind; the first one to report stays
  int64_t index, dim, size;  // "index 7 is out of bounds for dimension 1 with size 5"
};
Report* report_slot();  // of op_device(); pass it to the kernel
void check_reports();   // raises (IndexError, Error ...) and clears

// Called after each launch: with CUDA_LAUNCH_BLOCKING=1 waits and raises.
void after_launch();

}  // namespace tessera::cuda
