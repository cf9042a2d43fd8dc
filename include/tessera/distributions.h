// Distributions.
#pragma once

#include "distributions/distributions.h"
