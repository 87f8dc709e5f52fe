#include "support/gpu_main.hpp"
