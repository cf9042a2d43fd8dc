// special::erfcx and all others.
#pragma once

#include "special/special.h"
