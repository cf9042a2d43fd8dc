// Data sets, samplers, loaders.
#pragma once

#include "data/loader.h"
