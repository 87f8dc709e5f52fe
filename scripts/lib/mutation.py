# SPDX-License-Identifier: Apache-2.0
"""Builds and tests mutants in a copy of the tree, in a separate build folder."""

import hashlib
import os
import pathlib
import shutil
import subprocess

# The tests that reach a folder; those that fail soonest are first. The engine's tests also reach all layers below it.
_TRAINING = ("engine_contract", "engine_reference", "engine_models", "parity")
TESTS = {
    "optim/": ("schedule", "loss_scale", "step_scalars", "update", "stochastic_rounding", "cuda_kernels",
               *_TRAINING),
    "src/shard/": ("shard", "stage", *_TRAINING, "engine_any", "engine_weights", "engine_reports", "engine_traffic",
                   "engine_offload", "parity_tiers", "checkpoint_resume"),
    "src/stage/": ("stage", "schedule_page", *_TRAINING, "engine_any", "engine_reports", "engine_traffic",
                   "engine_offload", "engine_divergence"),
    "src/engine/": (*_TRAINING, "engine_any", "engine_weights", "engine_reports", "engine_traffic", "engine_replicas",
                    "engine_divergence", "engine_bf16_masters", "engine_poison", "engine_log", "engine_allocation",
                    "engine_trace", "engine_offload", "checkpoint_damage", "checkpoint_saving", "cuda_errors"),
    "src/device/": ("kernels", "rank_fold", "cuda_kernels", "engine_reference"),
    "src/comm/": ("local", "host_communicator", "staging", "local_faults", "local_steady", "tcp", "cuda_local",
                  "parity"),
    "cuda/kernels/": ("cuda_kernels",),
}
OUTCOMES = ("caught", "survived", "does not compile", "same object code")


class Broken(Exception):
    """The tree does not build, or its tests fail, without a mutant."""


def tests_of(path):
    return next(tests for folder, tests in TESTS.items() if path.startswith(folder))


class Copy:
    """A copy of `repository`'s tracked files under `folder`, and its build."""

    def __init__(self, repository, folder, jobs, timeout_s):
        self.repository, self.tree, self.build = repository, folder / "tree", folder / "build"
        self.jobs, self.timeout_s = jobs, timeout_s
        self.whole = {}  # {tests: digest} of tests that passed without a mutant

    def update(self):
        """Copies only the files that differ, so that nothing else is rebuilt."""
        names = subprocess.run(["git", "ls-files", "-z"], cwd=self.repository, capture_output=True, text=True,
                               check=True).stdout.split("\0")
        for name in filter(None, names):
            here, there = self.repository / name, self.tree / name
            if here.is_file() and not (there.is_file() and here.read_bytes() == there.read_bytes()):
                there.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(here, there)
        ccache = ["-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []
        self._expect(["cmake", "-S", self.tree, "-B", self.build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=RelWithDebInfo",
                      "-DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-O1", "-DZEROTH_BUILD_BENCH=OFF", "-DZEROTH_BUILD_TOOLS=OFF",
                      "-DZEROTH_BUILD_EXAMPLES=OFF", *ccache])

    def outcome_of(self, mutant):
        """(outcome, the test that caught the mutant or none)."""
        tests = tests_of(mutant.path)
        whole = self._whole(tests)
        file = self.tree / mutant.path
        text = file.read_text(encoding="utf-8")
        try:
            file.write_text(mutant.applied_to(text), encoding="utf-8")
            if self._built(tests).returncode != 0:
                return "does not compile", None
            if self._digest(tests) == whole:
                return "same object code", None
            failed = self._failed(tests)
            return ("caught", failed) if failed else ("survived", None)
        finally:
            file.write_text(text, encoding="utf-8")

    def _whole(self, tests):
        if tests not in self.whole:
            self._expect(self._build_command(tests))
            if failed := self._failed(tests):
                raise Broken(f"{failed} fails without any mutant")
            self.whole[tests] = self._digest(tests)
        return self.whole[tests]

    def _build_command(self, tests):
        return ["ninja", "-C", self.build, f"-j{self.jobs}", *(f"test_{test}" for test in tests)]

    def _built(self, tests):
        return subprocess.run(self._build_command(tests), capture_output=True, text=True, check=False)

    def _digest(self, tests):
        digest = hashlib.sha256()
        for test in tests:
            digest.update((self.build / f"bin/test_{test}").read_bytes())
        return digest.hexdigest()

    def _failed(self, tests):
        """The first test that fails or times out, or none. A mutant that hangs is so caught too."""
        for test in tests:
            try:
                done = subprocess.run([self.build / f"bin/test_{test}"], cwd=self.build, stdout=subprocess.DEVNULL,
                                      stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, check=False,
                                      timeout=self.timeout_s, env={**os.environ, "LC_ALL": "C.UTF-8"})
                if done.returncode != 0:
                    return test
            except subprocess.TimeoutExpired:
                return f"{test} (did not end in {self.timeout_s} s)"
        return None

    @staticmethod
    def _expect(command):
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Broken(f"{pathlib.Path(str(command[0])).name} failed without any mutant:\n"
                         f"{(done.stdout + done.stderr)[-3000:]}")
