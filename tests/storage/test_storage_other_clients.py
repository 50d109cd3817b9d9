"""What Muster wrote is what other clients read, and the other way round; s5cmd has its say in the other files."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import Muster
from s3_server import S3

# A process of its own: the client keeps sockets open, and reads the environment that Muster was given.
READ = """
import boto3, hashlib, sys
client = boto3.client("s3")
for page in client.get_paginator("list_objects_v2").paginate(Bucket=sys.argv[1]):
    for entry in page["Contents"]:
        body = client.get_object(Bucket=sys.argv[1], Key=entry["Key"])["Body"].read()
        print(hashlib.sha256(body).hexdigest(), entry["Size"], entry["Key"])
"""
WRITE = """
import boto3, sys
client = boto3.client("s3")
client.upload_file(sys.argv[2], sys.argv[1], "back/large.bin")
client.put_object(Bucket=sys.argv[1], Key="back/with space/\u6570\u636e.txt", Body=b"small")
"""


def boto3(s3: S3, program: str, *words: str) -> str:
    env = {**os.environ, **s3.env}
    done = subprocess.run([sys.executable, "-c", program, *words], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def line(path: Path, key: str) -> str:
    data = path.read_bytes()
    return f"{hashlib.sha256(data).hexdigest()} {len(data)} {key}"


@pytest.mark.long
def test_boto3_and_muster_read_what_the_other_wrote(muster: Muster, s3: S3, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "with space").mkdir(parents=True)
    (tree / "with space" / "数据.txt").write_text("small")
    (tree / "large.bin").write_bytes(os.urandom(9 << 20))  # in parts
    (tree / "empty").touch()
    bucket = s3.bucket()
    assert muster("cp", tree, f"obs://{bucket}/there", **s3.env).returncode == 0
    expected = [line(path, f"there/{path.relative_to(tree)}") for path in tree.rglob("*") if path.is_file()]
    assert sorted(boto3(s3, READ, bucket).splitlines()) == sorted(expected)

    boto3(s3, WRITE, bucket, str(tree / "large.bin"))
    assert muster("cp", f"s3://{bucket}/back", tmp_path / "back", **s3.env).returncode == 0
    (tree / "empty").unlink()
    for path in (path for path in tree.rglob("*") if path.is_file()):
        assert (tmp_path / "back" / path.relative_to(tree)).read_bytes() == path.read_bytes()
