// Which devices the compiled kernels serve.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tessera::cuda {

// What the kernels were compiled for: "sm_90" is code for one major version from that minor one on, "compute_90" what
// any device from there on compiles for itself.
const std::vector<std::string>& architectures();

// Whether a device of this compute capability runs what was compiled for one of `compiled`.
bool is_served(const std::vector<std::string>& compiled, int major, int minor);

// What is wrong with a device that is not served, and what to do; "" for one that is.
std::string architecture_problem(int device);

}  // namespace tessera::cuda
