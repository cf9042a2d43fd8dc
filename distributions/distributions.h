// tessera::distributions: probability distributions in C++, with the names of the Python ones.
#pragma once

#include "distributions/classes/categories.h"
#include "distributions/classes/composed.h"
#include "distributions/classes/divergences.h"
#include "distributions/classes/matrices.h"
#include "distributions/classes/mixture.h"
#include "distributions/classes/univariate.h"
#include "distributions/classes/vectors.h"
