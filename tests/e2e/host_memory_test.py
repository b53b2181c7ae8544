"""What a server leaves in the host's memory stops the next boot, by its name."""

import os
import pathlib
import unittest

from harness import INFRASTRUCTURE, SERVER, Experiment, sha256

LEAKY = """\
#!/bin/sh
# The reference server, which leaves 80 MiB in /dev/shm the first time.
if /bin/mkdir {once} 2>/dev/null; then
  /usr/bin/head -c 83886080 /dev/zero > {left}
fi
exec {server} "$@"
"""


class HostMemory(Experiment):
    def setUp(self):
        super().setUp()
        self.left = pathlib.Path(f"/dev/shm/{self.folder.name}-left")
        self.addCleanup(self.left.unlink, missing_ok=True)
        leaky = self.folder / "leaky"
        leaky.write_text(LEAKY.format(once=self.folder / "once", left=self.left, server=SERVER))
        leaky.chmod(0o755)
        self.write_plan(server=leaky, server_sha256=sha256(leaky))

    def test_shared_memory_that_nobody_holds_is_named_before_the_next_boot(self):
        said = self.capture(expect=INFRASTRUCTURE).stderr
        self.assertIn(
            f"boot 2 (candidate): shared memory that no process holds was left behind: {self.left} "
            f"of user {os.getuid()} (80 MiB); remove it with rm or ipcrm -m, and run the same "
            "command again", said)
        counted, _ = self.rounds()
        self.assertEqual({arm for _, arm, _ in counted}, {"baseline"})

        self.left.unlink()
        self.capture()
        self.assert_every_round_once()


if __name__ == "__main__":
    unittest.main()
