#include "serialization/zip.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "tensor/core/error.h"
#include "tensor/core/parallel.h"

namespace tessera::serialization {
namespace {

constexpr uint32_t kLocalMagic = 0x04034b50, kCentralMagic = 0x02014b50, kEndMagic = 0x06054b50,
                   kEnd64Magic = 0x06064b50, kLocatorMagic = 0x07064b50, kDescriptorMagic = 0x08074b50;
constexpr size_t kLocalSize = 30, kCentralSize = 46, kEndSize = 22, kEnd64Size = 56, kLocatorSize = 20;
constexpr uint16_t kFlags = 0x0808;  // names are UTF-8; sizes stand in the descriptor behind the data
constexpr uint64_t kLimit32 = 0xffffffff;
constexpr uint64_t kMaxRatio = 1040;  // deflate can't do better than 1032 : 1
constexpr size_t kAlignment = 64;

[[noreturn]] void broken(const char* reason) {
  internal::raise<Error>("PytorchStreamReader failed reading zip archive: ", reason,
                         ". The checkpoint file is no zip archive, or it is incomplete or corrupted.");
}

uint64_t little(const uint8_t* p, int bytes) {
  uint64_t v = 0;
  for (int i = 0; i < bytes; ++i) v |= uint64_t{p[i]} << (8 * i);
  return v;
}
uint16_t u16(const uint8_t* p) { return static_cast<uint16_t>(little(p, 2)); }
uint32_t u32(const uint8_t* p) { return static_cast<uint32_t>(little(p, 4)); }
uint64_t u64(const uint8_t* p) { return little(p, 8); }

// A header in the making.
struct Bytes {
  std::vector<uint8_t> data;
  Bytes& put(uint64_t v, int bytes) {
    for (int i = 0; i < bytes; ++i) data.push_back(static_cast<uint8_t>(v >> (8 * i)));
    return *this;
  }
  Bytes& put(std::string_view s) {
    data.insert(data.end(), s.begin(), s.end());
    return *this;
  }
};

// Replaces fields that are all ones by those of the zip64 extra field, in their order.
void read_wide_fields(std::span<const uint8_t> extra, std::array<uint64_t*, 3> fields) {
  while (extra.size() >= 4) {
    const uint16_t kind = u16(extra.data());
    const size_t length = std::min<size_t>(u16(extra.data() + 2), extra.size() - 4);
    std::span<const uint8_t> content = extra.subspan(4, length);
    extra = extra.subspan(4 + length);
    if (kind != 1) continue;
    for (uint64_t* field : fields) {
      if (*field != kLimit32) continue;
      if (content.size() < 8) broken("a zip64 field is missing");
      *field = u64(content.data());
      content = content.subspan(8);
    }
    return;
  }
}

}  // namespace

ZipReader::ZipReader(Source& source) : source_(source) {
  read_directory(find_directory());
  if (records_.empty()) broken("the archive is empty");
}

ZipReader::Directory ZipReader::find_directory() {
  const uint64_t tail_size = std::min<uint64_t>(source_.size(), kEndSize + 0xffff);
  std::vector<uint8_t> tail(tail_size);
  source_.read(source_.size() - tail_size, tail);
  for (size_t at = tail_size < kEndSize ? 0 : tail_size - kEndSize + 1; at-- > 0;) {
    if (u32(&tail[at]) != kEndMagic) continue;
    Directory d{u16(&tail[at + 10]), u32(&tail[at + 12]), u32(&tail[at + 16])};
    const uint64_t position = source_.size() - tail_size + at;
    if (position < kLocatorSize) return d;
    std::array<uint8_t, kLocatorSize> locator;
    source_.read(position - kLocatorSize, locator);
    if (u32(locator.data()) != kLocatorMagic) return d;
    std::array<uint8_t, kEnd64Size> end;
    source_.read(u64(&locator[8]), end);
    if (u32(end.data()) != kEnd64Magic) broken("failed finding central directory");
    return {u64(&end[32]), u64(&end[40]), u64(&end[48])};
  }
  broken("failed finding central directory");
}

void ZipReader::read_directory(const Directory& where) {
  if (where.length > source_.size() || where.count > where.length / kCentralSize)
    broken("the central directory is broken");
  std::vector<uint8_t> directory(where.length);
  source_.read(where.start, directory);
  std::span<const uint8_t> rest = directory;
  uint64_t total = 0;
  for (uint64_t i = 0; i < where.count; ++i) {
    if (rest.size() < kCentralSize || u32(rest.data()) != kCentralMagic) broken("the central directory is broken");
    const uint8_t* p = rest.data();
    const size_t name_size = u16(p + 28), extra_size = u16(p + 30),
                 length = kCentralSize + name_size + extra_size + u16(p + 32);
    if (length > rest.size()) broken("the central directory is broken");
    const std::string name(reinterpret_cast<const char*>(p + kCentralSize), name_size);
    Record r{u16(p + 10), u32(p + 16), u32(p + 20), u32(p + 24), u32(p + 42)};
    read_wide_fields(rest.subspan(kCentralSize + name_size, extra_size), {&r.size, &r.packed, &r.offset});
    rest = rest.subspan(length);
    if (r.packed > source_.size() - std::min(total, source_.size())) broken("the records are larger than the file");
    total += r.packed;
    if (name.ends_with('/')) continue;
    if ((r.method != 0 && r.method != 8) || (r.method == 0 && r.packed != r.size) || r.size / kMaxRatio > r.packed)
      broken("unsupported method or invalid size");
    if (records_.empty()) archive_name_ = name.substr(0, name.find('/'));
    checked_ = checked_ || r.crc != 0;
    if (!records_.emplace(name, r).second) broken("two records have the same name");
  }
}

const ZipReader::Record* ZipReader::find(std::string_view name) const {
  const auto found = records_.find(archive_name_ + "/" + std::string(name));
  return found == records_.end() ? nullptr : &found->second;
}

const ZipReader::Record& ZipReader::locate(std::string_view name) const {
  const Record* r = find(name);
  TESSERA_CHECK(r, "PytorchStreamReader failed locating file ", name, ": file not found");
  return *r;
}

uint64_t ZipReader::record_size(std::string_view name) const { return locate(name).size; }

std::vector<std::string> ZipReader::names() const {
  std::vector<std::string> result;
  for (const auto& [name, record] : records_)
    if (name.starts_with(archive_name_ + "/")) result.push_back(name.substr(archive_name_.size() + 1));
  return result;
}

uint64_t ZipReader::data_start(const Record& r) {
  std::array<uint8_t, kLocalSize> header;
  source_.read(r.offset, header);
  if (u32(header.data()) != kLocalMagic) broken("a local header is broken");
  return r.offset + kLocalSize + u16(&header[26]) + u16(&header[28]);  // no overflow: the header lay inside the source
}

uint64_t ZipReader::record_offset(std::string_view name) {
  const Record& r = locate(name);
  TESSERA_CHECK(r.method == 0, "record ", name, " is compressed and can't be memory-mapped");
  const uint64_t start = data_start(r);
  if (start > source_.size() || r.size > source_.size() - start) broken("a record lies outside the file");
  return start;
}

uint32_t ZipReader::read_stored(uint64_t start, std::span<uint8_t> out) {
  if (!source_.concurrent()) {
    uint32_t crc = 0;
    for (uint64_t at = 0; at < out.size(); at += kPiece) {
      const std::span<uint8_t> piece = out.subspan(at, std::min<uint64_t>(kPiece, out.size() - at));
      source_.read(start + at, piece);
      if (checked_) crc = crc32(piece, crc);
    }
    return crc;
  }
  std::vector<uint32_t> pieces(count_pieces(out.size()));
  parallel_for(static_cast<int64_t>(out.size()), kPiece, [&](int64_t begin, int64_t end) {
    const std::span<uint8_t> piece = out.subspan(begin, end - begin);
    source_.read(start + begin, piece);
    if (checked_) pieces[begin / kPiece] = crc32(piece);
  });
  return join_checksums(pieces, out.size());
}

void ZipReader::inflate(const Record& r, uint64_t start, std::span<uint8_t> out) {
  z_stream stream = {};
  TESSERA_CHECK(inflateInit2(&stream, -MAX_WBITS) == Z_OK, "zlib has no memory for a decompressor");  // raw deflate
  struct End {
    z_stream* s;
    ~End() { inflateEnd(s); }
  } end{&stream};
  std::vector<uint8_t> packed(std::min<uint64_t>(r.packed, kPiece));
  uint64_t taken = 0, written = 0;
  int status = Z_OK;
  while (status == Z_OK) {
    if (stream.avail_in == 0 && taken < r.packed) {
      const std::span<uint8_t> piece = std::span(packed).first(std::min<uint64_t>(packed.size(), r.packed - taken));
      source_.read(start + taken, piece);
      taken += piece.size();
      stream.next_in = piece.data();
      stream.avail_in = static_cast<uInt>(piece.size());
    }
    const uInt room = static_cast<uInt>(std::min<uint64_t>(out.size() - written, 1u << 30));
    uint8_t excess;  // a byte more than there should be is an error, not cut off
    stream.next_out = room ? out.data() + written : &excess;
    stream.avail_out = room ? room : 1;
    status = ::inflate(&stream, Z_NO_FLUSH);
    if (room == 0 && stream.avail_out == 0) broken("a compressed record is longer than it should be");
    if (room) written += room - stream.avail_out;
  }
  if (status != Z_STREAM_END || written != out.size()) broken("a compressed record is broken");
}

void ZipReader::read(std::string_view name, std::span<uint8_t> out) {
  const Record& r = locate(name);
  if (out.size() != r.size) broken("a record has another size");
  const uint64_t start = data_start(r);
  uint32_t crc = 0;
  if (r.method == 0) {
    crc = read_stored(start, out);
  } else {
    inflate(r, start, out);
    if (checked_) crc = parallel_crc32(out);
  }
  TESSERA_CHECK(!checked_ || crc == r.crc, "PytorchStreamReader failed reading zip archive: the checksum of record ",
                name, " is ", crc, ", but the archive says ", r.crc, ". The checkpoint file is corrupted.");
}

std::vector<uint8_t> ZipReader::read(std::string_view name) {
  std::vector<uint8_t> data(record_size(name));
  read(name, data);
  return data;
}

void ZipWriter::put(std::span<const uint8_t> data) {
  sink_.write(data);
  position_ += data.size();
}

// One thread writes while others take the checksum, where there are any.
uint32_t ZipWriter::put_and_check(std::span<const uint8_t> data) {
  if (!checksums_ || !sink_.any_thread() || data.size() <= kPiece) {
    put(data);
    return checksums_ ? parallel_crc32(data) : 0;
  }
  std::vector<uint32_t> pieces(count_pieces(data.size()));
  parallel_for(static_cast<int64_t>(pieces.size()) + 1, 1, [&](int64_t i, int64_t) {
    if (i == 0) return put(data);
    const size_t begin = (i - 1) * kPiece;
    pieces[i - 1] = crc32(data.subspan(begin, std::min<size_t>(kPiece, data.size() - begin)));
  });
  return join_checksums(pieces, data.size());
}

uint32_t ZipWriter::write(std::string_view name, std::span<const uint8_t> data) {
  Record r{archive_name_ + "/" + std::string(name), 0, data.size(), position_};
  TESSERA_CHECK(r.name.size() < 0x8000, "the record name is too long: ", r.name.size(), " bytes");
  const bool wide = r.size >= kLimit32;
  Bytes extra;
  if (wide) extra.put(1, 2).put(16, 2).put(r.size, 8).put(r.size, 8);
  const size_t used = static_cast<size_t>(position_ + kLocalSize + r.name.size() + extra.data.size() + 4);
  const size_t padding = (kAlignment - used % kAlignment) % kAlignment;
  extra.put("FB").put(padding, 2).put(std::string(padding, 'Z'));
  Bytes header;
  const uint64_t shown = wide ? kLimit32 : 0;
  header.put(kLocalMagic, 4)
      .put(wide ? 45 : 0, 2)
      .put(kFlags, 2)
      .put(0, 2 + 4)
      .put(0, 4)
      .put(shown, 4)
      .put(shown, 4)
      .put(r.name.size(), 2)
      .put(extra.data.size(), 2)
      .put(r.name);
  put(header.data);
  put(extra.data);
  r.crc = put_and_check(data);
  Bytes descriptor;
  descriptor.put(kDescriptorMagic, 4).put(r.crc, 4).put(r.size, wide ? 8 : 4).put(r.size, wide ? 8 : 4);
  put(descriptor.data);
  records_.push_back(std::move(r));
  return records_.back().crc;
}

void ZipWriter::close() {
  const uint64_t start = position_;
  for (const Record& r : records_) {
    Bytes wide, header;
    if (r.size >= kLimit32) wide.put(r.size, 8).put(r.size, 8);
    if (r.offset >= kLimit32) wide.put(r.offset, 8);
    const int version = wide.data.empty() ? 0 : 45;
    const size_t extra = wide.data.empty() ? 0 : wide.data.size() + 4;
    header.put(kCentralMagic, 4)
        .put(version, 2)
        .put(version, 2)
        .put(kFlags, 2)
        .put(0, 2 + 4)
        .put(r.crc, 4)
        .put(std::min(r.size, kLimit32), 4)
        .put(std::min(r.size, kLimit32), 4);
    header.put(r.name.size(), 2)
        .put(extra, 2)
        .put(0, 2 + 2 + 2)
        .put(0, 4)
        .put(std::min(r.offset, kLimit32), 4)
        .put(r.name);
    if (extra) header.put(1, 2).put(wide.data.size(), 2);
    put(header.data);
    put(wide.data);
  }
  const uint64_t length = position_ - start, end64 = position_, count = records_.size();
  Bytes end;
  end.put(kEnd64Magic, 4)
      .put(44, 8)
      .put(0x031e, 2)
      .put(45, 2)
      .put(0, 8)
      .put(count, 8)
      .put(count, 8)
      .put(length, 8)
      .put(start, 8);
  end.put(kLocatorMagic, 4).put(0, 4).put(end64, 8).put(1, 4);
  end.put(kEndMagic, 4)
      .put(0, 4)
      .put(std::min<uint64_t>(count, 0xffff), 2)
      .put(std::min<uint64_t>(count, 0xffff), 2)
      .put(std::min(length, kLimit32), 4)
      .put(std::min(start, kLimit32), 4);
  end.put(0, 2);
  put(end.data);
}

}  // namespace tessera::serialization
