#pragma once

#include "torch/nn/modules/transformer.h"
