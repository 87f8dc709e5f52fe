// SPDX-License-Identifier: Apache-2.0
/// What all sources of these tests include, and what takes longest to compile.
#pragma once
#include <torch/torch.h>
#undef CHECK
