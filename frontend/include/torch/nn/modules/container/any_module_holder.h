#pragma once

#include "torch/nn/modules/any.h"
