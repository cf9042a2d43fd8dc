#pragma once
#include "c10/core/DispatchKeySet.h"
