// SPDX-License-Identifier: Apache-2.0
/// What is known to be wrong, each behind one line: remove the line, and all that reads it, once it is mended.
#pragma once

namespace zeroth::testing::jobs::known {

inline constexpr bool skips_inside_open_guards_diverge = true;
inline constexpr bool skips_beside_a_root_that_stays_open_fail = true;
inline constexpr bool timing_tables_beside_disks_hang = true;
inline constexpr bool disk_reads_are_planned_for_plain_models_alone = true;
inline constexpr bool ranks_report_different_disk_reads = true;

}  // namespace zeroth::testing::jobs::known
