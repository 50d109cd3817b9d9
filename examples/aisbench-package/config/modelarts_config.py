"""The ModelArts configuration of the example. It is read, never executed; its keys belong to whoever runs it."""

from easydict import EasyDict as ed

bucket = "/aisbench-example"

access_config = ed(
    {
        "access_key": "",
        "secret_access_key": "",
        "server": "",
        "region_name": "",
        "project_id": "",
        "iam_endpoint": "",
        "obs_endpoint": "",
        "modelarts_endpoint": "",
    }
)

session_config = ed(
    {
        "hyperparameters": [
            {"label": "enable_modelarts", "value": "True"},
            {"label": "epoch_size", "value": "5"},
        ],
        "inputs": bucket + "/data/",
        "code_dir": bucket + "/code/",
        "boot_file": bucket + "/code/train.py",
        "job_name": "aisbench-example",
        "framework_type": "Ascend-Powered-Engine",
        "framework_version": "MindSpore-1.3-cann_5.0.2-python3.7-euleros2.8-aarch64",
        "pool_id": None,
        "train_instance_type": "modelarts.kat1.2xlarge",
        "train_instance_count": 1,
        "out_base_url": bucket + "/result/",
        "job_description_prefix": "an example",
    }
)

session_config_v2 = ed(
    {
        "parameters": [
            {"name": "enable_modelarts", "value": "True"},
            {"name": "epoch_size", "value": "5"},
        ],
        "inputs": bucket + "/data/",
        "code_dir": bucket + "/code/",
        "boot_file": bucket + "/code/train.py",
        "job_name": "aisbench-example",
        "framework_type": "Ascend-Powered-Engine",
        "framework_version": "mindspore_1.3.0-cann_5.0.2-py_3.7-euler_2.8.3-aarch64",
        "pool_id": None,
        "train_instance_type": "modelarts.kat1.2xlarge",
        "train_instance_count": 1,
        "out_base_url": bucket + "/result-v2/",
        "job_description_prefix": "an example",
    }
)
