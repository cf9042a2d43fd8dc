#include "tensor/cuda/runtime/architectures.h"

#include "tensor/core/error.h"
#include "tensor/cuda/runtime/runtime.h"

namespace tessera::cuda {

const std::vector<std::string>& architectures() {
  static const auto* const list = [] {
    auto* found = new std::vector<std::string>(1);
    for (const char c : std::string_view(TESSERA_CUDA_ARCHITECTURES)) {
      if (c == ',')
        found->emplace_back();
      else
        found->back() += c;
    }
    return found;
  }();
  return *list;
}

bool is_served(const std::vector<std::string>& compiled, int major, int minor) {
  for (const std::string& name : compiled) {
    const size_t line = name.find('_');
    const int number = std::stoi(name.substr(line + 1)), own = 10 * major + minor;
    const bool binary = name.compare(0, line, "sm") == 0;
    if (number <= own && (!binary || number / 10 == major)) return true;
  }
  return false;
}

std::string architecture_problem(int device) {
  const Properties& p = properties(device);
  if (is_served(architectures(), p.major, p.minor)) return {};
  std::string names;
  for (const std::string& name : architectures()) names += (names.empty() ? "" : " ") + name;
  return str_cat(p.name, " with CUDA capability sm_", p.major, p.minor,
                 " is not compatible with this library, whose kernels were compiled for ", names,
                 ". Please use another device, or build the library with TESSERA_CUDA_ARCHITECTURES=\"", p.major, ".",
                 p.minor, "\".");
}

}  // namespace tessera::cuda
