"""The ModelArts configuration of ResNet-50 in MindSpore. It is read, never executed; its keys belong to whoever runs it."""

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
        "code_dir": bucket + "/resnet50-mindspore/",
        "boot_file": bucket + "/resnet50-mindspore/train.py",
        "job_name": "aisbench-resnet50-mindspore",
        "framework_type": "Ascend-Powered-Engine",
        # Take the image of your pool that has MindSpore 2.
        "framework_version": "MindSpore-1.3-cann_5.0.2-python3.7-euleros2.8-aarch64",
        "pool_id": None,
        "train_instance_type": "modelarts.kat1.8xlarge",
        "train_instance_count": 1,
        "out_base_url": bucket + "/result/",
        "job_description_prefix": "resnet50-mindspore",
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
        "code_dir": bucket + "/resnet50-mindspore/",
        "boot_file": bucket + "/resnet50-mindspore/train.py",
        "job_name": "aisbench-resnet50-mindspore",
        "framework_type": "Ascend-Powered-Engine",
        # Take the image of your pool that has MindSpore 2.
        "framework_version": "mindspore_1.3.0-cann_5.0.2-py_3.7-euler_2.8.3-aarch64",
        "pool_id": None,
        "train_instance_type": "modelarts.kat1.8xlarge",
        "train_instance_count": 1,
        "out_base_url": bucket + "/result/",
        "job_description_prefix": "resnet50-mindspore",
    }
)
