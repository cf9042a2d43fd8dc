#pragma once
#include "c10/core/Scalar.h"
