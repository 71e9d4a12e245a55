"""onnx's own backend suite on quern.backend, but for tests/known.txt. Needs the packages onnx and quern.

With a release of onnx that carries its node tests as files these run, else those that it makes in memory. `real` models
are left out: the suite would download them.
"""

import pathlib
import re

import onnx.backend.test
import quern.backend

KNOWN = pathlib.Path(__file__).resolve().parent.parent / "known.txt"
# The suite's own comparison takes len() of a scalar that is an element of a sequence; `quern verify` compares it.
NOT_COMPARABLE = ["test_loop16_seq_none"]


def known():
    """Names of the tests that are not expected to pass."""
    lines = [line.split() for line in KNOWN.read_text().splitlines()]
    return [words[0] for words in lines if words and not words[0].startswith("#")]


suite = onnx.backend.test.BackendTest(quern.backend, __name__)
for name in known() + NOT_COMPARABLE:
    suite.exclude(rf"^{re.escape(name)}_cpu$")
cases = suite.test_cases
cases.pop("OnnxBackendRealModelTest", None)
cases.pop("OnnxBackendRealTest", None)
for case in cases.values():  # the CPU's tests alone: the others say that they are skipped
    for name in [n for n in vars(case) if n.endswith("_cuda")]:
        delattr(case, name)
globals().update(cases)
