#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::distributed {

// What a store's client and server say to each other. On the wire, all numbers little-endian:
//   u32 size of what follows | u32 id | u8 code | u32 count | count times (u32 size, bytes)
// A reply has the id of its request.
struct Frame {
  uint32_t id = 0;
  uint8_t code = 0;
  std::vector<std::string> fields;
};

inline constexpr uint32_t kLargestFrame = 1u << 30;
inline constexpr uint32_t kMostFields = 1u << 20;

std::string encode(uint32_t id, uint8_t code, const std::vector<std::string_view>& fields);

// Bytes as they arrive, cut into frames.
class FrameReader {
 public:
  // Frames may have at most so many bytes.
  explicit FrameReader(uint32_t largest = kLargestFrame) : largest_(largest) {}

  // What is more than `largest` from now on is malformed.
  void allow(uint32_t largest) { largest_ = largest; }
  void append(const char* data, size_t size) { bytes_.append(data, size); }

  // The next whole frame, if there is one. False in `good` (and for ever after) when the bytes are no frame.
  std::optional<Frame> next(bool& good);

 private:
  std::string bytes_;
  size_t at_ = 0;
  uint32_t largest_;
};

}  // namespace tessera::distributed
