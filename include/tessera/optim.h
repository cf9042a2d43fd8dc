// Optimizers and schedules of learning rates.
#pragma once

#include "optim/optimizers/adam.h"
#include "optim/optimizers/lbfgs.h"
#include "optim/optimizers/lr_scheduler.h"
#include "optim/optimizers/sgd.h"
