#!/usr/bin/env python3
"""How quick the disk store is beside what fio reads from the same disk.

    store_speed.py --folder A_FOLDER_ON_THAT_DISK [--gib 10] [--rounds 3] [--fio /usr/bin/fio] [--json OUT.json]

By turns: the program (bench/store, built with -DDEEPINFER_BENCH=ON) writes blocks of a 0.5B model and reads them back from the page
cache (if that has room for all), then opens the folder again and reads all from the disk; fio reads a file of the same size with the
settings below. What is to come from the disk is dropped from the page cache before. Files are deleted at the end.
"""

import argparse
import json
import os
import shutil
import statistics
import tempfile

import measuring

FIO = {  # the same reads, asked for in two ways
    "fio, io_uring, 32 reads at a time, no page cache": ["--ioengine=io_uring", "--iodepth=32", "--direct=1"],
    "fio, one read at a time, page cache": ["--ioengine=psync", "--iodepth=1", "--direct=0"],
}
OURS = {
    "write, durable": "write_bytes_per_second",
    "read from the disk": "read_bytes_per_second",
    "read from the page cache": "read_cached_bytes_per_second",
}


def fio_read(fio, file, gib, settings):
    command = [fio, "--name=read", f"--filename={file}", f"--size={int(gib * 2**30)}", "--rw=read", "--bs=1M", "--invalidate=1",
               "--output-format=json", *settings]
    done = measuring.run(command)
    return measuring.results(done, fio)["jobs"][0]["read"]["bw_bytes"], done.other_load


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", required=True, type=measuring.writable_folder)
    parser.add_argument("--program", default="build/release/bench/store_speed", type=measuring.program_path)
    parser.add_argument("--fio", default=shutil.which("fio") or "fio", type=measuring.program_path)
    parser.add_argument("--gib", type=float, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=measuring.writable_path)
    args = parser.parse_args()
    speeds, opened, load = {}, [], 0.0
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        file = os.path.join(folder, "fio.dat")
        for _ in range(args.rounds):
            with tempfile.TemporaryDirectory(dir=folder) as store:
                done = measuring.run([args.program, store, "--gib", str(args.gib)])
            ours = measuring.results(done, args.program)
            load = max(load, done.other_load)
            opened.append(ours["open_seconds"])
            for name, key in OURS.items():
                speeds.setdefault(name, []).append(ours[key])
            for name, settings in FIO.items():
                speed, others = fio_read(args.fio, file, args.gib, settings)
                load = max(load, others)
                speeds.setdefault(name, []).append(speed)
    best = max(statistics.median(speeds[name]) for name in FIO)
    for name, values in speeds.items():
        median = statistics.median(values)
        print(f"{name:50} {median / 1e6:8.0f} MB/s   {min(values) / 1e6:.0f} to {max(values) / 1e6:.0f}   {median / best:5.0%} of fio's best")
    print(f"opening {args.gib:g} GiB{'':34} {statistics.median(opened) * 1e3:8.0f} ms     "
          f"{min(opened) * 1e3:.0f} to {max(opened) * 1e3:.0f}")
    measuring.warn_if_busy(load)
    if args.json:
        with open(args.json, "w", encoding="utf-8") as out:
            json.dump({"gib": args.gib, "bytes_per_second": speeds, "open_seconds": opened}, out)


if __name__ == "__main__":
    measuring.run_main(main)
