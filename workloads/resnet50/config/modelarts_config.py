"""The ModelArts configuration of ResNet-50. It is read, never executed; its keys belong to whoever runs it."""

from easydict import EasyDict as ed

bucket = "/aisbench"

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
            {"label": "config_path", "value": "resnet50_imagenet2012_Boost_config.yaml"},
            {"label": "enable_modelarts", "value": "True"},
            {"label": "run_distribute", "value": "True"},
            {"label": "epoch_size", "value": "90"},
            {"label": "device_num", "value": "8"},
            {"label": "save_checkpoint", "value": "False"},
            {"label": "save_checkpoint_epochs", "value": "90"},
        ],
        "inputs": bucket + "/imagenet/",
        "code_dir": bucket + "/resnet50/",
        "boot_file": bucket + "/resnet50/train.py",
        "job_name": "aisbench-resnet50",
        "framework_type": "Ascend-Powered-Engine",
        # The manual's image, which has no PyTorch: name one that has it where ModelArts itself is to run this.
        "framework_version": "MindSpore-1.3-cann_5.0.2-python3.7-euleros2.8-aarch64",
        "pool_id": None,
        "train_instance_type": "modelarts.kat1.8xlarge",
        "train_instance_count": 1,
        "out_base_url": bucket + "/result/",
        "job_description_prefix": "resnet50",
    }
)

session_config_v2 = ed(
    {
        "parameters": [
            {"name": "config_path", "value": "resnet50_imagenet2012_Boost_config.yaml"},
            {"name": "enable_modelarts", "value": "True"},
            {"name": "run_distribute", "value": "True"},
            {"name": "epoch_size", "value": "90"},
            {"name": "device_num", "value": "8"},
            {"name": "save_checkpoint", "value": "False"},
            {"name": "save_checkpoint_epochs", "value": "90"},
        ],
        "inputs": bucket + "/imagenet/",
        "code_dir": bucket + "/resnet50/",
        "boot_file": bucket + "/resnet50/train.py",
        "job_name": "aisbench-resnet50",
        "framework_type": "Ascend-Powered-Engine",
        # An image with PyTorch, but too old a one for this code: name a newer one where ModelArts itself is to run this.
        "framework_version": "pytorch_1.11.0-cann_6.3.0-py_3.7-euler_2.8.3-aarch64",
        "pool_id": None,
        "train_instance_type": "modelarts.kat1.8xlarge",
        "train_instance_count": 1,
        "out_base_url": bucket + "/result/",
        "job_description_prefix": "resnet50",
    }
)
