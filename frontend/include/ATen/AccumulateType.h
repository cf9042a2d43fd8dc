#pragma once
#include "ATen/OpMathType.h"
