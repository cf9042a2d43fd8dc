// The subset of the zip format that checkpoints use (APPNOTE.TXT of PKWARE, sections 4.3 and 4.5.3), reading with no
// trust in the input.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "serialization/checksum.h"
#include "serialization/file.h"

namespace tessera::serialization {

// Stored and deflated records. Every offset and size is checked against the source, every record that is read against
// its checksum. The packed sizes of all records together may not exceed the source, so that an archive can't ask for
// more memory than its own length times the ratio of deflate. Error for anything that is no sound archive.
//
// An archive whose checksums are all 0 was written without (set_crc32_options(False) of PyTorch and of this package):
// its records are not checked.
class ZipReader {
 public:
  explicit ZipReader(Source& source);
  const std::string& archive_name() const { return archive_name_; }
  std::vector<std::string> names() const;  // without the archive's own
  bool has(std::string_view name) const { return find(name) != nullptr; }
  uint64_t record_size(std::string_view name) const;
  // Where the data of a stored record lie, for mapping them; nothing of them is read, so nothing is checked but that
  // they lie inside. Error for a compressed record.
  uint64_t record_offset(std::string_view name);
  void read(std::string_view name, std::span<uint8_t> out);  // out: record_size(name) bytes
  std::vector<uint8_t> read(std::string_view name);

 private:
  struct Record {
    uint16_t method;
    uint32_t crc;
    uint64_t packed, size, offset;
  };
  struct Directory {
    uint64_t count, length, start;
  };
  Directory find_directory();
  void read_directory(const Directory& where);
  const Record* find(std::string_view name) const;  // without the archive's own name
  const Record& locate(std::string_view name) const;
  uint64_t data_start(const Record& r);
  uint32_t read_stored(uint64_t start, std::span<uint8_t> out);
  void inflate(const Record& r, uint64_t start, std::span<uint8_t> out);

  Source& source_;
  std::string archive_name_;
  std::map<std::string, Record> records_;
  bool checked_ = false;  // the archive has checksums
};

// Stored records whose data begins at multiples of 64 bytes, padded with an extra field 'FB'; zip64 where needed.
class ZipWriter {
 public:
  // checksums: false leaves 0 in their place.
  ZipWriter(Sink& sink, std::string archive_name, bool checksums = true)
      : sink_(sink), archive_name_(std::move(archive_name)), checksums_(checksums) {}
  // Returns the checksum.
  uint32_t write(std::string_view name, std::span<const uint8_t> data);
  void close();

 private:
  struct Record {
    std::string name;
    uint32_t crc;
    uint64_t size, offset;
  };
  void put(std::span<const uint8_t> data);
  uint32_t put_and_check(std::span<const uint8_t> data);

  Sink& sink_;
  std::string archive_name_;
  bool checksums_;
  uint64_t position_ = 0;
  std::vector<Record> records_;
};

inline std::span<const uint8_t> as_bytes(std::string_view s) {
  return {reinterpret_cast<const uint8_t*>(s.data()), s.size()};
}

}  // namespace tessera::serialization
