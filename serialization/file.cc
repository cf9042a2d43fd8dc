#include "serialization/file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "tensor/core/error.h"

namespace tessera::serialization {
namespace {

constexpr size_t kLongestCall = size_t{1} << 30;  // read and write take no more than 2 GiB at once
constexpr size_t kBuffer = 64 << 10;              // headers and small records go together
constexpr int kMostLinks = 40;                    // as the kernel
constexpr int kMostNames = 100;                   // that are tried

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}
std::string beside(const std::string& path, const std::string& name) {
  return name.starts_with('/') ? name : path.substr(0, path.rfind('/') + 1) + name;
}

// The path behind all links, of a file that need not exist. None where that is no path: a link of procfs (/dev/stdout)
// stands for an open file, which has no name or another one by now.
std::optional<std::string> behind_links(std::string path) {
  for (int i = 0; i < kMostLinks; ++i) {
    struct stat info;
    if (lstat(path.c_str(), &info) != 0 || !S_ISLNK(info.st_mode)) return path;
    struct statfs system;
    if (statfs(folder_of(path).c_str(), &system) != 0 || system.f_type == PROC_SUPER_MAGIC) return std::nullopt;
    std::string next(4096, '\0');
    const ssize_t n = readlink(path.c_str(), next.data(), next.size());
    if (n <= 0 || n == static_cast<ssize_t>(next.size())) return std::nullopt;
    path = beside(path, next.substr(0, n));
  }
  return std::nullopt;
}

std::string entry_of(int file) { return "/proc/self/fd/" + std::to_string(file); }

std::string random_suffix() {
  uint8_t bytes[8];
  TESSERA_CHECK(getrandom(bytes, sizeof bytes, 0) == sizeof bytes, "no random numbers: ", std::strerror(errno));
  std::string text;
  for (uint8_t b : bytes) text += "abcdefghijklmnopqrstuvwxyz012345"[b % 32];
  return text;
}

}  // namespace

void Source::check_range(uint64_t position, uint64_t n) const {
  TESSERA_CHECK(position <= size_ && n <= size_ - position,
                "PytorchStreamReader failed reading zip archive: a record lies outside the file. The checkpoint file "
                "is incomplete or corrupted.");
}

void MemorySource::read(uint64_t position, std::span<uint8_t> out) {
  check_range(position, out.size());
  if (!out.empty()) std::memcpy(out.data(), data_.data() + position, out.size());
}

FileSource::FileSource(const std::string& path) : file_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
  TESSERA_CHECK(file_ >= 0, "can't open '", path, "': ", std::strerror(errno));
  find_size(path);
}
FileSource::FileSource(int descriptor, uint64_t base) : file_(fcntl(descriptor, F_DUPFD_CLOEXEC, 0)), base_(base) {
  TESSERA_CHECK(file_ >= 0, "can't read file descriptor ", descriptor, ": ", std::strerror(errno));
  find_size("file descriptor " + std::to_string(descriptor));
}
FileSource::~FileSource() { ::close(file_); }

void FileSource::find_size(std::string_view name) {
  struct stat info;
  const int status = fstat(file_, &info);
  const off_t end = status != 0 || S_ISDIR(info.st_mode) ? -1
                    : S_ISREG(info.st_mode)              ? info.st_size
                                                         : lseek(file_, 0, SEEK_END);
  if (end >= 0) {
    size_ = static_cast<uint64_t>(end) - std::min(base_, static_cast<uint64_t>(end));
    return;
  }
  const int reason = status == 0 && S_ISDIR(info.st_mode) ? EISDIR : errno;
  ::close(file_);
  internal::raise<Error>("can't read '", name, "': ", std::strerror(reason));
}

void FileSource::read(uint64_t position, std::span<uint8_t> out) {
  check_range(position, out.size());
  while (!out.empty()) {
    const ssize_t n =
        pread(file_, out.data(), std::min(out.size(), kLongestCall), static_cast<off_t>(base_ + position));
    if (n < 0 && errno == EINTR) continue;
    TESSERA_CHECK(n > 0, "PytorchStreamReader failed reading zip archive: file read failed: ",
                  n < 0 ? std::strerror(errno) : "the file became shorter");
    position += n;
    out = out.subspan(n);
  }
}

FileSink::FileSink(const std::string& path) : path_(path) {
  struct stat info;
  const bool exists = stat(path.c_str(), &info) == 0;
  const auto target = exists && !S_ISREG(info.st_mode) ? std::nullopt : behind_links(path);
  if (target) {
    target_ = *target;
    open_beside(exists ? &info : nullptr);
  } else {
    open_directly();
  }
}

void FileSink::open_beside(const struct stat* old) {
  // A file that open() would refuse to write is not replaced, either.
  if (old && faccessat(AT_FDCWD, target_.c_str(), W_OK, AT_EACCESS) != 0) fail(errno);
  const mode_t mode = old ? old->st_mode & 0777 : 0666;
  if (!open_temporary(mode)) {
    if (old && (errno == EACCES || errno == EPERM || errno == EROFS)) return open_directly();
    fail(errno);
  }
  if (!old) return;
  // Before the first byte, so that who may not read the old file reads nothing of the new one.
  struct stat mine;
  const bool same_owner = fstat(file_, &mine) == 0 && mine.st_uid == old->st_uid && mine.st_gid == old->st_gid;
  if (!same_owner && fchown(file_, old->st_uid, old->st_gid) != 0)
    (void)!fchown(file_, static_cast<uid_t>(-1), old->st_gid);
  if (fchmod(file_, mode) == 0) return;
  const int reason = errno;
  discard();
  fail(reason);
}

FileSink::~FileSink() { discard(); }

void FileSink::open_directly() {
  file_ = open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY, 0666);
  if (file_ < 0) fail(errno);
}

std::string FileSink::temporary_name() const {
  const std::string base = target_.substr(target_.rfind('/') + 1).substr(0, 200);  // names have 255 bytes at most
  return beside(target_, "." + base + "." + random_suffix() + ".tmp");
}

bool FileSink::open_temporary(mode_t mode) {
  // A file without a name gets one through its entry in procfs.
  file_ = open(folder_of(target_).c_str(), O_WRONLY | O_TMPFILE | O_CLOEXEC, mode);
  nameless_ = file_ >= 0 && access(entry_of(file_).c_str(), F_OK) == 0;
  if (nameless_) return true;
  if (file_ >= 0) ::close(file_);
  for (int tries = 0; tries < kMostNames; ++tries) {
    temporary_ = temporary_name();
    file_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
    if (file_ >= 0) return true;
    if (errno != EEXIST) break;
  }
  temporary_.clear();
  return false;
}

int FileSink::name_file() {
  const std::string entry = entry_of(file_);
  const auto link_to = [&](const std::string& name) {
    return linkat(AT_FDCWD, entry.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) == 0 ? 0 : errno;
  };
  int reason = link_to(target_);
  for (int tries = 0; reason == EEXIST && tries < kMostNames; ++tries) {
    const std::string name = temporary_name();
    reason = link_to(name);
    if (reason) continue;
    if (std::rename(name.c_str(), target_.c_str()) == 0) return 0;
    reason = errno;
    unlink(name.c_str());
    break;
  }
  return reason;
}

void FileSink::fail(int reason) const { internal::raise<Error>("can't write '", path_, "': ", std::strerror(reason)); }

void FileSink::write(std::span<const uint8_t> data) {
  TESSERA_CHECK(is_open(), "can't write '", path_, "': it is closed");
  if (data.size() >= kBuffer - buffer_.size()) {
    flush();
    if (data.size() >= kBuffer) return write_through(data);
  }
  buffer_.insert(buffer_.end(), data.begin(), data.end());
}

void FileSink::flush() {
  write_through(buffer_);
  buffer_.clear();
}

void FileSink::write_through(std::span<const uint8_t> data) {
  while (!data.empty()) {
    const ssize_t n = ::write(file_, data.data(), std::min(data.size(), kLongestCall));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail(errno);
    data = data.subspan(n);
  }
}

void FileSink::close() {
  TESSERA_CHECK(is_open(), "can't write '", path_, "': it is closed");
  flush();
  const int refused = std::exchange(nameless_, false) ? name_file() : 0;
  int reason = ::close(std::exchange(file_, -1)) == 0 ? refused : errno;
  if (temporary_.empty()) {
    if (reason) fail(reason);
    return;
  }
  if (!reason && std::rename(temporary_.c_str(), target_.c_str()) != 0) reason = errno;
  if (reason) unlink(temporary_.c_str());
  temporary_.clear();
  if (reason) fail(reason);
}

void FileSink::discard() {
  if (!is_open()) return;
  ::close(std::exchange(file_, -1));
  nameless_ = false;
  if (!temporary_.empty()) unlink(temporary_.c_str());
  temporary_.clear();
}

}  // namespace tessera::serialization
