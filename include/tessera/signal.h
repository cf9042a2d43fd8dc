// signal::windows and all others.
#pragma once

#include "signal/signal.h"
