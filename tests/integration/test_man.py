"""The man pages: nothing for groff and mandoc to say, and all that --help says is in them, as it is."""
import re
import subprocess

import pytest

from harness import BIN, run

PROGRAMS = ["pawl-worker", "pawl-enqueue", "pawl-status", "pawl-setup", "pawl-dump", "pawl-lock", "pawl-monitor"]
SECTIONS = ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT STATUS", "ENVIRONMENT", "FILES", "EXAMPLES", "SEE ALSO"]
WIDE = ["-rLL=2000n", "-rHY=0", "-dAD=l"]  # no line is broken, filled or hyphenated


def page(name):
    return BIN / "config" / f"{name}.1"


def rendered(name):
    done = subprocess.run(["groff", "-man", "-Tascii", "-P-cbou", *WIDE, page(name)], capture_output=True, text=True, check=True)
    return done.stdout


def words(text):
    return " ".join(text.split())


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("lint", [["groff", "-man", "-ww", "-z"], ["mandoc", "-T", "lint"], ["man", "--warnings", "-l", "-Z"]], ids=lambda lint: lint[0])
def test_lint(lint, name):
    done = subprocess.run([*lint, page(name)], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and done.stderr == "" and (lint[0] == "man" or done.stdout == ""), done


@pytest.mark.parametrize("name", PROGRAMS)
def test_sections(name):
    found = re.findall(r"^[A-Z].*$", rendered(name), re.M)[1:]
    assert found == [section for section in SECTIONS if section in found]
    assert set(SECTIONS) - set(found) <= {"FILES"}


@pytest.mark.parametrize("name", PROGRAMS)
def test_says_what_help_says(name):
    usage, _, rest = run(name, "--help").stdout.decode().partition("\n\n")
    text = words(rendered(name))
    about, _, rest = rest.partition("\n\n")
    options, _, rest = rest.partition("\n\nTimes carry")
    codes, _, examples = rest.partition("\n\nExit codes:\n")[2].partition("\n\nExamples:\n")
    described = re.findall(r"^  (?:(-.), |    )(--.*?)(?:  +|\n +)((?:.*)(?:\n {20,}.*)*)", options, re.M)
    assert len(described) == len(re.findall("^  .{4}--", options, re.M)) > 5
    expected = [usage.removeprefix("Usage: "), about]
    expected += [f"{letter}, {flag} {what}" if letter else f"{flag} {what}" for letter, flag, what in described]
    expected += re.findall(r"^  ((?:.*)(?:\n {4,}.*)*)", codes, re.M)
    expected += examples.splitlines()
    for one in expected:
        assert words(one) in text, one


@pytest.mark.parametrize("name", PROGRAMS)
def test_variables(name):
    needed = {"pawl-worker": ["--type", "t1"], "pawl-lock": ["n", "--", "true"]}.get(name, [])
    settings = re.findall(r"^(?:; )?([a-z-]+) ", run(name, "--print-config", *needed).stdout.decode(), re.M)
    shown = words(rendered(name)).partition(" ENVIRONMENT ")[2].partition(" the file. ")[2]
    assert shown.startswith(", ".join("PAWL_" + setting.replace("-", "_").upper() for setting in settings) + " ")
