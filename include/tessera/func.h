// Function transforms.
#pragma once

#include "func/transforms.h"
