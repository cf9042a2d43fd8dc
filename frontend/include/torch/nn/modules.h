// All modules.
#pragma once

#include <torch/nn/modules/adaptive.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/loss.h>
#include <torch/nn/modules/pooling.h>
#include <torch/nn/modules/rnn.h>
#include <torch/nn/modules/transformer.h>
