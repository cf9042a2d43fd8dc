#pragma once
#include "torch/utils.h"
