// SPDX-License-Identifier: Apache-2.0
/// Ranks whose engines are not used alike.
#pragma once
#include "zeroth/comm/job.hpp"

namespace zeroth::testing {

/// Trains at `stage`; in the second step rank 1 takes the first two units of forward in the other order.
void take_units_in_another_order(Job& job, int stage);
/// Trains at `stage`; after the first step rank 1 evaluates, and nobody else does.
void evaluate_alone(Job& job, int stage);

/// What befalls a rank. `diverges`: it does something else than the others.
enum class Fault { none, throws, freezes, dies, diverges };
/// Trains four ranks in two groups that have the parameters each. In the second step rank 3 has `fault` where it should
/// gather with rank 2, for whom ranks 0 and 1 wait a while later.
void train_in_groups(Job& job, Fault fault);

/// Trains three ranks in a pipeline of three stages. In the second step the rank of stage `victim` has `fault` in its
/// second action.
void train_in_stages(Job& job, Fault fault, int victim);
/// Likewise, with parameters that all stages share. The rank of the first stage has `fault` in its last action of the
/// second step, when the others wait for what it has summed of them.
void train_with_ties(Job& job, Fault fault);

/// Trains with a parameter server, the last rank. In the second step the rank `victim` has `fault`; a server that is to
/// throw or to freeze does so before it serves.
void train_with_a_server(Job& job, Fault fault, int victim);

/// Where a tensor rank is: before a verb, or before its part of a gradient is added to those of others.
enum class TensorPlace { enter, leave, leave_backward, enter_backward, parts };
/// Trains with as many tensor ranks as there are ranks, which divide the rows, too. In the second step rank 1 has
/// `fault` at `place`, where the others wait for it.
void train_on_tensor_ranks(Job& job, Fault fault, TensorPlace place);

/// Trains with Muon, so that every rank is the home of a matrix. In the second step rank 1 has `fault` in a product of
/// its matrix, for which the others wait.
void train_with_muon(Job& job, Fault fault);

/// Trains with the record of the last collectives in the folder `flights`; after the first step rank 1 throws.
void throw_in_training(Job& job, char const* flights);

/// Trains; rank 1's engine ends while one of its own passes is open.
void end_the_engine_in_its_pass(Job& job);
/// An exception leaves the first micro-step on rank 1. Every rank catches what comes of it, and returns.
void keep_errors(Job& job);
/// Leaves the first micro-step before its work is done, and returns.
void leave_a_micro_step(Job& job);
/// At stages 0 and 3: saves to a folder that is not there, loads a file that nobody has and one that rank 1 alone does
/// not have, and prints what is thrown. Then saves, loads and trains.
void save_and_load_in_vain(Job& job);
/// Waits for the other ranks, on this thread.
void meet(Job& job);
/// The system of rank 1 runs out of threads before it makes a stream. The others wait for it.
void run_out_of_threads(Job& job);

}  // namespace zeroth::testing
