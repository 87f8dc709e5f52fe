// SPDX-License-Identifier: Apache-2.0
/// Ranks that use their engines differently.
#pragma once
#include "zeroth/comm/job.hpp"

namespace zeroth::testing {

/// Trains at `stage`; in the second step rank 1 takes the first two units of forward in the other order.
void take_units_in_another_order(Job& job, int stage);
/// Trains at `stage`; after the first step only rank 1 evaluates.
void evaluate_alone(Job& job, int stage);

/// The fault of a rank. `diverges`: it does something else than the others.
enum class Fault { none, throws, freezes, dies, diverges };
/// Trains four ranks in two groups, each of which has all parameters. In the second step rank 3 has `fault` when it
/// should gather with rank 2, for which ranks 0 and 1 wait a while later.
void train_in_groups(Job& job, Fault fault);

/// Trains three ranks in a pipeline of three stages. In the second step the rank of stage `victim` has `fault` in its
/// second action.
void train_in_stages(Job& job, Fault fault, int victim);
/// Like train_in_stages(), with parameters that all stages share. The rank of the first stage has `fault` in its last
/// action of the second step, when the others wait for its sums of their gradients.
void train_with_ties(Job& job, Fault fault);

/// Trains with a parameter server, the last rank. In the second step the rank `victim` has `fault`; a server that is to
/// throw or to freeze does so before it serves.
void train_with_a_server(Job& job, Fault fault, int victim);

/// The point that a tensor rank has reached: before a function of TensorParallel, or before its part of a gradient is
/// added to those of others.
enum class TensorPlace { enter, leave, leave_backward, enter_backward, parts };
/// Trains with all ranks as tensor ranks, which also divide the rows. In the second step rank 1 has `fault` at `place`,
/// where the others wait for it.
void train_on_tensor_ranks(Job& job, Fault fault, TensorPlace place);

/// Trains with Muon, so that every rank is the home of a matrix. In the second step rank 1 has `fault` in a product of
/// its matrix, for which the others wait.
void train_with_muon(Job& job, Fault fault);

/// Trains with the record of the last collectives in the folder `flights`; after the first step rank 1 throws.
void throw_in_training(Job& job, char const* flights);

/// Trains; rank 1's engine ends while one of its own passes is open.
void end_the_engine_in_its_pass(Job& job);
/// An exception leaves the first micro-step on rank 1. Every rank catches the resulting error, and returns.
void keep_errors(Job& job);
/// Leaves the first micro-step before its work is done, and returns.
void leave_a_micro_step(Job& job);
/// At stages 0 and 3: saves to a missing folder, loads a file that no rank has and one that only rank 1 lacks, and
/// prints the errors. Then saves, loads and trains.
void save_and_load_in_vain(Job& job);
/// Waits for the other ranks, on this thread.
void meet(Job& job);
/// Rank 1 runs out of threads before it makes a stream. The others wait for it.
void run_out_of_threads(Job& job);

}  // namespace zeroth::testing
