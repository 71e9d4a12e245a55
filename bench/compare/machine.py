"""What the figures were measured on, and memory of this process."""

import os
import pathlib
import platform
import re
import resource
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
FLAGS = (
    "avx2 fma avx_vnni avx512f avx512_vnni avx512_bf16 avx512_fp16 amx_tile amx_bf16 amx_int8 "
    "asimd asimddp i8mm bf16 sve sve2 sme sme2"
).split()


def parse_cpuinfo(text):
    """(name or None, those of FLAGS that it has) from /proc/cpuinfo."""
    lines = {}
    for line in text.splitlines():
        key, _, value = line.partition(":")
        lines.setdefault(key.strip(), value.strip())
    has = set((lines.get("flags") or lines.get("Features") or "").split())
    return lines.get("model name"), [flag for flag in FLAGS if flag in has]


def commit():
    """The commit of the tree, with "+" behind it when files differ from it; None outside of git."""

    def git(*words):
        return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()

    try:
        return git("rev-parse", "HEAD") + ("+" if git("status", "--porcelain") else "")
    except (OSError, subprocess.CalledProcessError):
        return None


def facts():
    cpuinfo = pathlib.Path("/proc/cpuinfo")
    name, flags = parse_cpuinfo(cpuinfo.read_text()) if cpuinfo.exists() else (None, [])
    affinity = getattr(os, "sched_getaffinity", None)
    return {
        "cpu": name or platform.machine(),
        "flags": flags,
        "usable_cores": len(affinity(0)) if affinity else os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        "system": platform.platform(),
        "python": platform.python_version(),
        "load_average": os.getloadavg()[0],
        "commit": commit(),
    }


def peak_bytes():
    """The largest resident size of this process so far.

    Linux counts it for the memory of a program (VmHWM). ru_maxrss, the way elsewhere, there also covers the process
    that started this one, as it was when it forked.
    """
    status = pathlib.Path("/proc/self/status")
    if status.exists():
        return 1024 * int(re.search(r"^VmHWM:\s*(\d+) kB", status.read_text(), re.M)[1])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
