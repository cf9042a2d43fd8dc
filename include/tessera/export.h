// Exported programs: loading and running.
#pragma once

#include "export/program.h"
