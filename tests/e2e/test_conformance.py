"""MCP's official conformance suite, every scenario of it, against the HTTP listener.

The suite is made for a server with tools, resources and prompts of its own. Cases that need such
features, which we do not have, are left out below, each with its reason. A case that begins to
pass, and a scenario that is in neither list, is a failure: the lists are to be true.
"""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.claude import program
from mcp_clients import open_listener

RELEASED = "HANDOFFD_TEST_CONFORMANCE"
NEXT = "HANDOFFD_TEST_CONFORMANCE_NEXT"

FIXTURE = "it calls a tool that only the suite's own server has"
NO_RESOURCES = "we have no resources"
NO_PROMPTS = "we have no prompts"
NO_COMPLETION = "there is nothing to complete"
NO_LOGGING = "we send no log to a client"
NO_INPUT = "we ask a client for nothing: no sampling, elicitation or roots"
NO_TASKS = "an extension that we do not offer: no call of ours takes long"
NO_SESSION = "we keep no session, so there is no stream to resume; it checks nothing then"

# Of the released suite, for the protocols up to 2025-11-25.
PASSED = {
    "server-initialize",
    "ping",
    "tools-list",
    "tools-call-error",
    "dns-rebinding-protection",
    # Any text will do for it, so that of our refusal does: the tool is not one of ours.
    "tools-call-simple-text",
}
LEFT_OUT = {
    "logging-set-level": NO_LOGGING,
    "completion-complete": NO_COMPLETION,
    "tools-call-image": FIXTURE,
    "tools-call-audio": FIXTURE,
    "tools-call-embedded-resource": FIXTURE,
    "tools-call-mixed-content": FIXTURE,
    "tools-call-with-logging": NO_LOGGING,
    "tools-call-with-progress": FIXTURE,
    "tools-call-sampling": NO_INPUT,
    "tools-call-elicitation": NO_INPUT,
    "json-schema-2020-12": FIXTURE,
    "elicitation-sep1034-defaults": NO_INPUT,
    "elicitation-sep1330-enums": NO_INPUT,
    "server-sse-polling": NO_SESSION,
    "server-sse-multiple-streams": NO_SESSION,
    "resources-list": NO_RESOURCES,
    "resources-read-text": NO_RESOURCES,
    "resources-read-binary": NO_RESOURCES,
    "resources-templates-read": NO_RESOURCES,
    "resources-subscribe": NO_RESOURCES,
    "resources-unsubscribe": NO_RESOURCES,
    "prompts-list": NO_PROMPTS,
    "prompts-get-simple": NO_PROMPTS,
    "prompts-get-with-args": NO_PROMPTS,
    "prompts-get-embedded-resource": NO_PROMPTS,
    "prompts-get-with-image": NO_PROMPTS,
}

# Of the coming suite, which knows the requirements of the protocol of 2026-07-28.
PASSED_2026 = {
    "tools-list",
    "tools-call-simple-text",
    "tools-call-error",
    "dns-rebinding-protection",
    "http-header-validation",
    "server-sse-multiple-streams",
    # Answered with an error, as they may be: there is no such resource, and no tool that asks.
    "sep-2164-resource-not-found",
    "input-required-result-missing-input-response",
    "input-required-result-unsupported-methods",
    "input-required-result-ignore-extra-params",
    "input-required-result-validate-input",
}
LEFT_OUT_2026 = {
    "completion-complete": NO_COMPLETION,
    "tools-call-image": FIXTURE,
    "tools-call-audio": FIXTURE,
    "tools-call-embedded-resource": FIXTURE,
    "tools-call-mixed-content": FIXTURE,
    "tools-call-with-progress": FIXTURE,
    "json-schema-2020-12": FIXTURE,
    "http-custom-header-server-validation": "none of our tools' arguments is sent in a header",
    "resources-list": NO_RESOURCES,
    "resources-read-text": NO_RESOURCES,
    "resources-read-binary": NO_RESOURCES,
    "resources-templates-read": NO_RESOURCES,
    "prompts-list": NO_PROMPTS,
    "prompts-get-simple": NO_PROMPTS,
    "prompts-get-with-args": NO_PROMPTS,
    "prompts-get-embedded-resource": NO_PROMPTS,
    "prompts-get-with-image": NO_PROMPTS,
    "input-required-result-basic-elicitation": NO_INPUT,
    "input-required-result-basic-sampling": NO_INPUT,
    "input-required-result-basic-list-roots": NO_INPUT,
    "input-required-result-request-state": NO_INPUT,
    "input-required-result-multiple-input-requests": NO_INPUT,
    "input-required-result-multi-round": NO_INPUT,
    "input-required-result-non-tool-request": NO_PROMPTS,
    "input-required-result-result-type": NO_INPUT,
    "input-required-result-tampered-state": NO_INPUT,
    "input-required-result-capability-check": NO_INPUT,
    "tasks-lifecycle": NO_TASKS,
    "tasks-capability-negotiation": NO_TASKS,
    "tasks-wire-fields": NO_TASKS,
    "tasks-request-state-removal": NO_TASKS,
    "tasks-mrtr-input": NO_TASKS,
    "tasks-request-headers": NO_TASKS,
    "tasks-dispatch-and-envelope": NO_TASKS,
    "tasks-status-notifications": NO_TASKS,
    "tasks-required-task-error": NO_TASKS,
    "tasks-mrtr-composition": NO_TASKS,
}
# Scenarios that pass but for these checks.
PARTLY_2026 = {
    "server-stateless": {
        "sep-2575-server-rejects-undeclared-capability": FIXTURE,
        "sep-2575-missing-capability-http-400": FIXTURE,
    },
    "caching": {
        "sep-2549-prompts-list-caching-hints": NO_PROMPTS,
        "sep-2549-resources-list-caching-hints": NO_RESOURCES,
        "sep-2549-resources-templates-list-caching-hints": NO_RESOURCES,
    },
}


@pytest.fixture(scope="module")
def url(tmp_path_factory) -> Iterator[str]:
    """The address of an open HTTP listener, with the secret path: the suite can send no token."""
    program(RELEASED)
    with open_listener("http", tmp_path_factory.mktemp("conformance")) as (_sandbox, listener):
        yield listener.secret_url


def run(suite: Path, url: str, place: Path, *words: str) -> dict[str, list[dict]]:
    """Run a suite, and return the checks of each scenario."""
    done = subprocess.run(
        [suite, "server", "--url", url, "--output-dir", place, *words],
        capture_output=True, text=True, timeout=100, stdin=subprocess.DEVNULL, check=False,
    )  # fmt: skip
    assert "=== SUMMARY ===" in done.stdout, done.stdout + done.stderr
    # The names are server-SCENARIO-TIME, and a time has 24 characters.
    found = {path.parent.name[len("server-") : -25]: path for path in place.glob("*/checks.json")}
    return {scenario: json.loads(path.read_text()) for scenario, path in found.items()}


def failed(checks: list[dict]) -> set[str]:
    return {check["id"] for check in checks if check["status"] == "FAILURE"}


def passed(checks: list[dict]) -> bool:
    """Return True if some check succeeded, and none failed."""
    return any(check["status"] == "SUCCESS" for check in checks) and not failed(checks)


def test_released_suite(url, tmp_path):
    """The released suite passes, except for the cases made for its own server."""
    suite = program(RELEASED)
    found = run(suite, url, tmp_path, "--suite", "all")

    assert PASSED | LEFT_OUT.keys() == found.keys()
    assert PASSED == {scenario for scenario in found if passed(found[scenario])}


def test_suite_of_2026(url, tmp_path):
    """The requirements of the protocol of 2026-07-28 are met, too, check by check."""
    suite = program(NEXT)
    found = run(suite, url, tmp_path, "--requirements", "2026-07-28")

    assert PASSED_2026 | LEFT_OUT_2026.keys() | PARTLY_2026.keys() == found.keys()
    assert PASSED_2026 == {scenario for scenario in found if passed(found[scenario])}
    for scenario, left_out in PARTLY_2026.items():
        assert left_out.keys() == failed(found[scenario])


@pytest.mark.parametrize("missing", [PASSED & LEFT_OUT.keys(), PASSED_2026 & LEFT_OUT_2026.keys()])
def test_nothing_is_in_two_lists(missing):
    """A scenario is either expected to pass or left out."""
    assert set() == missing
