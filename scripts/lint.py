#!/usr/bin/env python3
"""Checks the tree: layers, includes, file sizes, unfinished work, skipped tests, formatting, links of documents.

    lint.py            everything; one line per finding, then the number of checks and findings
    lint.py --format   also rewrites C++ files that clang-format-19 would change

The layer of each folder of src/ comes from cmake/layers.txt, as for the build: a folder includes itself and folders of
a lower layer only; tools/, python/, examples/ see the installed headers; micro-kernels see the kernel-safe headers.
"""

import argparse
import json
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
CPP = {".h", ".hpp", ".cc", ".cpp", ".c", ".inc", ".S"}
TEXT = CPP | {".py", ".sh", ".cmake", ".txt", ".md", ".json", ".toml", ".yml"}
FAIL_LINES, WARN_LINES = 1500, 500
MAX_COLUMNS = 120


def tracked_files():
    """Files of git's index plus new ones that are not ignored; without git, everything but build and tool folders."""
    git = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True)
    if git.returncode == 0:
        names = git.stdout.splitlines()
    else:
        names = [
            str(p.relative_to(ROOT))
            for p in ROOT.rglob("*")
            if not re.match(r"(build|\.git|\.tools|\.cache)", p.relative_to(ROOT).parts[0])
        ]
    return sorted(ROOT / n for n in names if (ROOT / n).is_file())


def read_layers():
    layers, kernel_safe = {}, set()
    for line in (ROOT / "cmake/layers.txt").read_text().splitlines():
        if match := re.fullmatch(r"(\d+) ([a-z]+)", line.strip()):
            layers[match[2]] = int(match[1])
        elif match := re.fullmatch(r"kernel-safe (\S+)", line.strip()):
            kernel_safe.add(match[1])
    return layers, kernel_safe


class Lint:
    def __init__(self, files):
        self.files = files
        self.findings, self.warnings = [], []
        self.text = {}
        for path in files:
            if path.suffix in TEXT or path.name in ("test.sh", "demo.sh", "run", "CMakeLists.txt"):
                try:
                    self.text[path] = path.read_text()
                except UnicodeDecodeError:
                    self.fail(path, 0, "is not UTF-8")

    def fail(self, path, line, message):
        self.findings.append(
            f"{path.relative_to(ROOT)}:{line}: {message}" if line else f"{path.relative_to(ROOT)}: {message}"
        )

    def lines(self, suffixes=None):
        for path, text in self.text.items():
            if suffixes is None or path.suffix in suffixes:
                for number, line in enumerate(text.splitlines(), 1):
                    yield path, number, line

    def check_layers(self):
        """A folder of src/ includes itself and lower layers; includes are written from src/, never relative."""
        layers, kernel_safe = read_layers()
        for path, number, line in self.lines(CPP):
            match = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
            if not match:
                continue
            include, parts = match[1], path.relative_to(ROOT).parts
            first = include.split("/")[0]
            if ".." in include.split("/") or "/" not in include:
                if parts[0] == "src" or "/" in include:
                    self.fail(path, number, f'include "{include}": write it from src/, as "folder/file.h"')
                continue
            if parts[0] == "src" and len(parts) > 2:
                self.check_edge(path, number, parts[1], first, include, layers, kernel_safe)
            elif parts[0] in ("tools", "python", "examples") and first in layers:
                self.fail(path, number, f'include "{include}": {parts[0]}/ uses include/quern only')
        for path in (ROOT / "src").iterdir():
            if path.is_dir() and path.name not in layers:
                self.fail(path, 0, "folder has no layer in cmake/layers.txt")

    def check_edge(self, path, number, folder, first, include, layers, kernel_safe):
        if first in ("quern", folder) or first not in layers:
            return
        test = re.search(r"_(test|bench)\.cc$", path.name)
        if folder == "ukernel" and not test and include not in kernel_safe:
            self.fail(path, number, f'include "{include}": micro-kernels see the kernel-safe headers of base only')
        elif layers[first] >= layers.get(folder, 0):
            self.fail(
                path,
                number,
                f'include "{include}": {first} is layer {layers[first]}, {folder} is layer {layers.get(folder)}',
            )

    def check_evaluators(self):
        """The CPU provider calls no evaluator of src/ops: those are the reference, and the oracle of its tests."""
        pattern = re.compile(r'"ops/evaluate\.h"|\bEvaluate[A-Z]\w*(<[^;]*>)?\(|(\.|->)evaluate\b')
        for path, number, line in self.lines(CPP):
            of_tests = re.search(r"(_test\.cc|/(random_cases|test_run)\.h)$", path.as_posix())
            if (ROOT / "src/provider/cpu") not in path.parents or of_tests:
                continue
            if match := pattern.search(line.split("//")[0]):
                self.fail(path, number, f"{match[0]} is of the reference evaluation: give the operator a kernel here")

    def check_sizes(self):
        """No file over 1500 lines; one over 500 asks to be split."""
        for path, text in self.text.items():
            count = text.count("\n")
            if path.suffix in CPP | {".py", ".sh", ".cmake"}:
                if count > FAIL_LINES:
                    self.fail(path, 0, f"{count} lines, more than {FAIL_LINES}: split it")
                elif count > WARN_LINES:
                    self.warnings.append(f"{path.relative_to(ROOT)}: {count} lines, more than {WARN_LINES}")
        for path in self.files:
            if path.stat().st_size > 2 << 20:
                self.fail(path, 0, "is larger than 2 MB")

    def check_marks(self):
        """No unfinished work, no machine paths, no package hosts."""
        marks = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b")
        machine = re.compile(r'(^|[" =:(])/(wor' r'k|roo' r't|hom' r'e)/[a-z]')
        hosts = re.compile(r"https?://[a-z.]*(py" r"pi|npm" r"js|crat" r"es|deb" r"ian)\b")
        for path, number, line in self.lines():
            if path.suffix in (".md", ".json", ".txt") and not machine.search(line) and not hosts.search(line):
                continue
            for pattern, what in (
                (marks, "mark of unfinished work"),
                (machine, "path of one machine"),
                (hosts, "package host"),
            ):
                if match := pattern.search(line):
                    self.fail(path, number, f"{what}: {match[0].strip()}")

    def check_tests(self):
        """A skipped test says why; none is disabled."""
        for path, number, line in self.lines(CPP):
            if re.search(r"GTEST_SKIP\(\)\s*;", line):
                self.fail(path, number, "GTEST_SKIP without a reason")
            if re.search(r"\bTEST(_F|_P)?\(.*DISABLED_", line):
                self.fail(path, number, "disabled test")
        for path, number, line in self.lines({".py"}):
            if re.search(r"pytest\.mark\.skip\b(?!if)(?!\(.*reason)|pytest\.mark\.xfail(?!\(.*reason)", line):
                self.fail(path, number, "skipped test without a reason")

    def check_text(self):
        """No trailing blanks, no tabs in code, at most 120 columns, a newline at the end, include guards."""
        for path, number, line in self.lines():
            if line != line.rstrip() and path.suffix != ".md":
                self.fail(path, number, "trailing blanks")
            if path.suffix in CPP | {".py", ".sh", ".cmake"}:
                if "\t" in line:
                    self.fail(path, number, "tab")
                if len(line) > MAX_COLUMNS and "http" not in line:
                    self.fail(path, number, f"{len(line)} columns, more than {MAX_COLUMNS}")
        for path, text in self.text.items():
            if text and not text.endswith("\n"):
                self.fail(path, 0, "no newline at the end")
            if path.suffix in (".h", ".hpp") and "#pragma once" not in text and "#ifndef" not in text:
                self.fail(path, 0, "header without #pragma once")

    def check_names(self):
        """Files are lower_snake; every shell script parses."""
        for path in self.files:
            if path.suffix in CPP and not re.fullmatch(r"[a-z0-9_]+", path.stem):
                self.fail(path, 0, "file names are lower_snake")
            first = self.text.get(path, "").partition("\n")[0]
            if first.startswith("#!") and "bash" in first:
                result = subprocess.run(["bash", "-n", str(path)], capture_output=True, text=True)
                if result.returncode:
                    self.fail(path, 0, result.stderr.strip())
            elif path.suffix == ".json" and path in self.text:
                try:
                    json.loads(self.text[path])
                except ValueError as error:
                    self.fail(path, 0, str(error))

    def check_links(self):
        """Relative links of the documents lead to a file, and files that they name in backticks are there."""
        names = {p.name for p in self.files}
        for path, number, line in self.lines({".md"}):
            for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", line):
                if not re.match(r"[a-z]+:", target) and not (path.parent / target).exists():
                    self.fail(path, number, f"link to {target}, which is not there")
            if path.name.startswith("adding-"):  # their worked examples name files that are to be made
                continue
            for name in re.findall(r"`([\w./-]+\.(?:h|hpp|cc|py|sh|cmake|txt|md|inc|json))`", line):
                if name.startswith("../shared/") or ("/" not in name and name in names):
                    continue
                if not any((folder / name).exists() for folder in (ROOT, ROOT / "src", ROOT / "include", path.parent)):
                    self.fail(path, number, f"names {name}, which is not there")

    def check_format(self, fix=False):
        """C++ files are as clang-format-19 writes them."""
        tool = shutil.which("clang-format-19")
        files = [str(p) for p in self.files if p.suffix in {".h", ".hpp", ".cc", ".cpp", ".c"}]
        if not tool:
            self.warnings.append("clang-format-19 is not installed: formatting not checked")
            return
        if fix:
            subprocess.run([tool, "-i", *files], check=True)
        for start in range(0, len(files), 100):
            result = subprocess.run(
                [tool, "--dry-run", "--Werror", "--ferror-limit=1", *files[start : start + 100]],
                capture_output=True,
                text=True,
            )
            for match in sorted(set(re.findall(r"^(/\S+?):(\d+):\d+: error", result.stderr, re.M))):
                self.fail(
                    pathlib.Path(match[0]), int(match[1]), "clang-format-19 writes it otherwise (lint.py --format)"
                )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--format", action="store_true", help="rewrite files as clang-format-19 wants them")
    args = parser.parse_args()
    lint = Lint(tracked_files())
    checks = [name for name in dir(lint) if name.startswith("check_") and name != "check_edge"]
    failed = 0
    for name in checks:
        before = len(lint.findings)
        lint.check_format(args.format) if name == "check_format" else getattr(lint, name)()
        failed += len(lint.findings) > before
    for warning in lint.warnings:
        print("note:", warning)
    for finding in lint.findings:
        print(finding)
    print(
        f"{len(lint.files)} files, {len(checks) - failed} checks passed, {failed} failed, {len(lint.findings)} findings"
    )
    sys.exit(bool(lint.findings))


if __name__ == "__main__":
    main()
