"""Running another program: bounded time and output, and no process left behind."""

import os
import sys
import threading
import time

import pytest

from conftest import wait_for
from handoffd.links import program

HERE = dict(os.environ)
TOKEN = "ghp_" + "b7Xq2LmZ9rTn4KdVw8YhPc3sJf6GaEu1oBiR"


def run(source, seconds=10.0, **options):
    """Run a piece of Python."""
    words = [sys.executable, "-I", "-S", "-c", source]
    return program.run(words, time.monotonic() + seconds, HERE, **options)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    with open(f"/proc/{pid}/stat") as stream:
        return stream.read().rpartition(")")[2].split()[0] != "Z"


def test_both_streams_and_the_code_are_told():
    """A program's output, its error output and its exit code are returned."""
    said = run("import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)")

    assert program.ProgramOutput(3, b"out\n", b"err\n", whole=True) == said


def test_input_is_empty():
    """A program that reads its input gets the end of file."""
    assert b"''\n" == run("import sys; print(repr(sys.stdin.read()))").output


def test_a_program_that_is_late_is_ended_with_its_children(tmp_path, record_property):
    """After the deadline the program and its children are ended."""
    pids = tmp_path / "pids"
    source = (
        "import os, subprocess, sys, time\n"
        "child = subprocess.Popen(['sleep', '600'])\n"
        f"open({str(pids)!r}, 'w').write(f'{{os.getpid()}} {{child.pid}}')\n"
        "time.sleep(600)"
    )
    started = time.monotonic()
    with pytest.raises(program.ProgramError, match="not done in time"):
        run(source, seconds=3.0)

    assert time.monotonic() - started < 60, "not as long as it sleeps"
    started_ones = [int(pid) for pid in pids.read_text().split()]
    wait_for(lambda: not any(map(is_alive, started_ones)))
    assert not program._running
    gone = sum(not is_alive(pid) for pid in started_ones)
    record_property("figure", f"{gone} of {len(started_ones)} processes gone")


def test_a_child_that_keeps_the_output_is_ended():
    """A program that leaves a child behind is answered at once, and the child is ended."""
    source = (
        "import subprocess, sys\n"
        "child = subprocess.Popen(['sleep', '600'])\n"
        "print(child.pid, flush=True)"
    )
    started = time.monotonic()
    said = run(source)

    assert time.monotonic() - started < 60, "not as long as it sleeps"
    assert 0 == said.code
    wait_for(lambda: not is_alive(int(said.output)))


def test_output_is_bounded():
    """A program with too much output is ended, and the output so far is returned."""
    said = run("while True: print('x' * 1000)", most_bytes=5000)

    assert (5000, False) == (len(said.output), said.whole)


def test_complaints_are_bounded():
    """Endless error output is read, so that the program does not block, and cut."""
    said = run("import sys; sys.stderr.write('x' * 3_000_000); print('done')")

    assert (b"done\n", program.COMPLAINT_MAX_BYTES) == (said.output, len(said.complaint))


@pytest.mark.parametrize("before", [0, program.COMPLAINT_MAX_BYTES - 20])
def test_secrets_in_complaints_are_masked(before):
    """A token in error output is masked, even if the output is cut within it."""
    said = run(f"import sys; sys.stderr.write('x' * {before} + ' {TOKEN} ' + 'y' * 9999)")

    assert TOKEN[:12].encode() not in said.complaint
    assert b"[redacted:" in said.complaint
    assert len(said.complaint) <= program.COMPLAINT_MAX_BYTES


def test_missing(tmp_path):
    """A path without an executable program is reported as missing."""
    (tmp_path / "text").write_text("no program")
    for path in (tmp_path / "nowhere", tmp_path / "text", tmp_path):
        with pytest.raises(program.ProgramError) as caught:
            program.run([str(path)], time.monotonic() + 1, HERE)
        assert caught.value.missing


def test_end_all():
    """When the daemon ends, every program that it waits for is ended."""
    found = []
    waiting = threading.Thread(target=lambda: found.append(run("import time; time.sleep(600)")))
    waiting.start()
    wait_for(lambda: program._running)
    program.end_all()
    waiting.join(60)

    assert [-9] == [said.code for said in found]
