#!/usr/bin/env python3
"""Reads the reports of runs of cargo-nextest.

    scripts/junit.py slowest REPORT..  prints the ten slowest tests, with their seconds
    scripts/junit.py again REPORT..    prints the failed tests that may be tried once more; exits with 1 if a failure decides

A failed test may be tried once more only if it said that something was too slow, and nothing else (see
tests/cluster/src/time.rs). Every other failure decides: a repeated ID, a missing row, a wrong order, a wrong message, a
crash, a test that cargo-nextest had to end because it waited without a limit, and whatever else a test checks.
"""

import re
import sys
import xml.etree.ElementTree as xml

# More than this many failures are not bad luck.
MOST = 5

PANIC = re.compile(r"panicked at [^\n]+:\n([^\n]*)")
# What is reported when another thread of the test has panicked, which has reported its own reason.
FOLLOWS = re.compile(r"a scoped thread panicked|called `Result::unwrap\(\)` on an `Err` value: (Any \{ \.\. \}|PoisonError)")


def is_about_time(case):
    failure = case.find("failure")
    text = "\n".join(element.text or "" for element in case.iter())
    reasons = [reason.strip() for reason in PANIC.findall(text)]
    reasons = [reason for reason in reasons if not FOLLOWS.match(reason)]
    panicked = failure is not None and failure.get("type", "") == "test failure with exit code 101"
    return panicked and bool(reasons) and all(reason.startswith("too slow: ") for reason in reasons)


def main(command, reports):
    cases = [case for report in reports for case in xml.parse(report).getroot().iter("testcase")]
    if command == "slowest":
        cases.sort(key=lambda case: -float(case.get("time")))
        for case in cases[:10]:
            print(f"{float(case.get('time')):6.1f}  {case.get('name')}")
        return 0
    failed = [case for case in cases if case.find("failure") is not None or case.find("error") is not None]
    decide = [case.get("name") for case in failed if not is_about_time(case)]
    if decide or not failed or len(failed) > MOST:
        for name in decide:
            print(f"not tried again, because the failure is not about time: {name}", file=sys.stderr)
        if len(failed) > MOST:
            print(f"not tried again, because more than {MOST} tests failed", file=sys.stderr)
        return 1
    for case in failed:
        print(case.get("name"))
    return 0


if __name__ == "__main__":
    if len(sys.argv) < 3 or sys.argv[1] not in ("slowest", "again"):
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1], sys.argv[2:]))
