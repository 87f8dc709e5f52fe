// SPDX-License-Identifier: Apache-2.0
/// Input of the test headers_layers_finds: one transport must not know another.
#pragma once
#include "comm/nccl/nccl_call.hpp"
