"""Writes the points that the workload learns from: python make_data.py FOLDER"""

import random
import sys
from pathlib import Path


def main(folder: Path) -> None:
    chance = random.Random(4)
    for name, count in (("train", 2000), ("val", 400)):
        (folder / name).mkdir(parents=True, exist_ok=True)
        rows = []
        for _ in range(count):
            cloud = chance.randrange(2)
            rows.append(f"{chance.gauss(3 * cloud, 1):.3f},{chance.gauss(3 * cloud, 1):.3f},{cloud}")
        (folder / name / "points.csv").write_text("\n".join(rows) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
