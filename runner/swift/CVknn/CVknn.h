/* The runner's C interface as a module of Swift. */
#include "../../vknn_run.h"
