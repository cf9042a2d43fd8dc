// How operators reach the levels: kernels for all operators at the keys of the function transforms.
#pragma once

namespace tessera::func {

// At the first level of the process. What is not used costs nothing: without a level nobody has these keys.
void register_kernels();

}  // namespace tessera::func
