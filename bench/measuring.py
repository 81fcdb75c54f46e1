"""Runs a program once and says what it took, and how busy the machine was with other things meanwhile."""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass

TICKS = os.sysconf("SC_CLK_TCK")


class Failed(Exception):
    """A program that could not be started, or did not end with status 0; the text says why in its last line."""


def program_path(text):
    """For argparse, as the two below: what is missing is said before anything is measured."""
    if not os.path.isfile(text) or not os.access(text, os.X_OK):
        raise argparse.ArgumentTypeError(f"{text} is no program")
    return text


def model_path(text):
    if not os.access(text, os.R_OK):
        raise argparse.ArgumentTypeError(f"{text} cannot be read")
    return text


def writable_path(text):
    try:
        with open(text, "a", encoding="utf-8"):
            return text
    except OSError as error:
        raise argparse.ArgumentTypeError(f"{text} cannot be written: {error.strerror}") from error


def writable_folder(text):
    if not os.path.isdir(text) or not os.access(text, os.W_OK):
        raise argparse.ArgumentTypeError(f"{text} is no folder that can be written to")
    return text


def run_main(main):
    """What went wrong outside is a line, not a traceback."""
    try:
        main()
    except (Failed, OSError) as error:
        sys.exit(f"{os.path.basename(sys.argv[0])}: {error}")


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
        try:
            process = subprocess.Popen(command, stdout=out, stderr=err, stdin=subprocess.DEVNULL,
                                       env={**os.environ, **(environment or {})})
        except OSError as error:
            raise Failed(f"cannot run {command[0]}: {error.strerror}") from error
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


def results(done, program):
    """The JSON that a program printed."""
    try:
        return json.loads(done.stdout)
    except ValueError as error:
        raise Failed(f"{program} printed no results: is it the right program?") from error


def idle_load(seconds=1.0):
    """How busy the machine is while we do nothing."""
    busy = busy_seconds()
    time.sleep(seconds)
    return (busy_seconds() - busy) / seconds / os.cpu_count()


def warn_if_busy(load):
    if load > 0.05:
        print(f"WARNING: others keep {100 * load:.0f} % of the machine busy; these numbers mean little", file=sys.stderr)
