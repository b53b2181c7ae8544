"""An ssh server of our own, for tests: Debian's sshd on a loopback port, with its own
host key, its own client key, and a `ssh` to put on PATH that knows both.

    with sshd.Sshd(folder) as server:
        server.bin, server.port         # PATH's first folder; ssh://root@127.0.0.1:PORT
"""

import os
import pathlib
import socket
import subprocess

import engine

SERVER_CONFIG = """\
ListenAddress 127.0.0.1:{port}
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/user_key.pub
PidFile none
UsePAM no
StrictModes no
PasswordAuthentication no
KbdInteractiveAuthentication no
AllowStreamLocalForwarding {forwarding}
"""
CLIENT_CONFIG = """\
Host build-7
  HostName 127.0.0.1
  Port {port}
  User root
Host *
  IdentityFile {folder}/user_key
  IdentitiesOnly yes
  IdentityAgent none
  UserKnownHostsFile {folder}/known_hosts
  GlobalKnownHostsFile /dev/null
  StrictHostKeyChecking yes
"""


class Sshd:
    def __init__(self, folder, forwarding="yes"):
        self.folder = pathlib.Path(folder)
        self.forwarding = forwarding
        self.bin = self.folder / "bin"
        self.process = None

    def __enter__(self):
        self.bin.mkdir(parents=True)
        program, self.client = engine.find_program("sshd"), engine.find_program("ssh")
        if not program or not self.client:
            raise engine.EngineError("no sshd or ssh: apt-get install openssh-server openssh-client")
        for name in ("host_key", "user_key"):
            self.make_key(name)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        values = {"folder": self.folder, "port": self.port, "forwarding": self.forwarding}
        (self.folder / "sshd_config").write_text(SERVER_CONFIG.format(**values))
        (self.folder / "ssh_config").write_text(CLIENT_CONFIG.format(**values))
        kind, key = (self.folder / "host_key.pub").read_text().split()[:2]
        (self.folder / "known_hosts").write_text(f"[127.0.0.1]:{self.port} {kind} {key}\n")
        self.write_client("exec ")
        # sshd wants the folder, which its service would make.
        pathlib.Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        with open(self.folder / "sshd.log", "wb") as log:
            self.process = subprocess.Popen(
                [program, "-D", "-e", "-f", self.folder / "sshd_config"], stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )
        engine.wait_until(self.answers, 20, lambda: f"sshd answers:\n{self.log()}")
        return self

    def __exit__(self, *_):
        if self.process:
            self.process.kill()
            self.process.wait()

    def make_key(self, name):
        (self.folder / name).unlink(missing_ok=True)
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.folder / name], check=True)

    def write_client(self, how):
        """`how` "": a script that waits for its ssh, as people's own may."""
        script = self.bin / "ssh"
        script.write_text(f'#!/bin/sh\n{how}{self.client} -F {self.folder}/ssh_config "$@"\n')
        script.chmod(0o755)

    def answers(self):
        if self.process.poll() is not None:
            raise engine.EngineError(f"sshd ended with {self.process.returncode}:\n{self.log()}")
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=5) as connection:
                return connection.recv(4) == b"SSH-"
        except OSError:
            return False

    def log(self):
        return (self.folder / "sshd.log").read_text(errors="replace")

    def environment(self):
        return {"PATH": f"{self.bin}:{os.environ['PATH']}"}
