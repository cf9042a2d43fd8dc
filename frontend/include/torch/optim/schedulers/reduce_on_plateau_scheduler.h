#include <torch/optim/schedulers.h>
