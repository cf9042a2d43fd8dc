#pragma once
#include "c10/core/InferenceMode.h"
