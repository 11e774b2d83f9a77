"""Build the book with Snakemake: one build of a folder at a time, whatever the last one died of.

Usage: python notebooks/build.py PROFILE. Snakemake's own lock outlives a build that was killed, so it is off; the lock here is the
operating system's and goes with the process that holds it.
"""

import fcntl
import os
import sys
from pathlib import Path


def build(profile: str) -> None:
    """Become Snakemake, unless another build runs in this folder."""
    if not profile:
        sys.exit("PROFILE is empty: give quick, default or paper, or leave it out")
    folder = Path("build")
    folder.mkdir(exist_ok=True)
    lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        sys.exit("another build of this folder is running: wait for it, or stop it")
    os.set_inheritable(lock, True)  # Snakemake, which takes this process over, keeps it to its end
    command = ["-m", "snakemake", "--nolock", "--rerun-incomplete", "--cores", "all", "--quiet", "progress", "rules"]
    os.execv(sys.executable, [sys.executable, *command, "--config", f"profile={profile}"])


if __name__ == "__main__":
    build(sys.argv[1] if len(sys.argv) > 1 else "")
