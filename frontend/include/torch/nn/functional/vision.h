#pragma once

#include "torch/nn/functional/conv.h"
