#!/usr/bin/env python3
"""The stages of ./test.sh: builds, runs the suites, counts test cases and prints the time of each stage.

`./test.sh --help` lists the stages. Every suite's own output goes to build/test-logs; what failed is shown. The last
line is `N passed, N failed, N skipped`, summed over GoogleTest cases, Python tests, verified folders and single checks.
"""

import argparse
import concurrent.futures
import json
import pathlib
import re
import shutil
import subprocess
import sys
import time

from test_runner import ARM64_ROOT, BUILD, CORES, LOGS, PYTHON, QEMU, ROOT, SHARDS, Preset, Runner

# Models under 50 million multiply-adds, which the emulator runs in a minute.
SMALL_MODELS = """mnist_8 mnist_burn mnist_mlir nhwc_conv_clip_relu mobilenet_v2_0.35_128 mobilenet_v2_128_0.5 oww_alexa
    oww_embedding ha_hey_nabu_v2 micro_kws_fp32 micro_kws_qdq silero_vad_v6 dtln_1 go1_policy ppocr_cls""".split()
SLOW_MODELS = {"agllnet_256", "dnsmos_sig_bak_ovr"}  # over a second on one x86-64 core with portable kernels
SANITIZED_MODELS = ["mnist_8", "micro_kws_qdq", "silero_vad_v6", "dtln_1", "mobilenet_v2_128_0.5"]
BENCH_MODELS = ["mobilenet_v2"]
SUITES = ["onnx-node", "pytorch-converted", "pytorch-operator", "simple"]
FORMAT_COVERAGE = 80  # percent of lines that the fuzz targets reach
SEEDED_MODELS = 3  # of tests/conformance/test_seeded_models.py
LIGHT_MODELS = ["light_shufflenet", "light_squeezenet"]
REFUSED_MODELS = {"mlperf_kws": "RequantShift", "tiny_gpt2_beamsearch": "BeamSearch"}
FULL_BENCH_MODELS = ["mobilenet_v2", "resnet50", "bert_base"]
CPUS = ["native", "haswell", "generic"]
ARM_TESTS = ["base_test", "ukernel_test", "kernels_test"]  # all with --full
TSAN_TESTS = ["parallel_test", "session_test", "api_test", "external_provider_test"]
# Emulated CPU -> its SVE vector length in bits.
SVE_CPUS = {f"max,sme=off,sve{bits}=on": bits for bits in (128, 256, 512)}
# Emulated CPU -> its streaming vector length in bits; without FA64, and once without SVE, as some cores are.
SME_CPUS = {
    "max,sme_fa64=off,sme128=on": 128,
    "max,sme_fa64=off,sme256=on": 256,
    "max,sve=off,sme_fa64=off,sme512=on": 512,
}
# Those on which the drivers are tested, by default; rows are on all.
DRIVER_CPUS = {"max,sme=off,sve256=on", "max,sve=off,sme_fa64=off,sme512=on"}
ONNX_WITH_FILES = "onnx==1.22.0"  # the newest that carries its node tests as files
PRODUCTS = {"MatMul", "Gemm", "Conv"}


def lacks_avx512():
    """Whether this is an x86-64 host with AVX2 but without all that the kernels of AVX-512 use."""
    flags = set("".join(re.findall(r"^flags.*", pathlib.Path("/proc/cpuinfo").read_text(), re.M)[:1]).split())
    return "avx2" in flags and not {"avx512f", "avx512bw", "avx512vl", "avx512dq", "avx512_vnni"} <= flags


def presets(full):
    """What stages build. On a host without AVX-512 its micro-kernels are AVX2 code under the address sanitizer, and
    chosen as on hosts that have it."""
    emulate = lacks_avx512()
    return {
        "release": Preset(),
        "asan": Preset(
            options=(f"-DQUERN_EMULATE_AVX512={'ON' if emulate else 'OFF'}",),
            note=", AVX-512 as AVX2 code," if emulate else "",
        ),
        "tsan": Preset(tuple(TSAN_TESTS)),
        "aarch64": Preset(() if full else (*ARM_TESTS, "quern_command")),
        "fuzz": Preset(),
    }


class Tests(Runner):
    def generated(self, seeds=3):
        """Seeded graphs with onnxruntime's results, and the shipped models; returns the folder, or None."""
        out = BUILD / "generated"
        if not (out / "tolerance.json").exists() or "generated" not in self.built:
            shutil.rmtree(out / "graphs", ignore_errors=True)  # those of other seeds
            script = ROOT / "tests/conformance/generate_graphs.py"
            seeds = 20 if self.args.full else seeds
            done = self.check("generate graphs", [PYTHON, script, out / "graphs", "--seeds", seeds, "--optimized"])
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

    def tested_models(self):
        """The folders of ../shared/models that hold outputs."""
        return sorted(f.parent for f in (self.shared / "models").glob("*/test_data_set_0"))

    # ---- stages, in the order in which they run

    def stage_lint(self):
        """layers, texts, formatting (scripts/lint.py)"""
        status, log = self.run("lint", [PYTHON, ROOT / "scripts/lint.py"])
        match = re.search(r"(\d+) checks passed, (\d+) failed", log.read_text())
        counts = [int(n) for n in match.groups()] if match else [0, 1]
        self.report.add("lint", counts[0], counts[1] or int(status != 0 and not counts[1]), log=log)

    def stage_release(self):
        """release build of everything, unit tests, symbols of the kernel objects, the benchmarks start"""
        folder = self.build("release")
        if not folder:
            return
        self.ctest("release", folder)
        for program, one in (
            ("parallel/parallel_bench", "EmptyRegion/"),
            ("ukernel/ukernel_bench", "gemm_f32_f32_f32_.*_portable/tile"),
        ):
            options = ["--benchmark_min_time=0.01", f"--benchmark_filter={one}"]
            self.check_output(program, [folder / "src" / program, *options], r"^\S+/\S+ +[\d.]+ ns")
        shape = ["--rounds", 1, "--seconds", 0.01, "64x64x64"]
        for program in ("quern_gemm_bench", "quern_attention_bench"):
            self.check_output(program, [folder / "src/kernels" / program, *shape], r"GFLOP/s of")

    def arm_tests(self, cpu):
        """Which tests an emulated CPU of another vector length runs."""
        names = {"ukernel_test", "kernels_test"} if self.args.full or cpu in DRIVER_CPUS else {"ukernel_test"}
        return lambda name: name in names

    def arm_alike(self, cpu):
        """What to add to a filter of tests that are left out: what hardly depends on the length of vectors (errors of
        rows, long rows, the C interface) runs at one."""
        return "" if self.args.full or cpu in DRIVER_CPUS else ":*Accuracy.*:*AllRows.LongRows/*:*CAllRows.*"

    def stage_arm(self):
        """aarch64 build: kernel tests and small models under the emulator"""
        folder = self.build("aarch64")
        if not folder:
            return
        pick = (lambda name: True) if self.args.full else (lambda name: name in ARM_TESTS)
        # What is alike on every CPU: large matrices, what drivers make of rows' sums over many blocks of K, drivers
        # with portable rows, the errors and the calibration of these, splits in terms for AMX, small floats.
        # Rows of SVE and SME: below, at each vector length, their errors at one.
        alike = "PackedRhs.Large*"
        if not self.args.full:
            alike += ":*GemmRows.ReducesRows*:Rows/*_portable*:*Accuracy.*_portable*:SplitFlags.*"
            alike += ":Calibration.Measures*:CheckSelection.*:SmallFloat.RoundsEveryFloat*"
        self.ctest("aarch64", folder, pick, env=self.brief, gtest_filter=f"-*_sve*:*_sme*:{alike}", shards=SHARDS)
        for cpu, bits in SVE_CPUS.items():
            self.ctest(
                "aarch64",
                folder,
                self.arm_tests(cpu),
                env=self.brief | {"QUERN_EXPECT_SVE": str(bits)},
                gtest_filter=f"*_sve*:*Sve*:Peak*Row*-{alike}{self.arm_alike(cpu)}",
                emulator=cpu,
                suffix=f" -cpu {cpu}",
                shards=SHARDS,
            )
        for cpu, bits in SME_CPUS.items():
            self.ctest(
                "aarch64",
                folder,
                self.arm_tests(cpu),
                env=self.brief | {"QUERN_EXPECT_SVL": str(bits)},  # tests of rows fail where the length is another
                # 2vx: rows beside SME's that share its units of two vectors.
                gtest_filter=f"*sme*:*Sme*:*2vx*_neon*:Peak*Row*-{alike}{self.arm_alike(cpu)}",
                emulator=cpu,
                suffix=f" -cpu {cpu}",
                shards=SHARDS,
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
            models = self.model_folders(SMALL_MODELS)
            if self.args.full:
                models = [m for m in self.tested_models() if m.name not in SLOW_MODELS]
            self.verify(
                "aarch64 models",
                quern,
                models,
                self.shared / "models/tolerance.json",
                emulator=emulator,
                expected=len(models),
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
            else:
                self.report.skip(f"mnist_8 on {cpu}", "no ../shared (or QUERN_SHARED)")

    def stage_compare(self):
        """operator versions against onnx's; generated graphs and shipped models against onnxruntime's results"""
        folder = self.build("release")
        script = ROOT / "tests/conformance/test_operator_versions.py"
        self.pytest("operator versions", PYTHON, ["-p", "no:cacheprovider", script])
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
        self.written("generated graphs", folder, [material / "graphs", material / "shipped"])
        exported = BUILD / "exported"
        script = ROOT / "tests/conformance/generate_exported.py"
        if self.check("generate exported forms", [PYTHON, script, exported, "--seeds", 10 if self.args.full else 2]):
            self.verify("exported forms", self.command(folder), [exported], exported / "tolerance.json")
            self.check_fused(self.command(folder), exported)
            self.written("exported forms", folder, [exported])
        functions = BUILD / "functions"
        if self.check("generate functions", [PYTHON, ROOT / "tests/conformance/generate_functions.py", functions]):
            self.verify(
                "node tests as functions, reference",
                self.command(folder),
                [functions],
                functions / "tolerance.json",
                ["--provider", "reference"],
            )
        self.verify(
            "generated graphs, reference",
            self.command(folder),
            [material / "graphs"],
            material / "tolerance.json",
            ["--provider", "reference"],
        )

    def stage_models(self):
        """the models of ../shared/models, benchmark models against onnxruntime, what runs on reference"""
        folder = self.build("release")
        if not folder:
            return
        if not self.shared:
            self.report.skip("models", "no ../shared (or QUERN_SHARED)")
            return
        models = self.tested_models()
        for cpu in CPUS:
            for threads in (1, 2):
                self.verify(
                    f"models, {cpu}, {threads} threads",
                    self.command(folder),
                    models,
                    self.shared / "models/tolerance.json",
                    ["--cpu", cpu, "--threads", threads],
                    expected=len(models),
                )
        self.written("models", folder, models)
        coverage = [PYTHON, ROOT / "tests/model_coverage.py", self.command(folder), self.shared, "--check"]
        self.check("coverage of the CPU provider", coverage)
        fused = [PYTHON, ROOT / "tests/fused_models.py", self.command(folder), self.shared]
        self.check("fused operators of real models", fused)
        if self.args.full:
            self.written("node tests", folder, [self.shared / "conformance"])
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
            for name in names:
                self.check_claims(name, self.command(folder), out / name / "model.onnx")
            self.check_plan("mobilenet_v2", self.command(folder), out / "mobilenet_v2/model.onnx")

    def stage_conformance(self):
        """the suites of ../shared/conformance but for tests/known.txt; models of com.microsoft and ai.onnx.ml"""
        folder = self.build("release")
        if not folder:
            return
        quern, seeds = self.command(folder), 10 if self.args.full else 2
        for name, script in (("com.microsoft", "compare_microsoft.py"), ("ai.onnx.ml", "generate_ml_models.py")):
            out = BUILD / name
            shutil.rmtree(out, ignore_errors=True)  # those of other seeds
            if self.check(f"generate {name}", [PYTHON, ROOT / "tests/conformance" / script, out, "--seeds", seeds]):
                self.verify(name, quern, [out], out / "tolerance.json")
        if not self.shared:
            self.report.skip("suites", "no ../shared (or QUERN_SHARED)")
            return
        for suite in SUITES:
            options = ["--known", ROOT / "tests/known.txt"]
            self.verify(suite, quern, [self.shared / "conformance" / suite], options=options)
        for name in REFUSED_MODELS:
            model = next((self.shared / "models" / name).glob("*.onnx"))
            status, log = self.run(f"refuse {name}", [quern, "run", model, "--random"])
            refused = status == 1 and REFUSED_MODELS[name] in log.read_text(errors="replace")
            self.report.add(f"{name} is refused for {REFUSED_MODELS[name]}", refused, not refused, log=log)
        light = sorted(p.stem for p in (self.shared / "conformance/light").glob("*.onnx"))
        names, out = light if self.args.full else LIGHT_MODELS, BUILD / "light-models"
        fill = [PYTHON, ROOT / "tests/bench_models.py", out, *names, "--shared", self.shared]
        if self.check("fill light models", fill):
            self.verify("light models", quern, [out / n for n in names], out / "tolerance.json", expected=len(names))

    def written(self, name, build, folders):
        """What `quern convert` writes of the models in folders, under onnx's checker and in onnxruntime."""
        script = ROOT / "tests/conformance/test_written_models.py"
        env = {"QUERN_COMMAND": str(self.command(build)), "QUERN_MODELS": ":".join(map(str, folders))}
        self.pytest(f"{name} written", PYTHON, ["-p", "no:cacheprovider", script], env=env)

    def inspect(self, quern, model, stage):
        """The document of `quern inspect --stage`; raises where there is none."""
        command = [quern, "inspect", model, "--stage", stage, "--json", "--threads", "1"]
        listed = subprocess.run(command, capture_output=True, text=True, env=self.environment, check=True)
        return json.loads(listed.stdout)[stage]

    def check_fused(self, quern, folder):
        """The neutral passes make of each model the operators that fused.json names."""
        for name, wanted in json.loads((folder / "fused.json").read_text()).items():
            listed = self.inspect(quern, folder / name / "model.onnx", "neutral")["operators"]
            found = {o["op"]: o["count"] for o in listed}
            other = [f"{found.get(op, 0)} {op}" for op, count in wanted.items() if found.get(op, 0) != count]
            self.finding(f"{name}: fused as {wanted}", not other, other)

    def check_claims(self, name, quern, model):
        """No product of the model runs on the reference provider."""
        products = [n for n in self.inspect(quern, model, "partition")["nodes"] if n["op"] in PRODUCTS]
        left = [f"{n['name']} ({n['op']}): {n['rejections']}" for n in products if n["provider"] == "reference"]
        self.finding(f"{name}: {len(products)} products, none on reference", products and not left, left)

    def check_plan(self, name, quern, model):
        """At most two transposes at run time; no convolution has room for a matrix of its patches."""
        steps = [step for cluster in self.inspect(quern, model, "plan")["steps"] for step in cluster["steps"]]
        transposes = [s["output"] for s in steps if s["op"] == "Transpose"]
        self.finding(f"{name}: at most two run-time transposes", len(transposes) <= 2, transposes)
        # A depthwise kernel makes no product. The others say theirs, "for MxNxK": im2col would hold M x K floats.
        found, wide = 0, []
        for s in steps:
            if s["op"] == "Conv" and not s["kernel"].startswith("dwconv"):
                m, _, k = map(int, re.search(r"for (\d+)x(\d+)x(\d+)", s["why"]).groups())
                found += 1
                if s["scratch_bytes"] >= 4 * m * k:
                    wide.append(f"{s['node']}: {s['scratch_bytes']} bytes of scratch, product of {m} rows, depth {k}")
        self.finding(f"{name}: {found} products of convolutions without im2col", found > 0 and not wide, wide)

    def stage_asan(self):
        """AddressSanitizer and UndefinedBehaviorSanitizer: unit tests (AVX-512 emulated if need be) and five models"""
        folder = self.build("asan")
        if not folder:
            return
        env = {
            "ASAN_OPTIONS": "detect_leaks=1:strict_string_checks=1:allocator_may_return_null=1",
            "UBSAN_OPTIONS": "print_stacktrace=1",
        }
        self.ctest("asan", folder, env=env | self.brief, shards=SHARDS)
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
        """ThreadSanitizer: executor, sessions, an external provider"""
        folder = self.build("tsan")
        if folder:
            self.ctest(
                "tsan",
                folder,
                lambda name: name in TSAN_TESTS,
                env={"TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1:allocator_may_return_null=1"},
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
        self.pytest("python", python, [ROOT / "python", ROOT / "bench/compare"], cwd=BUILD)
        if self.args.full:
            suite = ["-p", "no:cacheprovider", ROOT / "tests/conformance/test_backend.py"]
            self.pytest("onnx's backend suite, made in memory", python, suite, cwd=BUILD)
            old = BUILD / ONNX_WITH_FILES
            if self.check(f"pip install {ONNX_WITH_FILES}", [*pip, "--no-deps", "--target", old, ONNX_WITH_FILES]):
                env = {"PYTHONPATH": str(old)}
                self.pytest(f"backend suite of {ONNX_WITH_FILES}", python, suite, cwd=BUILD, env=env)
        if self.shared:
            script = ROOT / "tests/conformance/test_seeded_models.py"
            env = {"QUERN_SHARED": str(self.shared)}
            self.pytest("seeded inputs", python, ["-p", "no:cacheprovider", script], cwd=BUILD, env=env)
        else:
            self.report.skip("seeded inputs", "no ../shared (or QUERN_SHARED)", SEEDED_MODELS)
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

    def stage_gemm(self):
        """speed on this machine: float32 products at least 80 % of the FMA peak, choices near the fastest (--full)"""
        if folder := self.build("release"):
            for cpu in ("native", "haswell"):
                bench = [folder / "src/kernels/quern_gemm_bench", "--cpu", cpu, "--fma-peak", "--min-share", 0.8]
                self.check(f"512, 1024, 2048 squared, {cpu}", bench)
            kernels, calibration = [folder / "tools/quern", "kernels"], LOGS / "calibration.txt"
            if self.check("calibrate", [*kernels, "--calibrate", "--output", calibration]):
                env = {"QUERN_CALIBRATION": str(calibration)}
                self.check("chosen rows, calibrated", [*kernels, "--check-selection"], env=env)

    def stage_isas(self):
        """a build that leaves instruction sets out: library and kernel tests (--full)"""
        folder = BUILD / "few-isas"
        configure = ["cmake", "--preset", "release", "-B", folder, "-DQUERN_DISABLED_ISAS=avx512;amxbf16"]
        configure.append("-DQUERN_DISABLED_KERNELS=winograd_.*;gemm_i8d_.*")
        targets = ["--target", "quern_shared", "kernels_test"]
        if self.check("configure without avx512 and amxbf16", configure) and self.check(
            "build without avx512 and amxbf16", ["cmake", "--build", folder, "-j", CORES, *targets]
        ):
            # Which of all rows is chosen, and that all are there is what Select* and RequiredRows are about.
            self.ctest("few-isas", folder, lambda name: name == "kernels_test", gtest_filter="-Select*:RequiredRows.*")

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
        self.format_coverage(targets)

    def format_coverage(self, targets):
        """The targets' inputs together reach most lines of src/format/."""
        folder = BUILD / "fuzz-coverage"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        profile = folder / "all.profdata"
        for target in targets:
            env = {"LLVM_PROFILE_FILE": str(folder / f"{target.name}.profraw")}
            self.run(f"fuzz-coverage-{target.name}", [target, "-runs=0", *self.fuzz_inputs(target)], env=env)
        raw = sorted(folder.glob("*.profraw"))
        if not self.check("merge profiles", ["llvm-profdata-19", "merge", "-o", profile, *raw]):
            return
        others = [word for t in targets[1:] for word in ("-object", t)]
        command = ["llvm-cov-19", "export", "-summary-only", f"-instr-profile={profile}", targets[0], *others]
        summary = subprocess.run([*command, ROOT / "src/format"], capture_output=True, text=True, check=True)
        lines = json.loads(summary.stdout)["data"][0]["totals"]["lines"]
        found = f"fuzz targets reach {lines['percent']:.1f} % of {lines['count']} lines of src/format"
        self.finding(found, lines["percent"] >= FORMAT_COVERAGE, [])

    def fuzz_inputs(self, target):
        """Folders of a target's inputs: what it found first, then its seeds."""
        name = target.name
        seeds = [ROOT / "fuzz/corpus" / name, ROOT / "fuzz/corpus" / name.removesuffix("_fuzz")]
        if name in {"onnx_reader_fuzz", "load_run_fuzz", "tensor_proto_fuzz"}:
            seeds.append(ROOT / "models")
        return [BUILD / "fuzz-corpus" / name, *(p for p in seeds if p.is_dir())]

    def fuzz(self, target, seconds):
        """Runs one target from its seeds; new inputs and findings stay in the build folder."""
        inputs, findings = self.fuzz_inputs(target), BUILD / "fuzz-findings"
        inputs[0].mkdir(parents=True, exist_ok=True)
        findings.mkdir(exist_ok=True)
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
        env = {"LLVM_PROFILE_FILE": "/dev/null"}  # the profile is that of all inputs, later
        status, log = self.run(f"fuzz-{target.name}", [target, *options, *inputs], env=env)
        return target.name, status, log


STAGES = "lint release row compare conformance models x86 install python asan tsan arm gcc isas gemm fuzz".split()
NOT_BY_DEFAULT = {"gcc", "isas", "gemm", "fuzz"}
STAGE_PRESETS = dict.fromkeys("release compare conformance models x86 install gemm".split(), "release") | {
    "asan": "asan",
    "tsan": "tsan",
    "arm": "aarch64",
    "fuzz": "fuzz",
}


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
    parser.add_argument(
        "--full", action="store_true", help="everything: exhaustive tests, all models, gcc, speed, fuzzing"
    )
    parser.add_argument(
        "--fuzz", type=int, metavar="SECONDS", help="run every libFuzzer target that long, nothing else"
    )
    args = parser.parse_args()
    stages = args.stage or (
        ["fuzz"] if args.fuzz and not args.full else [s for s in STAGES if args.full or s not in NOT_BY_DEFAULT]
    )
    LOGS.mkdir(parents=True, exist_ok=True)
    tests, times, begin = Tests(args, presets(args.full)), [], time.time()
    for stage in stages:
        if stage in STAGE_PRESETS:
            tests.start_build(STAGE_PRESETS[stage])
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
    if not args.stage:
        tests.report.notes += [f"stage {s} (--full)" for s in STAGES if s not in stages]
    for note in tests.report.notes:
        print("left out:", note)
    for failure in tests.report.failures:
        print("failed:", failure)
    print(f"{tests.report.passed} passed, {tests.report.failed} failed, {tests.report.skipped} skipped")
    sys.exit(1 if tests.report.failed else 0)


if __name__ == "__main__":
    main()
