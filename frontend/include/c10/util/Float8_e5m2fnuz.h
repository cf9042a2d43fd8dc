#pragma once
#include "c10/core/ScalarType.h"
