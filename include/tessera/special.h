// special::erfcx and all others.
//
//   const Tensor y = special::erfcx(x);  // exp(x^2) erfc(x), where erfc(x) alone is 0
//   const Tensor z = special::zeta(x, 1.0);
#pragma once

#include "special/special.h"
