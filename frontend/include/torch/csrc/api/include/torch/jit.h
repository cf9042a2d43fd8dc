#pragma once
#include "torch/jit.h"
