#pragma once

#include "torch/nn/modules/linear.h"
