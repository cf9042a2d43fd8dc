// The checksum of zip archives.
#pragma once

#include <cstdint>
#include <span>

namespace tessera::serialization {

// CRC-32 (polynomial 0x04c11db7, reflected) of data that follows data with checksum `start`.
uint32_t crc32(std::span<const uint8_t> data, uint32_t start = 0);

}  // namespace tessera::serialization
