// linalg::solve and all others.
#pragma once

#include "linalg/linalg.h"
