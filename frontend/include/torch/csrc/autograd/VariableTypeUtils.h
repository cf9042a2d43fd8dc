#pragma once
#include "torch/csrc/autograd/variable.h"
