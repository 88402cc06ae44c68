// The public kvasir/error.h, under the name the rest of src/ uses.
#pragma once

#include "kvasir/error.h"
