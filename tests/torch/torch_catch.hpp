// SPDX-License-Identifier: Apache-2.0
/// libtorch and Catch2 in one source: both have a macro CHECK, and a test means Catch2's.
#pragma once
#include <torch/torch.h>
#undef CHECK
#include "support/catch.hpp"
