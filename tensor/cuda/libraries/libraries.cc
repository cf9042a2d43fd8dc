#include "tensor/cuda/libraries/libraries.h"

#include <dlfcn.h>

#include <mutex>
#include <utility>

namespace tessera::cuda {
namespace {

struct Paths {
  std::mutex mutex;
  std::vector<std::string> directories;
};
Paths& paths() {
  static Paths& p = *new Paths;
  return p;
}

constexpr const char* kSystemDirectories[] = {"", "/usr/local/cuda/lib64/", "/usr/local/cuda/extras/CUPTI/lib64/",
                                              "/usr/lib/x86_64-linux-gnu/", "/usr/lib64/"};

void* open_one(const std::string& path, std::string* why) {
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char* const said = dlerror();
    if (why->empty() && said) *why = said;
  }
  return library;
}

}  // namespace

void set_library_paths(std::vector<std::string> directories) {
  const std::lock_guard lock(paths().mutex);
  paths().directories = std::move(directories);
}

std::vector<std::string> library_paths() {
  const std::lock_guard lock(paths().mutex);
  return paths().directories;
}

void* open_library(std::initializer_list<const char*> names, std::string* why) {
  for (const std::string& directory : library_paths())
    for (const char* const name : names)
      if (void* const library = open_one(directory + "/" + name, why)) return library;
  for (const char* const directory : kSystemDirectories)
    for (const char* const name : names)
      if (void* const library = open_one(std::string(directory) + name, why)) return library;
  return nullptr;
}

void* library_function(void* library, const char* name, std::string* why) {
  void* const address = dlsym(library, name);
  if (!address) {
    if (!why->empty()) *why += "; ";
    *why += std::string("it has no function ") + name;
  }
  return address;
}

}  // namespace tessera::cuda
