# SPDX-License-Identifier: Apache-2.0
"""scripts/kernel_table.py on machine code and PTX that is written here."""

import pathlib
import sys
import unittest

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "scripts"))
from lib import kernel_facts, occupancy, sass  # noqa: E402
from lib.sass_loops import Function, Instruction, UnknownJump, inner_loops, loops_of  # noqa: E402

HEAD = """\
\t//----- nvinfo : EIATTR_REGCOUNT
\t.align\t\t4
        /*0000*/ \t.byte\t0x04, 0x2f
        /*0002*/ \t.short\t(.L_1 - .L_0)
\t.align\t\t4
.L_0:
        /*0004*/ \t.word\tindex@(kernel)
        /*0008*/ \t.word\t0x00000030
\t.section\t.nv.info.kernel,"",@"SHT_CUDA_INFO"
\t//----- nvinfo : EIATTR_MAX_THREADS
\t.align\t\t4
.L_2:
        /*0040*/ \t.word\t0x00000100
        /*0044*/ \t.word\t0x00000001
        /*0048*/ \t.word\t0x00000001
\t.section\t.nv.shared.kernel,"aw",@nobits
\t.sectionflags\t@""
.nv.shared.kernel:
\t.zero\t\t5120
\t.section\t.text.kernel,"ax",@progbits
\t.sectioninfo\t@"SHI_REGISTERS=48"
.text.kernel:
"""


def code(*lines):
    """A kernel of these instructions; a line that ends with a colon is a label."""
    text, address = HEAD, 0
    for line in lines:
        if line.endswith(":"):
            text += f"{line}\n"
        else:
            text += f"        /*{address:04x}*/                   {line} ;\n"
            address += 16
    return text


def in_loops(*lines):
    kernel, = sass.kernels_of(code(*lines), 90)
    return kernel.in_loops


class Loops(unittest.TestCase):
    def test_facts_of_a_cubin(self):
        kernel, = sass.kernels_of(code("STL.64 [R1], R2", "LDL R2, [R1+0x4]", "EXIT"), 90)
        self.assertEqual((kernel.threads, kernel.registers, kernel.shared), (256, 48, 5120))
        self.assertEqual((kernel.stored, kernel.loaded, kernel.in_loops), (8, 4, []))

    def test_a_single_loop(self):
        self.assertEqual(in_loops("STL [R1], R2", ".L_a:", "LDL R2, [R1]", "@P0 BRA `(.L_a)", "EXIT"), ["0x10"])

    def test_spills_count_in_the_innermost_loop_only(self):
        outer = ("MOV R1, c[0x0]", ".L_a:", "STL [R1], R2", ".L_b:", "{}", "@P0 BRA `(.L_b)", "@!P1 BRA `(.L_a)",
                 "EXIT")
        self.assertEqual(in_loops(*(line.format("NOP") for line in outer)), [])
        self.assertEqual(in_loops(*(line.format("LDL R3, [R1]") for line in outer)), ["0x20"])

    def test_a_branch_back_from_code_out_of_line_is_not_a_loop(self):
        self.assertEqual(in_loops("@P0 BRA `(.L_slow)", ".L_back:", "LDL R2, [R1]", "EXIT", ".L_slow:", "NOP",
                                  "BRA `(.L_back)"), [])

    def test_lanes_continue_where_they_reconverge(self):
        # Out-of-line code that ends with BSYNC is still in the loop.
        lines = (".L_a:", "BSSY B0, `(.L_met)", "@P0 BRA `(.L_far)", "BSYNC B0", ".L_met:", "@P1 BRA `(.L_a)", "EXIT",
                 ".L_far:", "LDL R2, [R1]", "BSYNC.RECONVERGENT B0")
        self.assertEqual(in_loops(*lines), ["0x50"])

    def test_functions_that_a_loop_calls_belong_to_it(self):
        lines = (".L_a:", "CALL.REL.NOINC `($slow)", "@P0 BRA `(.L_a)", "EXIT", "$slow:", "LDL R2, [R1]",
                 "RET.REL.NODEC R4 0x0")
        self.assertEqual(in_loops(*lines), ["0x30"])
        # A kernel's call to a label of its own does not return.
        self.assertEqual(in_loops("@P0 CALL.REL.NOINC `(.L_b)", "EXIT", ".L_b:", "LDL R2, [R1]", "EXIT"), [])

    def test_indirect_jumps_are_refused(self):
        function = Function("kernel", [Instruction(0, "", "BRX", "R2 -0x10")], {})
        with self.assertRaisesRegex(UnknownJump, "kernel.*BRX"):
            loops_of(function)

    def test_loops_of_three_depths(self):
        lines = ["NOP"] * 3 + ["@P0 BRA `(c)", "@P0 BRA `(b)", "@P0 BRA `(a)", "EXIT"]
        instructions = [Instruction(16 * k, *(("@P0", "BRA", line[8:]) if "BRA" in line else ("", line, "")))
                        for k, line in enumerate(lines)]
        loops = loops_of(Function("kernel", instructions, {"a": 0, "b": 1, "c": 2}))
        self.assertEqual({loop.head for loop in loops}, {0, 1, 2})
        self.assertEqual({loop.head for loop in inner_loops(loops)}, {1, 2})


class Roundings(unittest.TestCase):
    def test_operations_that_do_not_round_to_nearest(self):
        ptx = ("\tadd.rn.f32 \t%f1, %f2, %f3;\n\tmul.rn.f64 %fd1, %fd2, %fd3;\n\tsqrt.rn.f32 %f1, %f2;\n"
               "\tadd.s32 %r1, %r2, %r3;\n\tmad.lo.s32 %r1, %r2, %r3, %r4;\n\tmax.f32 %f1, %f2, %f3;\n")
        self.assertEqual(kernel_facts.unrounded(ptx), {})
        bad = ("\tadd.f32 %f1, %f2, %f3;\n", "\tfma.rn.f32 %f1, %f2, %f3, %f4;\n",
               "\t@%p1 div.approx.f32 %f1, %f2, %f3;\n", "\tfma.rn.f32x2 %rd1, %rd2, %rd3, %rd4;\n",
               "\tmul.rz.f32 %f1, %f2, %f3;\n", "\tsqrt.approx.ftz.f32 %f1, %f2;\n", "\tadd.ftz.f32 %f1, %f2, %f3;\n")
        for line in bad:
            with self.subTest(line=line):
                self.assertEqual(list(kernel_facts.unrounded(ptx + line).values()), [1])


class Occupancy(unittest.TestCase):
    def test_the_number_of_resident_blocks(self):
        for architecture, threads, registers, shared, blocks in [
                (90, 256, 32, 0, 8),       # threads
                (90, 256, 64, 0, 4),       # registers
                (90, 256, 65, 0, 3),       # registers, in units of eight per thread
                (90, 32, 16, 0, 32),       # blocks
                (80, 128, 32, 17028, 9),   # shared memory
                (90, 128, 32, 17028, 12),  # more of it
                (120, 256, 32, 0, 6)]:
            with self.subTest(architecture=architecture, registers=registers, shared=shared):
                self.assertEqual(occupancy.blocks_of(architecture, threads, registers, shared), blocks)


if __name__ == "__main__":
    unittest.main()
