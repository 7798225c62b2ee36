"""Many damaged files, by hand: `python tests/security --seconds 600`."""

import argparse
import shutil
import tempfile
import time
from collections import Counter
from pathlib import Path

from fuzz import KINDS, child

BATCH = 50


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kind", choices=KINDS, action="append", help="[default: all]")
    args = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="clbench-fuzz-"))
    began, counts, findings, peak, batch = time.monotonic(), Counter[str](), 0, 0, 0
    while time.monotonic() - began < args.seconds:
        for kind in args.kind or KINDS:
            cases = range(batch * BATCH, (batch + 1) * BATCH)
            place = folder / f"{kind}-{batch}"
            place.mkdir()
            result = child(kind, args.seed, cases, place)
            if not result["found"]:
                shutil.rmtree(place)
            counts[kind] += result["cases"]
            peak = max(peak, result["peak"])
            findings += len(result["found"])
            for line in result["found"]:
                print(line, flush=True)
        batch += 1
    took = time.monotonic() - began
    print(f"{dict(counts)} cases in {took:.0f} s, {findings} findings, {peak / 1e9:.2f} GB.")
    print(f"Files of findings: {folder}")
    raise SystemExit(bool(findings))


if __name__ == "__main__":
    main()
