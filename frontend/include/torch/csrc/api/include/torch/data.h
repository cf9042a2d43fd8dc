#pragma once
#include "torch/data.h"
