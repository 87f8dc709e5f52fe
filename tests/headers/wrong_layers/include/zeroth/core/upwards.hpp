// SPDX-License-Identifier: Apache-2.0
/// Input of the test headers_layers_finds: core must not know the engine.
#pragma once
#include "zeroth/engine/engine.hpp"
