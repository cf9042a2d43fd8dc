// A range of device addresses that memory is mapped into piece by piece, through the driver.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <memory>
#include <vector>

namespace tessera::cuda {

// The driver's functions that are used.
struct MemoryDriver {
  decltype(&cuMemAddressReserve) reserve;
  decltype(&cuMemAddressFree) unreserve;
  decltype(&cuMemCreate) create;
  decltype(&cuMemRelease) release;
  decltype(&cuMemMap) map;
  decltype(&cuMemUnmap) unmap;
  decltype(&cuMemSetAccess) set_access;
};

// Mapped from its beginning up to some place. All devices that can reach the memory may use it.
class AddressRange {
 public:
  // Null where the driver cannot do it. piece: what is mapped at a time, a multiple of 2 MiB.
  static std::unique_ptr<AddressRange> reserve(int device, size_t bytes, size_t piece);
  ~AddressRange();
  AddressRange(const AddressRange&) = delete;
  AddressRange& operator=(const AddressRange&) = delete;

  char* base() const { return reinterpret_cast<char*>(base_); }
  size_t piece() const { return piece_; }
  size_t capacity() const { return capacity_; }
  size_t mapped() const { return pieces_.size() * piece_; }
  // Maps `bytes` more, whole pieces. False, and nothing is changed: the device has no more memory, or the range no more
  // room.
  bool grow(size_t bytes);
  // Gives the last `bytes`, whole pieces, back to the device, which must not use them any more.
  void shrink(size_t bytes);

 private:
  AddressRange(int device, CUdeviceptr base, size_t capacity, size_t piece)
      : device_(device), base_(base), capacity_(capacity), piece_(piece) {}
  bool add_piece();
  int device_;
  CUdeviceptr base_;
  size_t capacity_, piece_;
  std::vector<CUmemGenericAllocationHandle> pieces_;
};

}  // namespace tessera::cuda
