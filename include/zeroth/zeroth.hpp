// SPDX-License-Identifier: Apache-2.0
/// Zeroth: ZeRO stages 0 to 3 for any C++ training loop.
#pragma once
#include "zeroth/attention/block_layout.hpp"
#include "zeroth/comm/collectives.hpp"
#include "zeroth/comm/job.hpp"
#include "zeroth/config/config.hpp"
#include "zeroth/core/dtype.hpp"
#include "zeroth/core/error.hpp"
#include "zeroth/core/random.hpp"
#include "zeroth/core/view.hpp"
#include "zeroth/data/sample_order.hpp"
#include "zeroth/engine/engine.hpp"
#include "zeroth/engine/mesh.hpp"
#include "zeroth/engine/plan.hpp"
#include "zeroth/model/model.hpp"
#include "zeroth/monitor/monitor.hpp"
#include "zeroth/parallel/tensor.hpp"
#include "zeroth/version.hpp"
