"""Runs a program once and says what it took, and how busy the machine was with other things meanwhile."""

import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass

TICKS = os.sysconf("SC_CLK_TCK")


class Failed(Exception):
    """A program that did not end with status 0; the text is its standard error's end."""


@dataclass
class Run:
    stdout: str
    stderr: str
    seconds: float      # from start to end
    peak_bytes: int     # of its resident memory, pages of mapped files included
    other_load: float   # processors kept busy by others, of all processors: 0 to 1


def busy_seconds():
    """Seconds of processor time spent by anybody since the start of the machine; taken by the host counts, too."""
    with open("/proc/stat", encoding="ascii") as file:
        user, nice, system, _idle, _iowait, irq, softirq, steal = (int(n) for n in file.readline().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / TICKS


def run(command, environment=None):
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        busy, start = busy_seconds(), time.perf_counter()
        process = subprocess.Popen(command, stdout=out, stderr=err, stdin=subprocess.DEVNULL,
                                   env={**os.environ, **(environment or {})})
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        others = busy_seconds() - busy - usage.ru_utime - usage.ru_stime
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode(errors="replace"))
    if process.returncode != 0:
        raise Failed(f"{' '.join(map(str, command))}\nended with status {process.returncode}:\n{texts[1].strip()[-2000:]}")
    load = max(0.0, others / seconds / os.cpu_count()) if seconds > 0.2 else 0.0  # /proc/stat counts in hundredths
    return Run(texts[0], texts[1], seconds, usage.ru_maxrss * 1024, load)


def idle_load(seconds=1.0):
    """How busy the machine is while we do nothing."""
    busy = busy_seconds()
    time.sleep(seconds)
    return (busy_seconds() - busy) / seconds / os.cpu_count()


def warn_if_busy(load):
    if load > 0.05:
        print(f"WARNING: others keep {100 * load:.0f} % of the machine busy; these numbers mean little", file=sys.stderr)
