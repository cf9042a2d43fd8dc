#include "tensor/cuda/runtime/virtual_memory.h"

#include <cuda_runtime_api.h>

#include <type_traits>

#include "tensor/cuda/runtime/runtime.h"
#if TESSERA_CUDA_EMULATED
#include "tensor/cuda/emulation/memory.h"
#endif

namespace tessera::cuda {
namespace {

#if TESSERA_CUDA_EMULATED
const MemoryDriver* load() { return new MemoryDriver(emulation::memory_driver()); }
#else
const MemoryDriver* load() {
  MemoryDriver* const d = new MemoryDriver{};
  bool found = true;
  const auto get = [&](auto& function, const char* name) {
    void* address = nullptr;
    cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
    constexpr unsigned kVersion = 10020;  // all are as old as that
    found = cudaGetDriverEntryPointByVersion(name, &address, kVersion, cudaEnableDefault, &result) == cudaSuccess &&
            result == cudaDriverEntryPointSuccess && found;
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(address);
  };
  get(d->reserve, "cuMemAddressReserve");
  get(d->unreserve, "cuMemAddressFree");
  get(d->create, "cuMemCreate");
  get(d->release, "cuMemRelease");
  get(d->map, "cuMemMap");
  get(d->unmap, "cuMemUnmap");
  get(d->set_access, "cuMemSetAccess");
  if (!found) cudaGetLastError();
  return found ? d : nullptr;
}
#endif

const MemoryDriver* driver() {
  static const MemoryDriver* const d = load();
  return d;
}

CUmemLocation on_device(int device) {
  CUmemLocation l{};
  l.type = CU_MEM_LOCATION_TYPE_DEVICE;
  l.id = device;
  return l;
}

// The device itself and those that can reach its memory.
std::vector<CUmemAccessDesc> users_of(int device) {
  std::vector<CUmemAccessDesc> users;
  for (int other = 0; other < device_count(); ++other) {
    int can = other == device;
    if (!can && cudaDeviceCanAccessPeer(&can, other, device) != cudaSuccess) cudaGetLastError();
    if (!can) continue;
    CUmemAccessDesc d{};
    d.location = on_device(other);
    d.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    users.push_back(d);
  }
  return users;
}

}  // namespace

std::unique_ptr<AddressRange> AddressRange::reserve(int device, size_t bytes, size_t piece) {
  if (!driver()) return nullptr;
  OpDevice on(device);
  const size_t capacity = (bytes + piece - 1) / piece * piece;
  CUdeviceptr base = 0;
  if (driver()->reserve(&base, capacity, 0, 0, 0) != CUDA_SUCCESS) return nullptr;
  return std::unique_ptr<AddressRange>(new AddressRange(device, base, capacity, piece));
}

AddressRange::~AddressRange() {
  shrink(mapped());
  driver()->unreserve(base_, capacity_);
}

bool AddressRange::add_piece() {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = on_device(device_);
  CUmemGenericAllocationHandle handle{};
  if (driver()->create(&handle, piece_, &properties, 0) != CUDA_SUCCESS) return false;
  const CUdeviceptr at = base_ + mapped();
  if (driver()->map(at, piece_, 0, handle, 0) != CUDA_SUCCESS) {
    driver()->release(handle);
    return false;
  }
  const std::vector<CUmemAccessDesc> users = users_of(device_);
  if (driver()->set_access(at, piece_, users.data(), users.size()) != CUDA_SUCCESS) {
    driver()->unmap(at, piece_);
    driver()->release(handle);
    return false;
  }
  pieces_.push_back(handle);
  return true;
}

bool AddressRange::grow(size_t bytes) {
  if (bytes > capacity_ - mapped()) return false;
  OpDevice on(device_);
  const size_t before = mapped();
  while (mapped() < before + bytes) {
    if (add_piece()) continue;
    shrink(mapped() - before);
    return false;
  }
  return true;
}

void AddressRange::shrink(size_t bytes) {
  OpDevice on(device_);
  for (size_t end = mapped() - bytes; mapped() > end;) {
    const CUmemGenericAllocationHandle handle = pieces_.back();
    pieces_.pop_back();
    driver()->unmap(base_ + mapped(), piece_);
    driver()->release(handle);
  }
}

}  // namespace tessera::cuda
