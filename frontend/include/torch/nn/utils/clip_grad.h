#pragma once

#include "torch/nn/utils.h"
