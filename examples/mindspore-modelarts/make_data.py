"""Writes the data set of this example: lines `x,y` in train/ and eval/, as many files as a real one would have."""

import random
import sys
from pathlib import Path


def write(file: Path, lines: int, chance: random.Random) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("w") as stream:
        for _ in range(lines):
            stream.write(f"{chance.uniform(0.2, 1):.4f},{chance.randrange(10)}\n")


def main() -> None:
    folder, chance = Path(sys.argv[1]), random.Random(1)
    for number in range(1, 6):
        write(folder / "train" / f"batch_{number}.csv", 8, chance)
    write(folder / "eval" / "batch.csv", 8, chance)


if __name__ == "__main__":
    main()
