// Checkpoints.
#pragma once

#include "serialization/checkpoint.h"
