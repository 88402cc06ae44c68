#!/usr/bin/env python3
"""Attacks a kvasir program, and says what it withstood.

    run.py PROGRAM [--quick | --long] [--measured | --unmeasured] [NAME…]

Without NAMEs: all quick attacks; with --long all of them, larger. A NAME is a part of an attack's name. --measured are those that
measure time or memory, and want a machine to themselves.
"""
import argparse
import signal
import sys
import time

from attack import Failure, Lab
import cache_words
import chaos
import fairness
import files
import inputs
import isolation
import logs
import memory
import sequences
import soak
import sweep
import wire

TABLES = [inputs, sweep, files, fairness, isolation, memory, wire, logs, cache_words, sequences, chaos, soak]
ATTACKS = [attack for table in TABLES for attack in table.ATTACKS]


def out_of_time(*_):
    raise Failure("it took too long")


def verdict_of(attack, lab):
    signal.signal(signal.SIGALRM, out_of_time)
    signal.setitimer(signal.ITIMER_REAL, attack.seconds)
    try:
        return "held", attack.run(lab)
    except Exception as error:  # whatever a dying server makes of a client is a failure of the server
        return "FAILED", f"{type(error).__name__}: {error}" if not isinstance(error, Failure) else str(error)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def main():
    arguments = argparse.ArgumentParser(description="Attacks a kvasir program.")
    arguments.add_argument("program")
    arguments.add_argument("--quick", action="store_true", help="the quick ones (default)")
    arguments.add_argument("--long", action="store_true", help="all of them, and larger")
    arguments.add_argument("--measured", action="store_true", help="only what measures time or memory")
    arguments.add_argument("--unmeasured", action="store_true", help="only what does not")
    arguments.add_argument("--list", action="store_true", help="only say their names")
    arguments.add_argument("names", nargs="*")
    given = arguments.parse_intermixed_args()
    chosen = [a for a in ATTACKS if any(name in a.name for name in given.names)] if given.names else \
             [a for a in ATTACKS if given.long or a.quick]
    chosen = [a for a in chosen if not (given.unmeasured if a.measures else given.measured)]
    if given.list:
        print("\n".join(attack.name for attack in chosen))
        return 0
    lab, failed, width = Lab(given.program, given.long), 0, max((len(a.name) for a in chosen), default=0)
    for attack in chosen:
        begin = time.monotonic()
        verdict, said = verdict_of(attack, lab)
        failed += verdict != "held"
        said = " ".join((said or "").split())[:400]
        print(f"{attack.name:<{width}}  {verdict:<6}  {time.monotonic() - begin:6.1f} s  {said}", flush=True)
    print(f"{len(chosen) - failed} of {len(chosen)} held")
    return 1 if failed or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())
