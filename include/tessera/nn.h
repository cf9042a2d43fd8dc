// Modules, losses and the operators below them.
#pragma once

#include "nn/modules/modules.h"
#include "nn/nn_ops.h"
