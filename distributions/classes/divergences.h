// Divergences of one distribution from another.
#pragma once

#include "distributions/classes/distribution.h"

namespace tessera::distributions {

// KL(p | q), of shape p.batch_shape() broadcast with q's: of a family with itself, and between Normal, Laplace, Gumbel,
// Exponential, Gamma, Pareto, Beta, ContinuousBernoulli and Uniform where an expectation is known (infinite where p's
// support is not within q's); of counts, vectors, matrices, and what is made of these.
// Error("NotImplementedError") for others, Error("ValueError") for vectors of different lengths.
Tensor kl_divergence(const Distribution& p, const Distribution& q);

}  // namespace tessera::distributions
