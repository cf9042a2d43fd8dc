// The checksum of zip archives (CRC-32, zlib's), and the pieces in which long records are read and checked on all
// threads.
#pragma once

#include <cstdint>
#include <span>

namespace tessera::serialization {

// Small enough that a piece is still in a core's cache when its checksum is taken after it was read.
inline constexpr int64_t kPiece = 256 << 10;
inline int64_t count_pieces(uint64_t size) { return static_cast<int64_t>((size + kPiece - 1) / kPiece); }

// CRC-32 of data that follows data with checksum `start`, on this thread.
uint32_t crc32(std::span<const uint8_t> data, uint32_t start = 0);
// That of `size` bytes in count_pieces(size) pieces, of which each has its own checksum here.
uint32_t join_checksums(std::span<const uint32_t> pieces, uint64_t size);
// CRC-32 of long data, on all threads of the pool.
uint32_t parallel_crc32(std::span<const uint8_t> data);

}  // namespace tessera::serialization
