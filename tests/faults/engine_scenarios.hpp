/// Ranks whose engines are not used alike.
#pragma once
#include "zeroth/comm/job.hpp"

namespace zeroth::testing {

/// Trains at `stage`; in the second step rank 1 takes the first two units of forward in the other order.
void take_units_in_another_order(Job& job, int stage);
/// Trains at `stage`; after the first step rank 1 evaluates, and nobody else does.
void evaluate_alone(Job& job, int stage);

/// Trains with the record of the last collectives in the folder `flights`; after the first step rank 1 throws.
void throw_in_training(Job& job, char const* flights);

/// Trains; rank 1's engine ends while one of its own passes is open.
void end_the_engine_in_its_pass(Job& job);

}  // namespace zeroth::testing
