"""Many rounds of misfortune: `python tests/chaos --rounds 100`."""

import argparse
import collections
import random
import tempfile
from pathlib import Path

from rounds import MISFORTUNES, clear, play, undisturbed, write


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, help="file to write the rounds to")
    args = parser.parse_args()
    dice, rows, wrong = random.Random(args.seed), [], 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        expected = undisturbed(folder / "undisturbed")
        for n in range(args.rounds):
            misfortune = dice.choice(list(MISFORTUNES))
            place = folder / str(n)
            place.mkdir()
            try:
                row = play(misfortune, place, expected, dice.randrange(2**32))
            except AssertionError as error:
                row, wrong = {"round": misfortune, "wrong": str(error)}, wrong + 1
            clear(place)
            rows.append(row)
            print(n + 1, row, flush=True)
    counts = collections.Counter(row["round"] for row in rows)
    print(f"{wrong} of {len(rows)} rounds went wrong;", dict(counts))
    if args.json:
        write(args.json, rows)
    raise SystemExit(bool(wrong))


if __name__ == "__main__":
    main()
