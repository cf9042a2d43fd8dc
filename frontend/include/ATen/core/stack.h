#pragma once
#include "ATen/core/dispatch/boxing.h"
