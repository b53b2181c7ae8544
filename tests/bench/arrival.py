"""Runs the arrival benchmark: interleaved, medians, ratios. See README.md.

arrival.py BIN_DIR [--streams N] [--rate EVENTS_A_SECOND] [--seconds S] [--repeats N]
                   [--clients ours,unkept,sink,aiohttp] [--hog both|without|with] [--untimed]
                   [--requests N] [--tls]
"""

import argparse
import json
import os
import pathlib
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).parent
SOURCE_CPU, CLIENT_CPU = 0, 1
DEBIANS_PYTHON = "/usr/bin/python3"  # the one that python3-aiohttp installs for
FIGURES = {
    "CPU µs/event": lambda r: r["cpu_us_per_event"],
    "CPU share": lambda r: r["cpu_share"],
    "kernel P50 µs": lambda r: r["kernel_error_us"]["p50"],
    "kernel P99 µs": lambda r: r["kernel_error_us"]["p99"],
    "user P50 µs": lambda r: r["user_error_us"]["p50"],
    "user P99 µs": lambda r: r["user_error_us"]["p99"],
    "bytes/stream": lambda r: r["resident_bytes_per_stream"] or None,
}


def start(argv, cpu, **more):
    return subprocess.Popen(argv, preexec_fn=lambda: os.sched_setaffinity(0, {cpu}), **more)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(port, source):
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and source.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.01)
    sys.exit("the event source did not start")


def tls_in_front(port, source_port, folder):
    """Debian's stunnel4, whose CPU is not the client's."""
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
         "-nodes", "-subj", "/CN=bench", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "2",
         "-keyout", f"{folder}/key.pem", "-out", f"{folder}/cert.pem"],
        check=True, capture_output=True,
    )
    pathlib.Path(folder, "stunnel.conf").write_text(
        f"foreground = yes\npid =\ndebug = 3\ncert = {folder}/cert.pem\nkey = {folder}/key.pem\n"
        f"[bench]\naccept = 127.0.0.1:{port}\nconnect = 127.0.0.1:{source_port}\n"
    )
    return start(["stunnel4", f"{folder}/stunnel.conf"], SOURCE_CPU, stderr=subprocess.DEVNULL)


def measure(options, client, with_hog):
    port = free_port()
    events = options.rate * options.seconds if options.rate else options.events
    source = start(
        [options.bin_dir / "event_source", str(port), str(events), str(options.rate)], SOURCE_CPU
    )
    hog = tls = None
    folder = tempfile.mkdtemp()
    try:
        wait_for(port, source)
        if with_hog:
            hog = start([sys.executable, "-c", "while True: pass"], CLIENT_CPU)
        argv = (
            [DEBIANS_PYTHON, HERE / "arrival_aiohttp.py"]
            if client == "aiohttp"
            else [options.bin_dir / "arrival_client", client]
        )
        served = port
        if options.tls:
            served = free_port()
            tls = tls_in_front(served, port, folder)
            wait_for(served, tls)
        argv += [str(served), str(options.streams)]
        if client == "aiohttp":
            argv.append(str(options.requests))
        elif client != "sink":
            argv.append(f"requests={options.requests}")
            if options.rate == 0 or options.untimed:
                argv.append("untimed")
            if options.tls:
                argv.append(f"ca={folder}/cert.pem")
        run = start(
            argv, CLIENT_CPU, stdout=subprocess.PIPE, text=True
        )
        out = run.communicate(timeout=options.seconds * 20 + 120)[0]
        if run.returncode != 0:
            sys.exit(f"{client} failed: {out}")
        result = json.loads(out)
        expected = events * options.streams * options.requests
        if result["events"] != expected:
            sys.exit(f"{client} saw {result['events']} of {expected} events")
        return result
    finally:
        for process in (source, hog, tls):
            if process is not None:
                process.kill()
                process.wait()
        shutil.rmtree(folder)


def median(results, figure):
    values = [figure(result) for result in results]
    return None if None in values else statistics.median(values)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bin_dir", type=pathlib.Path)
    parser.add_argument("--streams", type=int, default=1000)
    parser.add_argument("--rate", type=int, default=50, help="events/s of a stream; 0: flat out")
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--events", type=int, default=8000, help="of a stream, when flat out")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--clients", default="ours,sink,aiohttp")
    parser.add_argument("--requests", type=int, default=1, help="of a stream, one by one")
    parser.add_argument("--tls", action="store_true", help="ours alone, through stunnel4")
    parser.add_argument("--untimed", action="store_true", help="for the memory of a stream")
    parser.add_argument("--hog", choices=["both", "without", "with"], default="both")
    options = parser.parse_args()
    clients = options.clients.split(",")
    hogs = {"both": [False, True], "without": [False], "with": [True]}[options.hog]

    results = {(client, hog): [] for hog in hogs for client in clients}
    for _ in range(options.repeats):  # interleaved: drift of the machine meets all alike
        for client, hog in results:
            results[client, hog].append(measure(options, client, hog))

    print(f"{options.streams} streams, {options.rate or 'unlimited'} events/s each; ", end="")
    print(f"medians of {options.repeats}")
    print("| client | hog | " + " | ".join(FIGURES) + " | × sink | best × sink |")
    print("|---|---|" + "---|" * (len(FIGURES) + 2))
    for (client, hog), runs in results.items():
        shown = [median(runs, figure) for figure in FIGURES.values()]
        # Of runs side by side, so that what slowed one slowed the other.
        cpu = FIGURES["CPU µs/event"]
        sink = results.get(("sink", hog), [])
        ratios = [cpu(mine) / cpu(other) for mine, other in zip(runs, sink)]
        cells = ["–" if value is None else f"{value:,.6g}" for value in shown]
        cells += [f"{statistics.median(ratios):.2f}", f"{min(ratios):.2f}"] if ratios else ["–"] * 2
        print(f"| {client} | {'yes' if hog else 'no'} | " + " | ".join(cells) + " |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
