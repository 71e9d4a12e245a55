"""The virtual environment of compare.py --setup: .tools/compare-venv, with requirements.txt and this tree's Quern."""

import hashlib
import os
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
VENV = ROOT / ".tools/compare-venv"
SOURCES = ("CMakeLists.txt", "pyproject.toml", "cmake", "include", "src", "python")  # what `pip install .` builds from


def stamp_of(root, names):
    """Changes with the name or content of any file of these files and folders."""
    digest = hashlib.sha256()
    for name in names:
        place = root / name
        files = sorted(p for p in place.rglob("*") if p.is_file()) if place.is_dir() else [place]
        for file in files:
            if "__pycache__" not in file.parts:
                digest.update(f"{file.relative_to(root)} {hashlib.sha256(file.read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()


def once(stamp_file, stamp, what, command, env=None):
    """Runs a command unless the stamp says that it has been done."""
    if stamp_file.exists() and stamp_file.read_text() == stamp:
        return
    print(f"setup: {what}", file=sys.stderr, flush=True)
    stamp_file.unlink(missing_ok=True)
    if subprocess.run(list(map(str, command)), env=env, stdout=sys.stderr).returncode:
        sys.exit(f"error: {what} failed")
    stamp_file.write_text(stamp)


def make():
    """Makes or completes the environment; returns its interpreter. What is there and current stays."""
    python, base = VENV / "bin/python", pathlib.Path(sys.executable).resolve()
    VENV.parent.mkdir(parents=True, exist_ok=True)
    once(
        VENV / ".made",
        f"{base} {sys.version}",
        f"making {VENV.relative_to(ROOT)}",
        [base, "-m", "venv", "--clear", VENV],
    )
    pip = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--retries", "5"]
    packages = stamp_of(HERE, ["requirements.txt"])
    once(
        VENV / ".packages",
        packages,
        "installing numpy, the peers and matplotlib",
        [*pip, "-r", HERE / "requirements.txt"],
    )
    env = {"CCACHE_BASEDIR": str(ROOT), "CCACHE_NOHASHDIR": "1"} | os.environ
    if shutil.which("clang++-19"):
        env = {"CC": "clang-19", "CXX": "clang++-19"} | env
    quern = [*pip, "--force-reinstall", "--no-deps", ROOT]
    once(VENV / ".quern", stamp_of(ROOT, SOURCES), "building and installing Quern", quern, env)
    return python


def enter(script, arguments):
    """Makes the environment and continues in it, with `arguments`: does not return."""
    python = make()
    os.execv(python, [str(python), str(script), *arguments])
