// NVIDIA's libraries (cuBLAS, cuDNN ...) are looked for when they are first needed, not linked: the library works
// without them, as far as it goes.
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

namespace tessera::cuda {

// Directories to look in before the system's: where pip has put NVIDIA's packages (site-packages/nvidia/*/lib). Set
// before the first use.
void set_library_paths(std::vector<std::string> directories);
std::vector<std::string> library_paths();

// A shared library under the first of `names` that is found, or null; it stays loaded. *why: what the loader said.
void* open_library(std::initializer_list<const char*> names, std::string* why);
// The address of a function of it; null and an addition to *why if it is missing.
void* library_function(void* library, const char* name, std::string* why);

// get(pointer, "name") makes a pointer point to the function of that name.
struct FunctionsOf {
  void* library;
  std::string* why;
  template <class Pointer>
  void operator()(Pointer& function, const char* name) const {
    function = reinterpret_cast<Pointer>(library_function(library, name, why));
  }
};

}  // namespace tessera::cuda
