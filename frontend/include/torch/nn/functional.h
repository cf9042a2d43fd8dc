// torch::nn::functional.
#pragma once

#include <torch/nn/functional/conv.h>
#include <torch/nn/functional/loss.h>
