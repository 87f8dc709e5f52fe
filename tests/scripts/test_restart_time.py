# SPDX-License-Identifier: Apache-2.0
"""scripts/restart_time.py on a job whose lines are written here."""

import os
import pathlib
import sys
import types
import unittest
from unittest import mock

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "scripts"))
import restart_time  # noqa: E402


def lines(*ranges):
    return ["resumed\n"] + [f"step {step}/1000000  loss 5.5\n" for each in ranges for step in each]


class Kills(unittest.TestCase):
    def seconds_of(self, text, kills):
        job = types.SimpleNamespace(stdout=iter(text), pid=os.getpid())
        killed = []
        clock = iter(range(1000))
        with mock.patch.object(restart_time, "rank_process", lambda _, rank: 100 + rank), \
                mock.patch.object(restart_time.os, "kill", lambda process, _: killed.append(process)), \
                mock.patch.object(restart_time.time, "monotonic", lambda: next(clock)):
            return list(restart_time.seconds_of_kills(job, 2, kills)), killed

    def test_repeated_steps_do_not_count_as_new(self):
        seconds, killed = self.seconds_of(lines(range(1, 21), range(18, 42), range(41, 60)), 2)
        self.assertEqual(killed, [100, 101])
        # The clock is read at each line and at each kill: three lines are of repeated steps, and one is of a new step.
        self.assertEqual(seconds, [(0, 4), (1, 2)])

    def test_a_job_that_does_not_resume_makes_fewer_steps(self):
        self.assertEqual(self.seconds_of(lines(range(1, 25)), 1), ([(0, 1)], [100]))
        self.assertEqual(self.seconds_of(lines(range(1, 21)), 1), ([], [100]))

    def test_a_rank_is_found_by_its_environment(self):
        self.assertIsNone(restart_time.rank_process(os.getpid(), 7))


if __name__ == "__main__":
    unittest.main()
