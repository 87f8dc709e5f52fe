// SPDX-License-Identifier: Apache-2.0
/// Input of the test headers_layers_finds: the store must not know what starts a job.
#pragma once
#include "comm/launch/environment.hpp"
