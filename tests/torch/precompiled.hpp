// SPDX-License-Identifier: Apache-2.0
/// Headers that all sources of these tests include, and that take longest to compile.
#pragma once
#include <torch/torch.h>
#undef CHECK
