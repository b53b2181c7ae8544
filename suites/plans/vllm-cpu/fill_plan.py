"""Writes vllm-cpu.yaml with your folders and the digests of what lies in them.

fill_plan.py --baseline VENV --candidate VENV --model FOLDER [--out plan.yaml]
"""

import argparse
import hashlib
import pathlib
import re
import sys

PLAN = pathlib.Path(__file__).parent.parent / "vllm-cpu.yaml"
# A pinned file stands in one line: {path: "…", sha256: "…"}.
PINNED = re.compile(r'path: "([^"]+)", sha256: "[0-9a-f]{64}"')


def pin(match):
    path = pathlib.Path(match[1])
    try:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        sys.exit(f"{path}: {error.strerror}; is the virtual environment or the model complete?")
    return f'path: "{path}", sha256: "{digest}"'


def only(folder, pattern, what):
    found = sorted(folder.glob(pattern))
    if len(found) != 1:
        sys.exit(f"{folder}: {len(found)} times {pattern}, not once: {what}")
    return found[0]


def main():
    parser = argparse.ArgumentParser()
    for name in ("baseline", "candidate", "model"):
        parser.add_argument(f"--{name}", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, help="default: standard output")
    options = parser.parse_args()
    text = PLAN.read_text()
    for arm in ("baseline", "candidate"):
        venv = getattr(options, arm).absolute()
        site = only(venv, "lib/python3.*/site-packages", "is it a virtual environment?")
        record = only(site, "vllm_cpu-*.dist-info", "is vllm-cpu installed there?") / "RECORD"
        text = re.sub(f'/venvs/{arm}/site-packages/vllm_cpu-[^/"]*/RECORD', str(record), text)
        text = text.replace(f"/venvs/{arm}", str(venv))
    text = text.replace("/models/tiny-llama", str(options.model.absolute()))
    text = PINNED.sub(pin, text)
    if options.out:
        options.out.write_text(text)
    else:
        sys.stdout.write(text)


if __name__ == "__main__":
    main()
