// Distributions.
//
//   const distributions::Normal normal(zeros({2}), ones({2}));
//   const Tensor drawn = normal.sample(IntVector{1000});
//   const Tensor density = normal.log_prob(drawn).exp();
#pragma once

#include "distributions/distributions.h"
