// fft::rfft and all others.
#pragma once

#include "fft/fft.h"
