#include <torch/optim/optimizers.h>
#include <torch/optim/schedulers.h>
