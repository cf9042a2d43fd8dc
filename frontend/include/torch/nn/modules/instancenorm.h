#pragma once

#include "torch/nn/modules/normalization.h"
