#pragma once
#include "torch/linalg.h"
