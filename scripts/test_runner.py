"""What the stages of scripts/run_tests.py are written with: builds, test programs, logs and counts."""

import collections
import concurrent.futures
import dataclasses
import json
import os
import pathlib
import re
import subprocess
import sys
import time
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
LOGS = BUILD / "test-logs"
TOOLS = ROOT / ".tools"
PYTHON = TOOLS / "venv/bin/python"
QEMU = TOOLS / "qemu/usr/bin/qemu-aarch64"
ARM64_ROOT = TOOLS / "arm64-root"
CORES = len(os.sched_getaffinity(0))
SHARDS = 2 * CORES  # of a slow test program, so that cores end at about the same time


class Report:
    """Counts of the whole run; `lines` of what was left out or failed, for the end."""

    def __init__(self):
        self.passed = self.failed = self.skipped = 0
        self.notes, self.failures = [], []

    def add(self, suite, passed=0, failed=0, skipped=0, log=None, reasons=()):
        """Counts and prints the result of a suite; `reasons` has one text per skipped test."""
        passed, failed = int(passed), int(failed)  # a single check is a bool
        self.passed += passed
        self.failed += failed
        self.skipped += skipped
        counts = [f"{passed} passed"] + [f"{n} {what}" for n, what in ((failed, "failed"), (skipped, "skipped")) if n]
        print(f"  {suite}: {', '.join(counts)}", flush=True)
        listed = collections.Counter(reasons).most_common()
        for reason, count in listed[:6]:
            print(f"    left out{f' ({count})' if count > 1 else ''}: {reason}", flush=True)
        if len(listed) > 6:
            print(f"    left out: {sum(n for _, n in listed[6:])} more, see the log", flush=True)
        if failed:
            self.failures.append(suite)
            if log and pathlib.Path(log).exists():
                tail = pathlib.Path(log).read_text(errors="replace").splitlines()
                marked = [line for line in tail if re.search(r"FAIL|error|Error|^fail|^unsupported|SUMMARY", line)][:15]
                for line in marked + ["..."] + tail[-25:]:
                    print("    |", line[:240])
                print(f"    | (all of it: {pathlib.Path(log).relative_to(ROOT)})", flush=True)

    def skip(self, suite, reason, count=1):
        self.skipped += count
        self.notes.append(f"{suite}: {reason}")
        print(f"  {suite}: left out, {reason}", flush=True)


@dataclasses.dataclass(frozen=True)
class Preset:
    """What is built of a preset of CMakePresets.json: all, or `targets`, with further `options` of cmake."""

    targets: tuple = ()
    options: tuple = ()
    note: str = ""  # after its name in the report


class Runner:
    """Builds presets and runs test programs; what they print goes to build/test-logs, what they count to `report`.
    `presets`: name -> Preset."""

    def __init__(self, args, presets):
        self.args = args
        self.presets = presets
        self.report = Report()
        self.built, self.begun = {}, {}  # folders; futures
        self.builder = concurrent.futures.ThreadPoolExecutor(1)
        shared = pathlib.Path(os.environ.get("QUERN_SHARED") or ROOT.parent / "shared").resolve()
        self.shared = shared if (shared / "models").is_dir() else None
        if os.environ.get("QUERN_SHARED") and not self.shared:
            sys.exit(f"error: QUERN_SHARED={os.environ['QUERN_SHARED']} has no folder models")
        self.environment = dict(os.environ)
        self.environment.pop("QUERN_CPU", None)
        # With ccache, a clone in another folder finds what an earlier one compiled.
        self.environment |= {"CCACHE_BASEDIR": str(ROOT), "CCACHE_NOHASHDIR": "1"}
        if self.shared:
            self.environment["QUERN_SHARED"] = str(self.shared)
        if args.full:
            self.environment["QUERN_TEST_FULL"] = "1"
        # For what is slow: emulated architectures, sanitizers.
        self.brief = {} if args.full else {"QUERN_TEST_BRIEF": "1"}

    def run(self, name, command, env=None, cwd=ROOT, timeout=None):
        """Runs a command with its output in a log; returns (exit status, log)."""
        log = LOGS / (re.sub(r"[^\w.,=-]+", "_", name) + ".log")
        with open(log, "w") as file:
            print("$", " ".join(map(str, command)), file=file, flush=True)
            try:
                result = subprocess.run(
                    [str(c) for c in command],
                    cwd=cwd,
                    env=self.environment | (env or {}),
                    stdin=subprocess.DEVNULL,
                    stdout=file,
                    stderr=subprocess.STDOUT,
                    timeout=timeout,
                )
                return result.returncode, log
            except (OSError, subprocess.TimeoutExpired) as error:
                print(error, file=file)
                return 127, log

    def check(self, name, command, **more):
        """One check: the command succeeds."""
        status, log = self.run(name, command, **more)
        self.report.add(name, passed=status == 0, failed=status != 0, log=log)
        return status == 0

    def check_output(self, name, command, pattern):
        """One check: the command succeeds and a line of what it prints matches."""
        status, log = self.run(name, command)
        good = status == 0 and re.search(pattern, log.read_text(errors="replace"), re.M)
        self.report.add(name, passed=bool(good), failed=not good, log=log)

    def finding(self, name, good, details):
        """One check that was made here; `details` are shown when it failed."""
        log = LOGS / (re.sub(r"[^\w.,=-]+", "_", name) + ".log")
        log.write_text("".join(f"{line}\n" for line in details))
        self.report.add(name, passed=bool(good), failed=not good, log=log)

    def start_build(self, preset):
        """Begins to configure and build a preset, after those begun before, while their tests run ahead of it."""
        if preset not in self.begun:
            self.begun[preset] = self.builder.submit(self.configure_and_build, preset, self.presets[preset])

    def configure_and_build(self, preset, what):
        """Returns (exit status, log, seconds)."""
        start = time.time()
        status, log = self.run(f"configure-{preset}", ["cmake", "--preset", preset, *what.options])
        if status == 0:
            goal = ["--target", *what.targets] if what.targets else []
            command = ["nice", "-n", "10", "cmake", "--build", BUILD / preset, "-j", CORES, *goal]
            status, log = self.run(f"build-{preset}", command)
        return status, log, time.time() - start

    def build(self, preset):
        """Waits until a preset is built; a failure is one failed check, with the preset's note in its name. Returns its
        folder, or None."""
        if preset not in self.built:
            self.start_build(preset)
            status, log, seconds = self.begun[preset].result()
            name = f"build {preset}{self.presets[preset].note} ({seconds:.0f} s)"
            self.report.add(name, passed=status == 0, failed=status != 0, log=log)
            self.built[preset] = BUILD / preset if status == 0 else None
        return self.built[preset]

    def ctest(
        self, preset, folder, pick=lambda name: True, env=None, shards=1, gtest_filter=None, emulator=None, suffix=""
    ):
        """Runs the tests that ctest knows in `folder`, as many at once as there are cores, and counts their cases."""
        listed = subprocess.run(["ctest", "--show-only=json-v1"], cwd=folder, capture_output=True, text=True)
        jobs = []
        for test in json.loads(listed.stdout)["tests"]:
            if not pick(test["name"]) or "command" not in test:
                continue
            command = list(test["command"])
            properties = {p["name"]: p["value"] for p in test.get("properties", [])}
            if emulator:
                command[command.index("-cpu") + 1] = emulator
            extra = dict(e.partition("=")[::2] for e in properties.get("ENVIRONMENT", []))
            parts = shards if test["name"].endswith("_test") else 1  # only GoogleTest programs can be split
            for shard in range(parts):
                more = extra | (env or {})
                if parts > 1:
                    more |= {"GTEST_TOTAL_SHARDS": str(shards), "GTEST_SHARD_INDEX": str(shard)}
                if gtest_filter:
                    more["GTEST_FILTER"] = gtest_filter
                jobs.append((test["name"], shard, command, more, properties))
        if not jobs:
            self.report.add(f"{preset} unit tests{suffix}", failed=1)
            return
        with concurrent.futures.ThreadPoolExecutor(CORES) as pool:
            results = list(pool.map(lambda j: self.run_unit(preset, suffix, *j), jobs))
        merged = {}
        for name, counts, reasons, log in results:
            entry = merged.setdefault(name, [0, 0, 0, [], log])
            for i in range(3):
                entry[i] += counts[i]
            entry[3] += reasons
            if counts[1]:
                entry[4] = log
        for name, (passed, failed, skipped, reasons, log) in merged.items():
            if passed + failed + skipped or not gtest_filter:
                self.report.add(f"{preset} {name}{suffix}", passed, failed, skipped, log, reasons)
        if gtest_filter and not any(sum(m[:3]) for m in merged.values()):
            self.report.add(f"{preset} {gtest_filter}{suffix}: no test matches", failed=1)

    def run_unit(self, preset, suffix, name, shard, command, env, properties):
        """Runs one test program (or one shard); returns (name, (passed, failed, skipped), reasons, log)."""
        tag = re.sub(r"[^\w.,=-]+", "_", f"{preset}-{name}{suffix}-{shard}")
        document = LOGS / f"{tag}.xml"  # GoogleTest's JSON does not say why a test was skipped
        document.unlink(missing_ok=True)
        status, log = self.run(
            tag, command, env={"GTEST_OUTPUT": f"xml:{document}"} | env, cwd=properties.get("WORKING_DIRECTORY", BUILD)
        )
        if not document.exists():  # no GoogleTest, or it died
            skipped = status != 0 and status == properties.get("SKIP_RETURN_CODE")
            last = log.read_text(errors="replace").splitlines()[-1:]
            return name, (int(status == 0), int(status != 0 and not skipped), int(skipped)), last * skipped, log
        passed = failed = 0
        reasons = []
        for case in xml.etree.ElementTree.parse(document).getroot().iter("testcase"):
            skip = case.find("skipped")
            if case.attrib["status"] != "run":
                continue
            if case.find("failure") is not None:
                failed += 1
            elif skip is not None:
                reasons.append(" ".join(skip.attrib["message"].splitlines()[1:]).strip())  # after file:line
            else:
                passed += 1
        if status != 0 and not failed:  # a sanitizer's report at exit
            failed = 1
        return name, (passed, failed, len(reasons)), reasons, log

    def pytest(self, suite, python, arguments, **more):
        document = LOGS / f"{suite.replace(' ', '_')}.xml"
        document.unlink(missing_ok=True)
        status, log = self.run(suite, [python, "-m", "pytest", "-q", f"--junitxml={document}", *arguments], **more)
        if not document.exists():
            self.report.add(suite, failed=1, log=log)
            return
        suites = xml.etree.ElementTree.parse(document).getroot()
        counts = suites.find("testsuite").attrib
        reasons = [case.attrib.get("message", "") for case in suites.iter("skipped")]
        failed = int(counts["failures"]) + int(counts["errors"])
        skipped = int(counts["skipped"])
        failed = failed or int(status != 0)
        self.report.add(suite, int(counts["tests"]) - failed - skipped, failed, skipped, log, reasons)

    @staticmethod
    def command(folder):
        """The quern command in a build folder, or None."""
        for place in ("tools/quern", "bin/quern", "quern", "tools/quern/quern"):
            if (folder / place).is_file():
                return folder / place
        return None

    def verify(self, suite, quern, folders, tolerance=None, options=(), emulator=(), env=None, expected=None):
        """`quern verify` over folders, with a file of tolerances or the command's; `expected`: how many must pass."""
        if not quern:
            self.report.add(f"{suite}: the command quern is not there", failed=1)
            return
        allowed = ["--rtol", "0", "--tolerance", tolerance] if tolerance else []
        command = [*emulator, quern, "verify", *folders, *allowed, *options]
        status, log = self.run(suite, command, env=env)
        match = re.findall(r"^(\d+) passed, (\d+) failed(.*)$", log.read_text(errors="replace"), re.M)
        if not match:
            self.report.add(suite, failed=1, log=log)
            return
        passed, failed = int(match[-1][0]), int(match[-1][1])
        failed += sum(int(n) for n in re.findall(r"(\d+) (?:unsupported|errors?)\b", match[-1][2]))
        skipped = sum(int(n) for n in re.findall(r"(\d+) (?:known|skipped)", match[-1][2]))
        failed = failed or int(status != 0 or (expected is not None and passed < expected))
        self.report.add(suite, passed, failed, skipped, log)
