#pragma once

#include "torch/nn/modules/activation.h"
