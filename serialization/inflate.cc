// Deflate, after RFC 1951. Checkpoints are seldom compressed: the code is short rather than fast.
#include <array>
#include <cstring>

#include "serialization/zip.h"
#include "tensor/core/error.h"

namespace tessera::serialization {
namespace {

[[noreturn]] void broken() { internal::raise<Error>("PytorchStreamReader failed reading zip archive: decompression failed. The checkpoint is corrupted."); }

class Bits {
 public:
  explicit Bits(std::span<const uint8_t> data) : data_(data) {}
  uint32_t take(int n) {
    while (count_ < n) {
      if (at_ == data_.size()) broken();
      buffer_ |= uint32_t{data_[at_++]} << count_;
      count_ += 8;
    }
    const uint32_t v = buffer_ & ((1u << n) - 1);
    buffer_ >>= n;
    count_ -= n;
    return v;
  }
  // The rest of the current byte is dropped.
  std::span<const uint8_t> take_bytes(size_t n) {
    buffer_ = 0;
    count_ = 0;
    if (n > data_.size() - at_) broken();
    at_ += n;
    return data_.subspan(at_ - n, n);
  }

 private:
  std::span<const uint8_t> data_;
  size_t at_ = 0;
  uint32_t buffer_ = 0;
  int count_ = 0;
};

constexpr int kMaxLength = 15;

// A canonical Huffman code: codes of one length are consecutive numbers.
struct Code {
  std::array<uint16_t, kMaxLength + 1> count{};
  std::array<uint16_t, 288> symbol{};

  explicit Code(std::span<const uint8_t> lengths) {
    for (uint8_t l : lengths) ++count[l];
    count[0] = 0;
    int left = 1;
    std::array<uint16_t, kMaxLength + 2> offset{};
    for (int l = 1; l <= kMaxLength; ++l) {
      left = 2 * left - count[l];
      if (left < 0) broken();  // more codes than there are numbers
      offset[l + 1] = offset[l] + count[l];
    }
    for (size_t s = 0; s < lengths.size(); ++s) if (lengths[s]) symbol[offset[lengths[s]]++] = static_cast<uint16_t>(s);
  }

  int decode(Bits& bits) const {
    int code = 0, first = 0, index = 0;
    for (int l = 1; l <= kMaxLength; ++l) {
      code |= static_cast<int>(bits.take(1));
      if (code - first < count[l]) return symbol[index + code - first];
      index += count[l];
      first = (first + count[l]) << 1;
      code <<= 1;
    }
    broken();
  }
};

// Lengths: 3 to 10 one by one, then 4 codes for each number of extra bits; distances: 2 codes for each number.
struct Extra { int base, bits; };
Extra length_of(int code) {
  if (code < 8) return {3 + code, 0};
  if (code == 28) return {258, 0};
  if (code > 28) broken();
  const int bits = code / 4 - 1;
  return {3 + ((4 + code % 4) << bits), bits};
}
Extra distance_of(int code) {
  if (code < 4) return {1 + code, 0};
  if (code > 29) broken();
  const int bits = code / 2 - 1;
  return {1 + ((2 + code % 2) << bits), bits};
}

size_t block(Bits& bits, const Code& literals, const Code& distances, std::span<uint8_t> out, size_t at) {
  for (;;) {
    const int symbol = literals.decode(bits);
    if (symbol == 256) return at;
    if (symbol < 256) {
      if (at == out.size()) broken();
      out[at++] = static_cast<uint8_t>(symbol);
      continue;
    }
    const Extra l = length_of(symbol - 257);
    const size_t length = l.base + bits.take(l.bits);
    const Extra d = distance_of(distances.decode(bits));
    const size_t distance = d.base + bits.take(d.bits);
    if (distance > at || length > out.size() - at) broken();
    for (size_t i = 0; i < length; ++i, ++at) out[at] = out[at - distance];  // may overlap: repeats a pattern
  }
}

size_t fixed_block(Bits& bits, std::span<uint8_t> out, size_t at) {
  std::array<uint8_t, 288> lengths;
  for (int s = 0; s < 288; ++s) lengths[s] = s < 144 ? 8 : s < 256 ? 9 : s < 280 ? 7 : 8;
  std::array<uint8_t, 30> distances;
  distances.fill(5);
  return block(bits, Code(lengths), Code(distances), out, at);
}

size_t dynamic_block(Bits& bits, std::span<uint8_t> out, size_t at) {
  static constexpr uint8_t kOrder[19] = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};
  const size_t num_literals = 257 + bits.take(5), num_distances = 1 + bits.take(5), num_codes = 4 + bits.take(4);
  if (num_literals > 286) broken();
  std::array<uint8_t, 19> code_lengths{};
  for (size_t i = 0; i < num_codes; ++i) code_lengths[kOrder[i]] = static_cast<uint8_t>(bits.take(3));
  const Code codes(code_lengths);
  std::array<uint8_t, 286 + 32> lengths{};
  const size_t total = num_literals + num_distances;
  for (size_t i = 0; i < total;) {
    const int symbol = codes.decode(bits);
    if (symbol < 16) {
      lengths[i++] = static_cast<uint8_t>(symbol);
      continue;
    }
    if (symbol == 16 && i == 0) broken();
    const uint8_t value = symbol == 16 ? lengths[i - 1] : 0;
    const size_t repeat = symbol == 16 ? 3 + bits.take(2) : symbol == 17 ? 3 + bits.take(3) : 11 + bits.take(7);
    if (repeat > total - i) broken();
    std::memset(&lengths[i], value, repeat);
    i += repeat;
  }
  const std::span<const uint8_t> all(lengths);
  return block(bits, Code(all.first(num_literals)), Code(all.subspan(num_literals, num_distances)), out, at);
}

size_t stored_block(Bits& bits, std::span<uint8_t> out, size_t at) {
  const auto head = bits.take_bytes(4);
  const size_t length = head[0] | head[1] << 8, check = head[2] | head[3] << 8;
  if ((length ^ check) != 0xffff || length > out.size() - at) broken();
  const auto data = bits.take_bytes(length);
  if (length) std::memcpy(&out[at], data.data(), length);
  return at + length;
}

}  // namespace

void inflate(std::span<const uint8_t> packed, std::span<uint8_t> out) {
  Bits bits(packed);
  size_t at = 0;
  for (bool last = false; !last;) {
    last = bits.take(1);
    const uint32_t type = bits.take(2);
    if (type == 3) broken();
    at = type == 0 ? stored_block(bits, out, at) : type == 1 ? fixed_block(bits, out, at) : dynamic_block(bits, out, at);
  }
  if (at != out.size()) broken();
}

}  // namespace tessera::serialization
