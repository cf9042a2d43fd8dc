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

// The functions of one library, or why there are none.
template <class Functions>
struct Library {
  Functions functions{};
  bool found = false;
  std::string why;
};
// fill(functions, get) gets each function by its name: all of them, or the library counts as missing.
template <class Functions, class Fill>
Library<Functions> load_library(std::initializer_list<const char*> names, Fill fill) {
  Library<Functions> l;
  void* const library = open_library(names, &l.why);
  if (!library) return l;
  l.why.clear();
  fill(l.functions, FunctionsOf{library, &l.why});
  l.found = l.why.empty();
  return l;
}

}  // namespace tessera::cuda
