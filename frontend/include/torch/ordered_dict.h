#pragma once
#include "c10/util/OrderedDict.h"
