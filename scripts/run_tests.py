#!/usr/bin/env python3
"""The stages of ./test.sh: builds, runs the suites, counts test cases and prints the time of each stage.

`./test.sh --help` lists the stages. Every suite's own output goes to build/test-logs; what failed is shown. The last
line is `N passed, N failed, N skipped`, summed over GoogleTest cases, Python tests, verified folders and single checks.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
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

# Models of ../shared/models that must agree with the expected results.
MODELS = """mnist_8 mnist_burn mnist_mlir super_resolution_10 nhwc_conv_clip_relu residual_block mobilenet_v2_0.35_128
    mobilenet_v2_128_0.5 ultraface_rfb_320 yunet_n_320 yunet_n_dynamic oww_alexa oww_embedding ha_hey_nabu_v2
    micro_kws_fp32 micro_kws_qdq silero_vad_v6 dtln_1 go1_policy ppocr_cls fastestdet yolox_nano""".split()
# Those under 50 million multiply-adds, which the emulator runs in a minute.
SMALL_MODELS = """mnist_8 mnist_burn mnist_mlir nhwc_conv_clip_relu mobilenet_v2_0.35_128 mobilenet_v2_128_0.5 oww_alexa
    oww_embedding ha_hey_nabu_v2 micro_kws_fp32 micro_kws_qdq silero_vad_v6 dtln_1 go1_policy ppocr_cls""".split()
SANITIZED_MODELS = ["mnist_8", "micro_kws_qdq", "silero_vad_v6", "dtln_1", "mobilenet_v2_128_0.5"]
BENCH_MODELS = ["mobilenet_v2"]
FULL_BENCH_MODELS = ["mobilenet_v2", "resnet50", "bert_base"]
CPUS = ["native", "haswell", "generic"]
# Streaming vector lengths in bits; without FA64, and once without SVE, as some cores are.
SME_CPUS = [
    "max,sve=off,sme_fa64=off,sme512=on",
    "max,sme_fa64=off,sme128=on",
    "max,sme_fa64=off,sme512=on",
]


class Report:
    """Counts of the whole run; `lines` of what was left out or failed, for the end."""

    def __init__(self):
        self.passed = self.failed = self.skipped = 0
        self.notes, self.failures = [], []

    def add(self, suite, passed=0, failed=0, skipped=0, log=None):
        passed, failed = int(passed), int(failed)  # a single check is a bool
        self.passed += passed
        self.failed += failed
        self.skipped += skipped
        counts = [f"{passed} passed"] + [f"{n} {what}" for n, what in ((failed, "failed"), (skipped, "skipped")) if n]
        print(f"  {suite}: {', '.join(counts)}", flush=True)
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


class Tests:
    def __init__(self, args):
        self.args = args
        self.report = Report()
        self.built = {}
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

    # ---- running things

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

    def build(self, preset, targets=()):
        """Configures and builds a preset; a failure is one failed check. Returns its folder, or None."""
        key = (preset, tuple(targets))
        if key not in self.built:
            start = time.time()
            folder = BUILD / preset
            status, log = self.run(f"configure-{preset}", ["cmake", "--preset", preset])
            if status == 0:
                wanted = [t for t in targets if t in self.target_names(folder)]
                goal = ["--target", *wanted] if targets else []
                status, log = self.run(f"build-{preset}", ["cmake", "--build", folder, "-j", CORES, *goal])
            self.report.add(
                f"build {preset} ({time.time() - start:.0f} s)", passed=status == 0, failed=status != 0, log=log
            )
            self.built[key] = folder if status == 0 else None
        return self.built[key]

    @staticmethod
    def target_names(folder):
        listed = subprocess.run(["ninja", "-C", folder, "-t", "targets", "all"], capture_output=True, text=True)
        return {line.partition(":")[0] for line in listed.stdout.splitlines()}

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
            if emulator and command[0] == str(QEMU):
                command[command.index("-cpu") + 1] = emulator
            if not pathlib.Path(command[0]).exists():
                continue
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
        alone = [j for j in jobs if j[4].get("RUN_SERIAL")]
        with concurrent.futures.ThreadPoolExecutor(CORES) as pool:
            results = list(pool.map(lambda j: self.run_unit(preset, suffix, *j), [j for j in jobs if j not in alone]))
        results += [self.run_unit(preset, suffix, *j) for j in alone]
        merged = {}
        for name, counts, log in results:
            entry = merged.setdefault(name, [0, 0, 0, log])
            for i in range(3):
                entry[i] += counts[i]
            if counts[1]:
                entry[3] = log
        for name, (passed, failed, skipped, log) in merged.items():
            if passed + failed + skipped or not gtest_filter:
                self.report.add(f"{preset} {name}{suffix}", passed, failed, skipped, log)
        if gtest_filter and not any(sum(m[:3]) for m in merged.values()):
            self.report.add(f"{preset} {gtest_filter}{suffix}: no test matches", failed=1)

    def run_unit(self, preset, suffix, name, shard, command, env, properties):
        """Runs one test program (or one shard); returns (name, (passed, failed, skipped), log)."""
        tag = re.sub(r"[^\w.,=-]+", "_", f"{preset}-{name}{suffix}-{shard}")
        document = LOGS / f"{tag}.json"
        document.unlink(missing_ok=True)
        status, log = self.run(
            tag, command, env={"GTEST_OUTPUT": f"json:{document}"} | env, cwd=properties.get("WORKING_DIRECTORY", BUILD)
        )
        if not document.exists():  # no GoogleTest, or it died
            skipped = status != 0 and status == properties.get("SKIP_RETURN_CODE")
            return name, (int(status == 0), int(status != 0 and not skipped), int(skipped)), log
        passed = failed = skipped = 0
        for suite in json.loads(document.read_text())["testsuites"]:
            for case in suite["testsuite"]:
                if case.get("status") != "RUN":
                    continue
                if case.get("failures"):
                    failed += 1
                elif case.get("result") == "SKIPPED":
                    skipped += 1
                else:
                    passed += 1
        if status != 0 and not failed:  # a sanitizer's report at exit
            failed = 1
        return name, (passed, failed, skipped), log

    def pytest(self, suite, python, arguments, **more):
        document = LOGS / f"{suite}.xml"
        document.unlink(missing_ok=True)
        status, log = self.run(suite, [python, "-m", "pytest", "-q", f"--junitxml={document}", *arguments], **more)
        if not document.exists():
            self.report.add(suite, failed=1, log=log)
            return
        counts = xml.etree.ElementTree.parse(document).getroot().find("testsuite").attrib
        failed = int(counts["failures"]) + int(counts["errors"])
        skipped = int(counts["skipped"])
        failed = failed or int(status != 0)
        self.report.add(suite, int(counts["tests"]) - failed - skipped, failed, skipped, log)

    @staticmethod
    def command(folder):
        """The quern command in a build folder, or None."""
        for place in ("tools/quern", "bin/quern", "quern", "tools/quern/quern"):
            if (folder / place).is_file():
                return folder / place
        return None

    def verify(self, suite, quern, folders, tolerance, options=(), emulator=(), env=None, expected=None):
        """`quern verify` over folders; `expected`: how many folders must be counted."""
        if not quern:
            self.report.add(f"{suite}: the command quern is not there", failed=1)
            return
        command = [*emulator, quern, "verify", *folders, "--rtol", "0", "--tolerance", tolerance, *options]
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

    # ---- material

    def generated(self, seeds=3):
        """Seeded graphs with onnxruntime's results, and the shipped models; returns the folder, or None."""
        out = BUILD / "generated"
        if not (out / "tolerance.json").exists() or "generated" not in self.built:
            script = ROOT / "tests/conformance/generate_graphs.py"
            seeds = 20 if self.args.full else seeds
            done = self.check("generate graphs", [PYTHON, script, out / "graphs", "--seeds", seeds])
            done &= self.check("generate digits", [PYTHON, ROOT / "tests/bench_models.py", out / "shipped"])
            if not done:
                return None
            tolerances = {}
            for part in ("graphs", "shipped"):
                tolerances |= json.loads((out / part / "tolerance.json").read_text())
            (out / "tolerance.json").write_text(json.dumps(tolerances))
            self.built["generated"] = out
        return out

    def model_folders(self, names):
        return [self.shared / "models" / n for n in names]

    # ---- stages, in the order in which they run

    def stage_lint(self):
        """layers, texts, formatting (scripts/lint.py)"""
        status, log = self.run("lint", [PYTHON, ROOT / "scripts/lint.py"])
        match = re.search(r"(\d+) checks passed, (\d+) failed", log.read_text())
        counts = [int(n) for n in match.groups()] if match else [0, 1]
        self.report.add("lint", counts[0], counts[1] or int(status != 0 and not counts[1]), log=log)

    def stage_release(self):
        """release build of everything, unit tests, symbols of the kernel objects"""
        if folder := self.build("release"):
            self.ctest("release", folder)

    def stage_arm(self):
        """aarch64 build: kernel tests and small models under the emulator"""
        folder = self.build("aarch64")
        if not folder:
            return
        pick = (lambda name: True) if self.args.full else (lambda name: re.match(r"(base|ukernel|kernels)_test", name))
        self.ctest("aarch64", folder, pick, shards=CORES)
        for cpu in SME_CPUS:
            self.ctest(
                "aarch64",
                folder,
                lambda name: re.match(r"(ukernel|kernels)_test", name),
                gtest_filter="*Sme*:*sme*",
                emulator=cpu,
                suffix=f" -cpu {cpu}",
            )
        emulator = [QEMU, "-L", ARM64_ROOT, "-cpu", "max,sme_fa64=off"]
        quern, material = self.command(folder), self.generated()
        if material:
            self.verify(
                "aarch64 generated graphs",
                quern,
                [material / "graphs", material / "shipped"],
                material / "tolerance.json",
                emulator=emulator,
            )
            for cpu in ("cortex-a57", "neoverse-n1"):  # no dot product, no SVE; no illegal instruction either
                self.verify(
                    f"aarch64 digits on {cpu}",
                    quern,
                    [material / "shipped"],
                    material / "tolerance.json",
                    emulator=[*emulator[:-1], cpu],
                )
        if self.shared:
            self.verify(
                "aarch64 models",
                quern,
                self.model_folders(SMALL_MODELS),
                self.shared / "models/tolerance.json",
                emulator=emulator,
                expected=len(SMALL_MODELS),
            )
        else:
            self.report.skip("aarch64 models", "no ../shared (or QUERN_SHARED)", len(SMALL_MODELS))

    def stage_x86(self):
        """the release binary on emulated older x86-64 CPUs: no illegal instruction"""
        folder = self.build("release")
        material = self.generated()
        if not folder or not material:
            return
        for cpu in ("Nehalem", "Haswell"):
            emulator = ["qemu-x86_64", "-cpu", cpu]
            self.verify(
                f"digits on {cpu}",
                self.command(folder),
                [material / "shipped"],
                material / "tolerance.json",
                emulator=emulator,
            )
            if self.shared:
                self.verify(
                    f"mnist_8 on {cpu}",
                    self.command(folder),
                    self.model_folders(["mnist_8"]),
                    self.shared / "models/tolerance.json",
                    emulator=emulator,
                )

    def stage_compare(self):
        """seeded generated graphs and the shipped models against onnxruntime's results, on several CPUs"""
        folder = self.build("release")
        material = self.generated()
        if not folder or not material:
            return
        for cpu in CPUS:
            for threads in (1, 2):
                self.verify(
                    f"generated graphs, {cpu}, {threads} threads",
                    self.command(folder),
                    [material / "graphs", material / "shipped"],
                    material / "tolerance.json",
                    ["--cpu", cpu, "--threads", threads],
                )
        self.verify(
            "generated graphs, reference",
            self.command(folder),
            [material / "graphs"],
            material / "tolerance.json",
            ["--provider", "reference"],
        )

    def stage_models(self):
        """the models of ../shared/models, and benchmark models against onnxruntime"""
        folder = self.build("release")
        if not folder:
            return
        if not self.shared:
            self.report.skip("models", "no ../shared (or QUERN_SHARED)", len(MODELS))
            return
        for cpu in CPUS:
            for threads in (1, 2):
                self.verify(
                    f"models, {cpu}, {threads} threads",
                    self.command(folder),
                    self.model_folders(MODELS),
                    self.shared / "models/tolerance.json",
                    ["--cpu", cpu, "--threads", threads],
                    expected=len(MODELS),
                )
        names, out = FULL_BENCH_MODELS if self.args.full else BENCH_MODELS, BUILD / "bench-models"
        script = ROOT / "tests/bench_models.py"
        if self.check("fill benchmark models", [PYTHON, script, out, *names, "--shared", self.shared]):
            for threads in (1, 2):
                self.verify(
                    f"benchmark models, {threads} threads",
                    self.command(folder),
                    [out / n for n in names],
                    out / "tolerance.json",
                    ["--threads", threads],
                    expected=len(names),
                )

    def stage_asan(self):
        """AddressSanitizer and UndefinedBehaviorSanitizer: unit tests and five models"""
        folder = self.build("asan")
        if not folder:
            return
        env = {"ASAN_OPTIONS": "detect_leaks=1:strict_string_checks=1", "UBSAN_OPTIONS": "print_stacktrace=1"}
        self.ctest("asan", folder, env=env, shards=CORES)
        material = self.generated()
        if material:
            self.verify(
                "asan generated graphs",
                self.command(folder),
                [material / "graphs", material / "shipped"],
                material / "tolerance.json",
                env=env,
            )
        if self.shared:
            self.verify(
                "asan models",
                self.command(folder),
                self.model_folders(SANITIZED_MODELS),
                self.shared / "models/tolerance.json",
                ["--threads", 2],
                env=env,
                expected=len(SANITIZED_MODELS),
            )
        else:
            self.report.skip("asan models", "no ../shared (or QUERN_SHARED)", len(SANITIZED_MODELS))

    def stage_tsan(self):
        """ThreadSanitizer: executor and sessions"""
        folder = self.build("tsan", ["parallel_test", "session_test", "api_test"])
        if folder:
            self.ctest(
                "tsan",
                folder,
                lambda name: re.match(r"(parallel|session|api)_test", name),
                env={"TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1"},
            )

    def stage_install(self):
        """install tree: exported symbols, find_package from examples/"""
        folder = self.build("release")
        if not folder:
            return
        prefix = BUILD / "install"
        shutil.rmtree(prefix, ignore_errors=True)
        if not self.check("install", ["cmake", "--install", folder, "--prefix", prefix]):
            return
        libraries = list(prefix.glob("lib*/**/libquern.so"))
        if libraries:
            listed = subprocess.run(
                ["llvm-nm-19", "-D", "--defined-only", libraries[0]], capture_output=True, text=True
            )
            names = [line.split()[-1].split("@")[0] for line in listed.stdout.splitlines()]
            foreign = [n for n in names if not n.startswith("quern_") and not n.startswith("QUERN_")]
            (LOGS / "exports.log").write_text("foreign symbols:\n" + "\n".join(foreign) + "\n")
            good = bool(names) and not foreign
            self.report.add("exported symbols are the C ABI's", int(good), int(not good), log=LOGS / "exports.log")
        else:
            self.report.add("libquern.so is installed", failed=1)
        examples = BUILD / "examples"
        shutil.rmtree(examples, ignore_errors=True)
        configure = [
            "cmake",
            "-S",
            ROOT / "examples",
            "-B",
            examples,
            "-G",
            "Ninja",
            f"-DCMAKE_PREFIX_PATH={prefix}",
            "-DCMAKE_BUILD_TYPE=Release",
            "-DCMAKE_C_COMPILER=gcc-12",
            "-DCMAKE_CXX_COMPILER=g++-12",
        ]
        if self.check("examples find quern", configure) and self.check(
            "examples build", ["cmake", "--build", examples]
        ):
            self.ctest("examples", examples)

    def stage_python(self):
        """pip install . in a fresh environment, pytest, comparison of the shipped models with onnxruntime"""
        venv = BUILD / "python-venv"
        python = venv / "bin/python"
        shutil.rmtree(venv, ignore_errors=True)
        base = PYTHON.resolve()
        if not self.check("make a Python environment", [base, "-m", "venv", venv]):
            return
        pip = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--retries", "5"]
        if not self.check("pip install .", [*pip, ROOT], env={"CC": "clang-19", "CXX": "clang++-19"}):
            return
        self.check("pip install the test packages", [*pip, "-r", ROOT / "scripts/requirements.txt"])
        self.pytest("python", python, [ROOT / "python"], cwd=BUILD)
        compare = [
            python,
            ROOT / "bench/compare/compare.py",
            "--alternations",
            "3",
            "--block",
            "0.05",
            "--max-rel",
            "0.03",
            ROOT / "models/digits.onnx",
            ROOT / "models/digits_qdq.onnx",
        ]
        self.check("compare.py on the shipped models", compare, cwd=BUILD)

    def stage_row(self):
        """a micro-kernel added as one file to a copy of the tree is found, tested, benchmarked and selected"""
        self.check("throw-away row", [ROOT / "tests/throwaway_row.sh"])

    def stage_gcc(self):
        """the same build with GCC 12 (--full)"""
        folder = BUILD / "gcc"
        configure = [
            "cmake",
            "-S",
            ROOT,
            "-B",
            folder,
            "-G",
            "Ninja",
            "-DCMAKE_BUILD_TYPE=Release",
            "-DCMAKE_C_COMPILER=gcc-12",
            "-DCMAKE_CXX_COMPILER=g++-12",
        ]
        if self.check("configure gcc", configure) and self.check(
            "build gcc", ["cmake", "--build", folder, "-j", CORES]
        ):
            self.ctest("gcc", folder)

    def stage_fuzz(self):
        """every libFuzzer target for --fuzz SECONDS (--full: 600)"""
        folder = self.build("fuzz")
        if not folder:
            return
        seconds = self.args.fuzz or 600
        targets = sorted(p for p in folder.glob("fuzz/*_fuzz") if p.is_file())
        if not targets:
            self.report.add("fuzz targets", failed=1)
        with concurrent.futures.ThreadPoolExecutor(CORES) as pool:
            for name, status, log in pool.map(lambda t: self.fuzz(t, seconds), targets):
                self.report.add(f"{name}, {seconds} s", int(status == 0), int(status != 0), log=log)

    def fuzz(self, target, seconds):
        """Runs one target from its seeds; new inputs and findings stay in the build folder."""
        corpus, findings = BUILD / "fuzz-corpus" / target.name, BUILD / "fuzz-findings"
        corpus.mkdir(parents=True, exist_ok=True)
        findings.mkdir(exist_ok=True)
        seeds = [
            p
            for p in (ROOT / "fuzz/corpus" / target.name, ROOT / "fuzz/corpus" / target.name.removesuffix("_fuzz"))
            if p.is_dir()
        ] + ([ROOT / "models"] if target.name != "text_fuzz" else [])
        dictionary = ROOT / "fuzz" / f"{target.name}.dict"
        options = [
            f"-max_total_time={seconds}",
            "-timeout=20",
            "-rss_limit_mb=3072",
            "-print_final_stats=1",
            f"-artifact_prefix={findings}/{target.name}-",
        ]
        if dictionary.exists():
            options.append(f"-dict={dictionary}")
        status, log = self.run(f"fuzz-{target.name}", [target, *options, corpus, *seeds])
        return target.name, status, log


STAGES = "lint release row compare models x86 install python asan tsan arm gcc fuzz".split()
NOT_BY_DEFAULT = {"gcc", "fuzz"}


def main():
    width = max(map(len, STAGES))
    listing = "\n".join(f"  {s:{width}}  {getattr(Tests, 'stage_' + s).__doc__}" for s in STAGES)
    parser = argparse.ArgumentParser(
        prog="test.sh",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Builds Quern and runs its tests. Prints the time of each stage; the last line is\n"
        "`N passed, N failed, N skipped`, and the exit status is 0 only if nothing failed.",
        epilog=f"stages:\n{listing}\n\nQUERN_SHARED=PATH names the folder of shared material (default ../shared).",
    )
    parser.add_argument(
        "--stage", action="append", choices=STAGES, metavar="NAME", help="run this stage only (repeatable)"
    )
    parser.add_argument("--full", action="store_true", help="everything: exhaustive tests, all models, gcc, fuzzing")
    parser.add_argument(
        "--fuzz", type=int, metavar="SECONDS", help="run every libFuzzer target that long, nothing else"
    )
    args = parser.parse_args()
    stages = args.stage or (
        ["fuzz"] if args.fuzz and not args.full else [s for s in STAGES if args.full or s not in NOT_BY_DEFAULT]
    )
    LOGS.mkdir(parents=True, exist_ok=True)
    tests, times, begin = Tests(args), [], time.time()
    for stage in stages:
        function = getattr(tests, f"stage_{stage}")
        print(f"== {stage}: {function.__doc__}", flush=True)
        start = time.time()
        try:
            function()
        except Exception as error:  # one broken stage must not hide the others
            tests.report.add(f"{stage}: {type(error).__name__}: {error}", failed=1)
        times.append((stage, time.time() - start))
        print(f"== {stage}: {times[-1][1]:.0f} s", flush=True)
    print(
        "\ntimes: "
        + ", ".join(f"{name} {seconds:.0f} s" for name, seconds in times)
        + f", together {time.time() - begin:.0f} s"
    )
    for note in tests.report.notes:
        print("left out:", note)
    for failure in tests.report.failures:
        print("failed:", failure)
    print(f"{tests.report.passed} passed, {tests.report.failed} failed, {tests.report.skipped} skipped")
    sys.exit(1 if tests.report.failed else 0)


if __name__ == "__main__":
    main()
