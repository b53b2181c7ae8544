"""A Slurm of the tests' own: munged, slurmctld and slurmd as one node on loopback.

Needs Debian's slurm-wlm and munge, and root, since slurmd runs jobs as their users.
Everything it writes is in one folder.
"""

import contextlib
import os
import pathlib
import socket
import subprocess
import time

CONFIGURATION = """\
ClusterName=one
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
CryptoType=crypto/munge
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
ReturnToService=2
SlurmctldPort={controller}
SlurmdPort={node}
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmdSpoolDir={folder}/spool
StateSaveLocation={folder}/state
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
KillWait=5
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} State=UNKNOWN
PartitionName=main Nodes={host} Default=YES MaxTime=INFINITE State=UP OverSubscribe=YES
"""


def free_ports(count):
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def query(configuration, *command):
    return subprocess.run(command, env={**os.environ, "SLURM_CONF": str(configuration)}, capture_output=True,
                          text=True, timeout=60)


@contextlib.contextmanager
def slurm(folder):
    """The path of its slurm.conf, while it runs."""
    folder = pathlib.Path(folder)
    for name in ("spool", "state"):
        (folder / name).mkdir()
    controller, node = free_ports(2)
    configuration = folder / "slurm.conf"
    configuration.write_text(CONFIGURATION.format(
        host=socket.gethostname().split(".")[0], folder=folder, controller=controller, node=node, cpus=os.cpu_count()))
    key = folder / "munge.key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o400)
    environment = {**os.environ, "SLURM_CONF": str(configuration)}
    programs = [
        ["munged", "--foreground", "--force", f"--key-file={key}", f"--socket={folder}/munge.sock",
         f"--pid-file={folder}/munge.pid", f"--log-file={folder}/munge.log", f"--seed-file={folder}/munge.seed"],
        ["slurmctld", "-D"],
        ["slurmd", "-D"],
    ]
    with contextlib.ExitStack() as stack:
        for program in programs:
            process = subprocess.Popen(program, env=environment, stdout=subprocess.DEVNULL,
                                       stderr=subprocess.DEVNULL)
            stack.callback(process.wait)
            stack.callback(process.terminate)
            wait_for(process, folder / "munge.sock" if program[0] == "munged" else None)
        deadline = time.monotonic() + 60
        while "idle" not in query(configuration, "sinfo", "--noheader", "--format=%T").stdout:
            if time.monotonic() > deadline:
                raise AssertionError("the node is not idle within 60 s:\n" + (folder / "slurmctld.log").read_text())
            time.sleep(0.1)  # between two looks; the node's state decides
        yield configuration


def wait_for(process, path):
    deadline = time.monotonic() + 30
    while path is not None and not path.exists():
        if process.poll() is not None or time.monotonic() > deadline:
            raise AssertionError(f"{process.args[0]} did not start")
        time.sleep(0.02)
