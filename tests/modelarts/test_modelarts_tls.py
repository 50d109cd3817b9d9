"""A whole training over TLS with the vendor's unchanged clients: code and data by OBS, the job by ModelArts, results by OBS."""

from __future__ import annotations

from pathlib import Path

import huaweicloudsdkmodelarts.v1 as ma
import pytest
from modelarts_scene import collected as collected
from modelarts_scene import new_client, served

from authority import certify

TRAIN = """import argparse, os
parser = argparse.ArgumentParser()
for name in ("data_url", "train_url", "epochs"):
    parser.add_argument("--" + name)
given = parser.parse_args()
number = int(open(os.path.join(given.data_url, "number.txt")).read())
with open(os.path.join(given.train_url, "model.txt"), "w") as file:
    file.write(str(number * int(given.epochs)))
print("read", os.listdir(os.environ["labels"]), "at", given.data_url)
"""


def at(url: str) -> ma.InputDataInfo:
    return ma.InputDataInfo(obs=ma.InputDataInfoObs(obs_url=url))


@pytest.mark.filterwarnings("ignore:ssl.PROTOCOL_TLS is deprecated:DeprecationWarning")  # of esdk-obs-python
def test_code_data_results_and_logs_travel_over_tls(tmp_path: Path) -> None:
    certify(tmp_path, "127.0.0.1")
    words = ("--cert", str(tmp_path / "server.pem"), "--key", str(tmp_path / "server.key"))
    with served(*words, authority=str(tmp_path / "ca.pem")) as scene:
        client = new_client(scene)
        client.put("data/number.txt", "21")
        client.put("labels/a.txt", "a")
        algorithm = {
            "parameters": [ma.Parameters(name="epochs", value="2")],
            "inputs": [
                ma.Input(name="data_url", remote=at(f"/{client.bucket}/data/")),
                ma.Input(name="labels", access_method="env", remote=at(f"obs://{client.bucket}/labels/")),
            ],
            "outputs": [ma.Output(name="train_url", remote=ma.Remote(obs=ma.RemoteObs(obs_url=f"/{client.bucket}/out/")))],
        }
        spec = {"log_export_path": ma.LogExportPath(obs_url=f"/{client.bucket}/log/")}
        made = client.create(client.job("whole", TRAIN, algorithm=algorithm, spec=spec))
        ended = client.wait(made.metadata.id)
        assert ended.status.phase == "Completed", ended.status
        assert client.get("out/model.txt") == b"42"
        log = client.get(f"log/modelarts-job-{made.metadata.id}-worker-0.log").decode()
        assert "read ['a.txt'] at " in log and "/inputs/data_url_0" in log
        assert ended.algorithm.inputs[0].remote.obs.obs_url == f"/{client.bucket}/data/"
