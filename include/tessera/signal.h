// signal::windows and all others.
//
//   const Tensor window = signal::windows::hann(8, /*sym=*/false);
//   const Tensor smooth = wave.mul(window);
#pragma once

#include "signal/signal.h"
