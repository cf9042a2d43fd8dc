// Files and folders with names of their own, gone with the object: make_tempfile().name.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <optional>
#include <string>
#include <utility>

#include "c10/util/Exception.h"

namespace c10 {
namespace detail {
// Below the first folder that the environment names.
inline std::string temporary_template(const std::string& prefix) {
  for (const char* name : {"TMPDIR", "TMP", "TEMP", "TEMPDIR"})
    if (const char* folder = std::getenv(name)) return std::string(folder) + "/" + prefix + "XXXXXX";
  return "/tmp/" + prefix + "XXXXXX";
}
}  // namespace detail

struct TempFile {
  explicit TempFile(std::string n, int f = -1) : fd(f), name(std::move(n)) {}
  TempFile(TempFile&& from) noexcept : fd(std::exchange(from.fd, -1)), name(std::exchange(from.name, {})) {}
  TempFile& operator=(TempFile&& from) noexcept {
    std::swap(fd, from.fd);
    std::swap(name, from.name);
    return *this;
  }
  ~TempFile() {
    if (!name.empty()) ::unlink(name.c_str());
    if (fd >= 0) ::close(fd);
  }
  int fd;
  std::string name;
};
// It has to be empty by then.
struct TempDir {
  explicit TempDir(std::string n) : name(std::move(n)) {}
  TempDir(TempDir&& from) noexcept : name(std::exchange(from.name, {})) {}
  TempDir& operator=(TempDir&& from) noexcept {
    std::swap(name, from.name);
    return *this;
  }
  ~TempDir() {
    if (!name.empty()) ::rmdir(name.c_str());
  }
  std::string name;
};

inline std::optional<TempFile> try_make_tempfile(std::string prefix = "torch-file-") {
  std::string name = detail::temporary_template(prefix);
  const int fd = ::mkstemp(name.data());
  return fd < 0 ? std::nullopt : std::optional<TempFile>(std::in_place, name, fd);
}
inline std::optional<TempDir> try_make_tempdir(std::string prefix = "torch-dir-") {
  std::string name = detail::temporary_template(prefix);
  return ::mkdtemp(name.data()) ? std::optional<TempDir>(std::in_place, name) : std::nullopt;
}
inline TempFile make_tempfile(std::string prefix = "torch-file-") {
  auto made = try_make_tempfile(prefix);
  TORCH_CHECK(made, "no temporary file can be made: ", detail::temporary_template(prefix));
  return std::move(*made);
}
inline TempDir make_tempdir(std::string prefix = "torch-dir-") {
  auto made = try_make_tempdir(prefix);
  TORCH_CHECK(made, "no temporary folder can be made: ", detail::temporary_template(prefix));
  return std::move(*made);
}

}  // namespace c10
