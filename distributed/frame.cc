#include "distributed/frame.h"

#include <string.h>

namespace tessera::distributed {
namespace {

constexpr size_t kHead = 9;  // id, code, count

void put(std::string& out, uint32_t value) { out.append(reinterpret_cast<const char*>(&value), 4); }

uint32_t number_at(const char* bytes) {
  uint32_t value;
  memcpy(&value, bytes, 4);
  return value;
}

// The fields of a body after its head; none if it is malformed.
bool parse_fields(std::string_view body, uint32_t count, std::vector<std::string>& fields) {
  if (count > kMostFields || count > body.size() / 4) return false;
  fields.reserve(count);
  for (uint32_t i = 0; i < count; ++i) {
    if (body.size() < 4) return false;
    uint32_t size = number_at(body.data());
    body.remove_prefix(4);
    if (size > body.size()) return false;
    fields.emplace_back(body.substr(0, size));
    body.remove_prefix(size);
  }
  return body.empty();
}

}  // namespace

std::string encode(uint32_t id, uint8_t code, const std::vector<std::string_view>& fields) {
  size_t size = kHead;
  for (auto field : fields) size += 4 + field.size();
  std::string out;
  out.reserve(4 + size);
  put(out, static_cast<uint32_t>(size));
  put(out, id);
  out.push_back(static_cast<char>(code));
  put(out, static_cast<uint32_t>(fields.size()));
  for (auto field : fields) {
    put(out, static_cast<uint32_t>(field.size()));
    out.append(field);
  }
  return out;
}

std::optional<Frame> FrameReader::next(bool& good) {
  good = true;
  if (bytes_.size() - at_ < 4) return std::nullopt;
  uint32_t size = number_at(bytes_.data() + at_);
  if (size < kHead || size > largest_) {
    good = false;
    return std::nullopt;
  }
  if (bytes_.size() - at_ - 4 < size) {
    if (at_ > 0) bytes_.erase(0, at_);
    at_ = 0;
    return std::nullopt;
  }
  std::string_view body(bytes_.data() + at_ + 4, size);
  Frame frame;
  frame.id = number_at(body.data());
  frame.code = static_cast<uint8_t>(body[4]);
  good = parse_fields(body.substr(kHead), number_at(body.data() + 5), frame.fields);
  if (!good) return std::nullopt;
  at_ += 4 + size;
  if (at_ == bytes_.size()) {
    bytes_.clear();
    at_ = 0;
    if (bytes_.capacity() > (1u << 20)) bytes_.shrink_to_fit();
  }
  return frame;
}

}  // namespace tessera::distributed
