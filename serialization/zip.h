// The subset of the zip format that checkpoints use (APPNOTE.TXT of PKWARE, sections 4.3 and 4.5.3), reading with no trust in the input.
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "serialization/crc32.h"

namespace tessera::serialization {

// RFC 1951. Fills out exactly; Error if the stream is broken or its length is another.
void inflate(std::span<const uint8_t> packed, std::span<uint8_t> out);

// Bytes at any position, of a file or of memory. read() throws Error when it would leave the source.
class Source {
 public:
  virtual ~Source() = default;
  virtual void read(uint64_t position, std::span<uint8_t> out) = 0;
  uint64_t size() const { return size_; }
 protected:
  uint64_t size_ = 0;
};

class MemorySource final : public Source {
 public:
  explicit MemorySource(std::span<const uint8_t> data) : data_(data) { size_ = data.size(); }
  void read(uint64_t position, std::span<uint8_t> out) override;
 private:
  std::span<const uint8_t> data_;
};

class FileSource final : public Source {
 public:
  explicit FileSource(const std::string& path);  // Error if it can't be opened
  void read(uint64_t position, std::span<uint8_t> out) override;
 private:
  std::unique_ptr<FILE, int (*)(FILE*)> file_;
};

// Where records go: a file or memory.
class Sink {
 public:
  virtual ~Sink() = default;
  virtual void write(std::span<const uint8_t> data) = 0;
};

class MemorySink final : public Sink {
 public:
  void write(std::span<const uint8_t> data) override { data_.insert(data_.end(), data.begin(), data.end()); }
  std::vector<uint8_t> take() { return std::move(data_); }
 private:
  std::vector<uint8_t> data_;
};

// Writes to PATH.tmp; close() moves it to its place, so that a failure leaves no half-written checkpoint.
class FileSink final : public Sink {
 public:
  explicit FileSink(const std::string& path);
  ~FileSink() override;
  void write(std::span<const uint8_t> data) override;
  void close();
 private:
  std::string path_, temporary_;
  std::unique_ptr<FILE, int (*)(FILE*)> file_;
};

// Every offset and size is checked against the source. The packed sizes of all records together may not exceed it, so that an archive can't ask for more memory than its own
// length times the ratio of deflate.
class ZipReader {
 public:
  explicit ZipReader(Source& source);  // Error for anything that is no sound archive
  const std::string& archive_name() const { return archive_name_; }
  bool has(std::string_view name) const { return find(name) != nullptr; }
  uint64_t record_size(std::string_view name) const;
  void read(std::string_view name, std::span<uint8_t> out);  // out: record_size(name) bytes
  std::vector<uint8_t> read(std::string_view name);

 private:
  struct Record { std::string name; uint16_t method; uint64_t packed, size, offset; };
  struct Directory { uint64_t count, length, start; };
  Directory find_directory();
  void read_directory(const Directory& where);
  const Record* find(std::string_view name) const;  // without the archive's own name
  const Record& locate(std::string_view name) const;

  Source& source_;
  std::string archive_name_;
  std::vector<Record> records_;  // sorted by name
};

// Stored records whose data begins at multiples of 64 bytes, padded with an extra field 'FB'; zip64 where needed.
class ZipWriter {
 public:
  ZipWriter(Sink& sink, std::string archive_name) : sink_(sink), archive_name_(std::move(archive_name)) {}
  // Returns the checksum.
  uint32_t write(std::string_view name, std::span<const uint8_t> data);
  void close();

 private:
  struct Record { std::string name; uint32_t crc; uint64_t size, offset; };
  void put(std::span<const uint8_t> data);

  Sink& sink_;
  std::string archive_name_;
  uint64_t position_ = 0;
  std::vector<Record> records_;
};

inline std::span<const uint8_t> as_bytes(std::string_view s) { return {reinterpret_cast<const uint8_t*>(s.data()), s.size()}; }

}  // namespace tessera::serialization
