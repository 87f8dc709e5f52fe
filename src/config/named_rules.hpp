// SPDX-License-Identifier: Apache-2.0
/// The rules that rules.cpp does not define itself, by subject. As there, each returns the mistake in a key and its
/// remedy; empty if nothing is wrong.
#pragma once
#include <cstddef>
#include <string>

#include "config/values.hpp"

namespace zeroth::config {

// sum_rules.cpp: the dtypes and codecs in which gradients are held, reduced and accumulated.
[[nodiscard]] std::string one_16_bit_dtype(Values const& values);
[[nodiscard]] std::string bf16_masters_are_parameters(Values const& values);
[[nodiscard]] std::string bf16_moments_have_bf16_masters(Values const& values);
[[nodiscard]] std::string param_dtype_is_computed(Values const& values);
[[nodiscard]] std::string gradient_dtype_is_wide_or_computed(Values const& values);
[[nodiscard]] std::string reduce_dtype_is_wide_or_gradient(Values const& values);
[[nodiscard]] std::string accumulate_dtype_is_used(Values const& values);
[[nodiscard]] std::string codec_is_said_once(Values const& values);
[[nodiscard]] std::string signs_leave_errors(Values const& values);
[[nodiscard]] std::string quantised_parameters_have_masters(Values const& values);
[[nodiscard]] std::string averages_are_of_wide_masters(Values const& values);
[[nodiscard]] std::string same_bits_are_kept(Values const& values);

// delayed_update.cpp: updates during the next step's passes.
[[nodiscard]] std::string delayed_updates_are_possible(Values const& values);
/// A note.
[[nodiscard]] std::string delayed_updates_overlap(Values const& values);

// parameter_server.cpp: ranks that hold masters and states for the others.
[[nodiscard]] std::string servers_are_possible(Values const& values);
[[nodiscard]] std::string staleness_is_possible(Values const& values);
[[nodiscard]] std::string colocated_servers_are_possible(Values const& values);

// mesh_rules.cpp: groups, stages of a pipeline, tensor ranks.
[[nodiscard]] std::string parameters_are_cut_for_groups(Values const& values);
[[nodiscard]] std::string states_are_cut_for_groups(Values const& values);
[[nodiscard]] std::string sums_of_groups_have_groups(Values const& values);
[[nodiscard]] std::string group_size_is_used(Values const& values);
[[nodiscard]] std::string autotp_size_is_alike(Values const& values);
[[nodiscard]] std::string tp_size_is_alike(Values const& values);
[[nodiscard]] std::string chunks_take_turns(Values const& values);
[[nodiscard]] std::string micro_steps_are_rounds(Values const& values);
[[nodiscard]] std::string chunks_begin_in_order(Values const& values);
[[nodiscard]] std::string schedule_has_a_file(Values const& values);

// offload_rules.cpp: states and parameters on the host and on disks.
[[nodiscard]] std::string state_offload_is_said_once(Values const& values);
[[nodiscard]] std::string param_offload_is_said_once(Values const& values);
[[nodiscard]] std::string states_on_disk_have_a_folder(Values const& values);
[[nodiscard]] std::string params_on_disk_have_a_folder(Values const& values);
[[nodiscard]] std::string parameters_on_disk_are_cut(Values const& values);
[[nodiscard]] std::string host_updates_what_it_has(Values const& values);
[[nodiscard]] std::string threads_update_on_the_host(Values const& values);
[[nodiscard]] std::string requests_are_whole_blocks(Values const& values);
[[nodiscard]] std::string disk_threads_are_said_once(Values const& values);

// activations.cpp: which activations are kept, and where.
[[nodiscard]] std::string recomputed_units_are_said_once(Values const& values);
[[nodiscard]] std::string activation_offload_is_said_once(Values const& values);
[[nodiscard]] std::string offloaded_inputs_are_kept(Values const& values);
[[nodiscard]] std::string activations_on_disk_have_a_folder(Values const& values);

// optimizer_rules.cpp: the optimizers Muon, Lamb and OneBitAdam, and what they do not support.
[[nodiscard]] std::string muon_is_a_mean(Values const& values);
[[nodiscard]] std::string muon_rates_have_a_base(Values const& values);
[[nodiscard]] std::string coefficients_ascend(Values const& values);
[[nodiscard]] std::string states_are_in_memory(Values const& values);
[[nodiscard]] std::string states_have_no_older_offload(Values const& values);
[[nodiscard]] std::string states_are_wide(Values const& values);
[[nodiscard]] std::string norms_are_of_masters(Values const& values);
[[nodiscard]] std::string one_bit_adam_has_all_momenta(Values const& values);
[[nodiscard]] std::string one_bit_adam_clips_nothing(Values const& values);
[[nodiscard]] std::string one_bit_adam_has_its_codec(Values const& values);
[[nodiscard]] std::string one_bit_adam_has_one_level(Values const& values);
[[nodiscard]] std::string one_bit_adam_depends_on_ranks(Values const& values);
[[nodiscard]] std::string one_bit_adam_has_one_stage(Values const& values);
[[nodiscard]] std::string one_bit_adam_has_one_tensor_rank(Values const& values);
[[nodiscard]] std::string one_bit_adam_sums_uses_together(Values const& values);
[[nodiscard]] std::string one_bit_adam_has_masters(Values const& values);
[[nodiscard]] std::string one_bit_adam_has_one_scale(Values const& values);

// sparse_attention.cpp: the layout of attention.
[[nodiscard]] std::string sparse_attention_has_mode(Values const& values);
/// For one of its keys but the mode.
[[nodiscard]] std::string sparse_attention_is_possible(Values const& values, std::size_t key);
template <Path P>
[[nodiscard]] std::string sparse_attention_may_have(Values const& values) {
  return sparse_attention_is_possible(values, index_of<P>);
}

}  // namespace zeroth::config
