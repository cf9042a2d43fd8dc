// Everything of nn in C++.
#pragma once

#include "nn/modules/init.h"
#include "nn/modules/layers.h"
#include "nn/modules/loss.h"
#include "nn/modules/module.h"
