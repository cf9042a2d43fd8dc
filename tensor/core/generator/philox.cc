#include "tensor/core/generator/philox.h"

#include <cstring>

#include "tensor/core/error.h"

namespace tessera {

void PhiloxGeneratorImpl::manual_seed(uint64_t seed) {
  std::lock_guard lock(mutex());
  seed_ = seed;
  offset_ = 0;
}

uint64_t PhiloxGeneratorImpl::initial_seed() const {
  std::lock_guard lock(mutex());
  return seed_;
}

std::vector<uint8_t> PhiloxGeneratorImpl::get_state() const {
  std::vector<uint8_t> bytes(kStateBytes);
  std::lock_guard lock(mutex());
  std::memcpy(bytes.data(), &seed_, 8);
  std::memcpy(bytes.data() + 8, &offset_, 8);
  return bytes;
}

namespace {
void check_offset(uint64_t offset) { TESSERA_CHECK(offset % 4 == 0, "offset must be a multiple of 4"); }
}  // namespace

void PhiloxGeneratorImpl::set_state(std::span<const uint8_t> bytes) {
  TESSERA_CHECK(bytes.size() == kStateBytes || bytes.size() == 8, "RNG state is wrong size");
  uint64_t seed, offset = 0;
  std::memcpy(&seed, bytes.data(), 8);
  if (bytes.size() == kStateBytes) std::memcpy(&offset, bytes.data() + 8, 8);
  check_offset(offset);
  std::lock_guard lock(mutex());
  seed_ = seed;
  offset_ = offset;
}

IntrusivePtr<GeneratorImpl> PhiloxGeneratorImpl::clone() const {
  auto copy = make_intrusive<PhiloxGeneratorImpl>(device());
  std::lock_guard lock(mutex());
  copy->seed_ = seed_;
  copy->offset_ = offset_;
  return copy;
}

void PhiloxGeneratorImpl::set_offset(uint64_t offset) {
  check_offset(offset);
  std::lock_guard lock(mutex());
  offset_ = offset;
}

uint64_t PhiloxGeneratorImpl::get_offset() const {
  std::lock_guard lock(mutex());
  return offset_;
}

uint64_t PhiloxGeneratorImpl::reserve(uint64_t n) {
  std::lock_guard lock(mutex());
  const uint64_t begin = offset_;
  offset_ += (n + 3) / 4 * 4;
  return begin;
}

}  // namespace tessera
