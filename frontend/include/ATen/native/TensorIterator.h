#pragma once
#include "ATen/TensorIterator.h"
