// torch::nn.
#pragma once

#include <torch/nn/aten.h>
#include <torch/nn/functional.h>
#include <torch/nn/init.h>
#include <torch/nn/modules.h>
#include <torch/nn/parallel/data_parallel.h>
#include <torch/nn/utils.h>
