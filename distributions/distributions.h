// tessera::distributions: probability distributions in C++, with the names of the Python ones.
#pragma once

#include "distributions/classes/composed.h"
#include "distributions/classes/univariate.h"
#include "distributions/classes/vectors.h"
