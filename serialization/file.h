// Where archives lie: memory and files, reading at any position and writing from begin to end.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::serialization {

// Bytes at any position. read() throws Error when it would leave the source.
class Source {
 public:
  virtual ~Source() = default;
  virtual void read(uint64_t position, std::span<uint8_t> out) = 0;
  // Whether read() may be called from several threads at once.
  virtual bool concurrent() const { return true; }
  uint64_t size() const { return size_; }

 protected:
  // Error unless `n` bytes at `position` lie inside.
  void check_range(uint64_t position, uint64_t n) const;
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
  // What follows byte `base` of an open file; the descriptor is duplicated, its position neither used nor changed.
  FileSource(int descriptor, uint64_t base);
  ~FileSource() override;
  FileSource(const FileSource&) = delete;
  void read(uint64_t position, std::span<uint8_t> out) override;

 private:
  void find_size(std::string_view name);

  int file_ = -1;
  uint64_t base_ = 0;
};

class Sink {
 public:
  virtual ~Sink() = default;
  virtual void write(std::span<const uint8_t> data) = 0;
  // Whether write() may be called on another thread than the one that made the sink.
  virtual bool any_thread() const { return true; }
};

class MemorySink final : public Sink {
 public:
  void write(std::span<const uint8_t> data) override { data_.insert(data_.end(), data.begin(), data.end()); }
  std::vector<uint8_t> take() { return std::move(data_); }

 private:
  std::vector<uint8_t> data_;
};

// A file that appears at its path as a whole: until close(), and after a failure, a full disk or a kill, the path has
// what it had before. The bytes go to a new file in the same folder that has no name, where the file system has such
// ones; close() gives it the path, or where that is taken a random name (".NAME.XXXXXXXX.tmp", never an existing file,
// never through a link) that it renames at once: a kill leaves nothing behind, but between these two calls. Elsewhere
// the file has that name from the beginning; the destructor removes it if close() was not reached, a killed process
// leaves it.
//
//  * The result has the permission bits that open() would have given: those of the file that it replaces, or what umask
//    leaves. Owner and group of a replaced file are kept where the system allows it; other names of it (hard links)
//    keep the old contents.
//  * A path that is a symbolic link stays one: the file that it names is replaced, or made.
//  * What is no regular file (a pipe, /dev/stdout, a terminal) is written directly, and so is an existing file in a
//    folder in which no other may be made: neither can be replaced.
//  * Nothing is synced: after a crash of the machine (not of the process) the contents may be incomplete, as with any
//    file just written. Call fsync on the file and its folder where that matters.
class FileSink final : public Sink {
 public:
  explicit FileSink(const std::string& path);  // Error if it can't be written
  ~FileSink() override;
  FileSink(const FileSink&) = delete;
  void write(std::span<const uint8_t> data) override;
  void close();
  bool is_open() const { return file_ >= 0; }
  // Gives the file up: what was written is removed (a directly written one stays as it is).
  void discard();

 private:
  void open_directly();
  void open_beside(const struct stat* old);
  bool open_temporary(mode_t mode);  // false where the folder refuses new files
  int name_file();                   // an error number; afterwards the file is there
  std::string temporary_name() const;
  void flush();
  void write_through(std::span<const uint8_t> data);
  [[noreturn]] void fail(int reason) const;

  std::string path_, target_, temporary_;  // as given; where links lead; empty while the file has no name of its own
  bool nameless_ = false;
  int file_ = -1;
  std::vector<uint8_t> buffer_;
};

}  // namespace tessera::serialization
