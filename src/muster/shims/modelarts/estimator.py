"""Training jobs of the first version: jobs with versions, and integers as states."""

from typing import Any, Dict, List, Optional

from .exceptions import ModelArtsError
from .session import Session
from .states import COMPLETED, JOB_STATE, WAITS
from .train_params import service_path
from .waiting import wait

__all__ = ["JOB_STATE", "Estimator", "TrainingJob"]

JOBS = "/v1/{project_id}/training-jobs"
NO_ENGINE = "the service has no engine {} of {}; Estimator.get_framework_list(session) shows what it has"


class TrainingJob:
    """A job of the service, in one of its versions."""

    def __init__(self, session: Session, job_id: Any, version_id: Any = None) -> None:
        self.session = session
        self.job_id = job_id
        self.version_id = version_id

    @property
    def _job(self) -> str:
        return f"{JOBS}/{self.job_id}"

    @property
    def _version(self) -> str:
        if self.version_id is None:
            self.version_id = self.get_job_version_list()["versions"][0]["version_id"]
        return f"{self._job}/versions/{self.version_id}"

    def get_job_info(self) -> Any:
        return self.session.call("GET", self._version)

    get_job_version_info = get_job_info

    def get_job_version_list(self) -> Any:
        return self.session.call("GET", f"{self._job}/versions")

    def get_job_version_object_list(self, is_show: bool = True) -> List["TrainingJob"]:
        found = self.get_job_version_list()
        if is_show:
            print(found)
        return [TrainingJob(self.session, self.job_id, version["version_id"]) for version in found["versions"]]

    def get_job_log(self, log_file: Optional[str] = None, base_line: str = "", lines: int = 50, order: str = "desc") -> Any:
        """Lines of a log; without a name, of the first that there is."""
        name = log_file or self.get_job_log_file_list()["log_file_list"][0]
        query = {"log_file": name, "base_line": base_line or None, "lines": lines, "order": order}
        return self.session.call("GET", f"{self._version}/aom-log", query)

    def get_job_log_file_list(self) -> Any:
        return self.session.call("GET", f"{self._version}/log/file-names")

    def stop_job_version(self) -> Any:
        return self.session.call("POST", f"{self._version}/stop")

    def delete_job_version(self) -> Any:
        return self.session.call("DELETE", self._version)

    def delete_job(self) -> Any:
        return self.session.call("DELETE", self._job)

    def update_job_configs(self, job_desc: str) -> Any:
        return self.session.call("PUT", self._job, body={"job_desc": job_desc})


class Estimator(TrainingJob):
    """What a job is made of; with `job_id`, a job that is there already."""

    def __init__(
        self,
        modelarts_session: Session,
        job_id: Any = None,
        version_id: Any = None,
        hyperparameters: Any = None,
        **settings: Any,
    ) -> None:
        super().__init__(modelarts_session, job_id, version_id)
        self._hyperparameters = hyperparameters or []
        self._settings = {name: value for name, value in settings.items() if value not in (None, "")}

    def fit(self, inputs: Optional[str] = None, wait: bool = True, job_name: Optional[str] = None, **data: Any) -> TrainingJob:
        """Creates a job and returns it; with `wait`, once it has ended."""
        body = {
            "job_name": job_name,
            "job_desc": self._settings.get("job_description", ""),
            "config": self._config(inputs, data),
        }
        return self._made(self.session.call("POST", JOBS, body=body), wait)

    def create_job_version(
        self,
        job_id: Any,
        pre_version_id: Any,
        inputs: Optional[str] = None,
        wait: bool = True,
        job_desc: Optional[str] = None,
        **data: Any,
    ) -> TrainingJob:
        """Creates another version of a job."""
        config = {**self._config(inputs, data), "pre_version_id": pre_version_id}
        body = {"job_desc": job_desc or self._settings.get("job_description", ""), "config": config}
        return self._made(self.session.call("POST", f"{JOBS}/{job_id}/versions", body=body), wait)

    def _made(self, answer: Dict[str, Any], waits: bool) -> TrainingJob:
        if not answer.get("is_success", True):
            raise ModelArtsError(str(answer.get("error_message") or answer.get("error_msg")), str(answer.get("error_code", "")))
        job = TrainingJob(self.session, answer["job_id"], answer["version_id"])
        if waits:
            wait(job.get_job_info, _state, JOB_STATE[COMPLETED], _ended)
        return job

    def _config(self, inputs: Optional[str], data: Dict[str, Any]) -> Dict[str, Any]:
        """The `config` of a request: the names of the package become those of the service."""
        given = self._settings
        found: Dict[str, Any] = {
            "worker_server_num": given.get("train_instance_count", 1),
            "parameter": [{"label": one["label"], "value": str(one["value"])} for one in self._hyperparameters],
            "train_url": _path(given.get("output_path")),
            "log_url": _path(given.get("log_url")),
            "app_url": _path(given.get("code_dir")),
            "boot_file_url": _path(given.get("boot_file")),
            "data_url": _path(inputs),
            "pool_id": given.get("pool_id"),
            "user_image_url": given.get("user_image_url"),
            "user_command": given.get("user_command"),
            "model_id": given.get("model_name"),
            **{name: data.get(name) for name in ("dataset_id", "dataset_version_id", "data_source")},
        }
        if given.get("train_instance_type"):
            found.update(self._flavor(given["train_instance_type"]))
        if given.get("framework_type"):
            found["engine_id"] = self._engine(given["framework_type"], given.get("framework_version"))
        if given.get("nas_share_addr"):
            share = {"src_path": given["nas_share_addr"], "dest_path": given.get("nas_mount_path"), "read_only": False}
            found["volumes"] = [{given.get("nas_type", "nfs"): share}]
        return {name: value for name, value in found.items() if value is not None}

    def _flavor(self, name: str) -> Dict[str, Any]:
        """The number of a kind of resources; its name where the service does not list it and may know it all the same."""
        for spec in _specs(self.session):
            if name in (spec.get("spec_code"), spec.get("spec_id")):
                return {"spec_id": spec["spec_id"]}
        return {"spec_code": name}

    def _engine(self, name: str, version: Optional[str]) -> Any:
        for engine in _engines(self.session):
            if engine.get("engine_name") == name and version in (None, engine.get("engine_version")):
                return engine["engine_id"]
        raise ModelArtsError(NO_ENGINE.format(version, name))

    @staticmethod
    def get_job_list(modelarts_session: Session, sortBy: Optional[str] = None, **query: Any) -> Any:
        """The jobs of the project: `per_page`, `page`, `order`, `search_content`, `status` as the service has them."""
        return modelarts_session.call("GET", JOBS, {"sortBy": sortBy, **query})

    @staticmethod
    def get_train_instance_types(modelarts_session: Session) -> List[str]:
        return [str(spec["spec_code"]) for spec in _specs(modelarts_session)]

    @staticmethod
    def get_framework_list(modelarts_session: Session) -> List[Dict[str, str]]:
        return [
            {"framework_type": engine["engine_name"], "framework_version": engine["engine_version"]}
            for engine in _engines(modelarts_session)
        ]


def _specs(session: Session) -> List[Dict[str, Any]]:
    found: List[Dict[str, Any]] = session.call("GET", "/v1/{project_id}/job/resource-specs", {"job_type": "train"})["specs"]
    return found


def _engines(session: Session) -> List[Dict[str, Any]]:
    found: List[Dict[str, Any]] = session.call("GET", "/v1/{project_id}/job/ai-engines", {"job_type": "train"})["engines"]
    return found


def _path(given: Optional[str]) -> Optional[str]:
    return None if given is None else service_path(given)


def _state(info: Dict[str, Any]) -> str:
    return JOB_STATE.get(info["status"], str(info["status"]))


def _ended(state: str) -> bool:
    return state not in [JOB_STATE[number] for number in WAITS]
