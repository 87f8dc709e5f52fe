// SPDX-License-Identifier: Apache-2.0
/// Trains any libtorch module at Zeroth's stages: see docs/torch.md. Needs libtorch, which the library does not link.
/// Link zeroth::torch, or what find_package(Torch) finds.
///
/// A module keeps its own parameter tensors. Only their storages change: they point to the engine's memory inside
/// passes, and to nothing outside of them. torch/runtime.hpp opens the units whose parameters libtorch is about to
/// read.
#pragma once
#include "zeroth/adapters/torch/deferred.hpp"
#include "zeroth/adapters/torch/holder.hpp"
#include "zeroth/adapters/torch/launch.hpp"
#include "zeroth/adapters/torch/matrices.hpp"
#include "zeroth/adapters/torch/sync_batch_norm.hpp"
#include "zeroth/adapters/torch/trainer.hpp"
#include "zeroth/adapters/torch/units.hpp"
#include "zeroth/adapters/torch/unshard.hpp"
