#!/usr/bin/env python3
"""Behind a modelled medium: is throughput what the requests in flight and the medium's latency say, and what does waiting cost?

usage: bench/medium.py --programs DIR [--over nfs|iscsi] [--medium SPEC] [--depths 1,8,…] [--seconds N] [--record FILE]

Starts `millrace serve --medium SPEC` on a file, or a LUN, of 64 MiB and reads 8 KiB at random with so many calls in flight on one
connection, each depth once forwards and once backwards. For each depth it prints the reads a second, what the depth over
the model's own mean latency would give, their ratio, and the CPU spent on waiting (the thread that holds replies, less what
it spends on sending them), of one core and per reply. Where the ratio falls below 0.95 the CPUs no longer carry it; the CPU of filer and client is printed beside.
"""

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", required=True, help="folder of the built millrace")
    parser.add_argument("--over", choices=("nfs", "iscsi"), default="nfs", help="a file by NFS, or a LUN (default nfs)")
    parser.add_argument("--medium", default="spindles=80,service_ms=8,placement=any")
    parser.add_argument("--depths", default="1,8,20,40,80,160")
    parser.add_argument("--seconds", default="4")
    parser.add_argument("--record", help="write every figure to this file")
    return parser.parse_args()


class Filer:
    """A running filer; `bench` is the command that loads it, without depth and seconds."""

    def __init__(self, millrace, folder, medium, over):
        export = os.path.join(folder, "export")
        os.mkdir(export)
        with open(os.path.join(export, "f"), "wb") as file:
            file.write(os.urandom(1 << 20) * 64)
        self.admin = os.path.join(folder, "admin.sock")
        command = [millrace, "serve", export, "--state", os.path.join(folder, "state"), "--admin", self.admin, "--json"]
        command += ["--listen", "127.0.0.1:0", "--no-root-squash", "--medium", medium]
        command += ["--iscsi", "127.0.0.1:0"] if over == "iscsi" else []
        self.child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        ready = json.loads(self.child.stdout.readline())
        if over == "nfs":
            self.bench = [millrace, "nfs", "bench", ready["nfs"].replace("/vol?", "/vol/f?")]
        else:
            create = [millrace, "lun", "create", "vol/db", "--size", "64MiB", "--lun", "0", "--admin", self.admin]
            subprocess.run(create, check=True, stdout=subprocess.DEVNULL)
            self.bench = [millrace, "iscsi", "bench", ready["iscsi"] + "/0"]

    def counters(self):
        with socket.socket(socket.AF_UNIX) as admin_socket:
            admin_socket.connect(self.admin)
            admin_socket.sendall(b'{"op":"stats"}\n')
            return json.loads(admin_socket.makefile().readline())["medium"]

    def cpu_s(self):
        """CPU of the process, threads that have ended included (proc(5): fields 14 and 15 of stat)."""
        with open(f"/proc/{self.child.pid}/stat") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self):
        self.child.terminate()
        self.child.wait(20)


def measure(filer, depth, seconds):
    before, cpu = filer.counters(), filer.cpu_s()
    command = [*filer.bench, "--depth", str(depth), "--seconds", seconds, "--json"]
    bench = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    after = filer.counters()
    reads = after["reads"] - before["reads"]
    model_ms = (after["read_ns"] - before["read_ns"]) / reads / 1e6
    expected = depth / model_ms * 1e3
    return {
        "depth": depth,
        "iops": bench["iops"],
        "model_ms": model_ms,
        "expected_iops": expected,
        "ratio": bench["iops"] / expected,
        "p50_us": bench["p50_us"],
        "p99_us": bench["p99_us"],
        "waiting_cpu_percent": (after["waiting_cpu_ns"] - before["waiting_cpu_ns"]) / 1e7 / bench["seconds"],
        "waiting_cpu_us": (after["waiting_cpu_ns"] - before["waiting_cpu_ns"]) / 1e3 / reads,
        "filer_cpu_percent": (filer.cpu_s() - cpu) / bench["seconds"] * 100,
        "client_cpu_percent": bench["client_cpu_us_per_op"] * bench["iops"] / 1e4,
    }


def main():
    given = arguments()
    millrace = os.path.join(given.programs, "millrace")
    depths = [int(depth) for depth in given.depths.split(",")]
    rows = []
    with tempfile.TemporaryDirectory(prefix="millrace-medium-") as folder:
        filer = Filer(millrace, folder, given.medium, given.over)
        try:
            print(f"{given.over} on medium {given.medium}; load of the host {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs")
            print("depth     IOPS  expected  ratio  model ms  p50 ms  p99 ms  waiting CPU      filer  client")
            for depth in depths + depths[::-1]:
                row = measure(filer, depth, given.seconds)
                rows.append(row)
                print(
                    "{depth:5} {iops:8.0f}  {expected_iops:8.0f}  {ratio:5.3f}  {model_ms:8.2f}".format(**row),
                    "{:7.2f} {:7.2f}".format(row["p50_us"] / 1e3, row["p99_us"] / 1e3),
                    "{waiting_cpu_percent:5.1f} % {waiting_cpu_us:4.1f} us {filer_cpu_percent:5.0f} % {client_cpu_percent:5.0f} %".format(
                        **row
                    ),
                    flush=True,
                )
        finally:
            filer.stop()
    if given.record:
        with open(given.record, "w") as file:
            json.dump({"over": given.over, "medium": given.medium, "rows": rows}, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
