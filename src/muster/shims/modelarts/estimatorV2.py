"""Training jobs of the second version: an id of their own for each, and phases as states."""

from typing import Any, Dict, List, Optional, Sequence

from .session import Session
from .states import JOB_STATE, PHASES
from .train_params import InputData, OutputData, TrainingFiles, boot_path, service_path
from .waiting import wait

__all__ = ["JOB_STATE", "Estimator", "TrainingJob"]

JOBS = "/v2/{project_id}/training-jobs"
TASK = "worker-0"


class TrainingJob:
    """A job of the service."""

    def __init__(self, session: Session, job_id: Optional[str]) -> None:
        self.session = session
        self.job_id = job_id

    @property
    def _job(self) -> str:
        return f"{JOBS}/{self.job_id}"

    def get_job_info(self) -> Any:
        return self.session.call("GET", self._job)

    def get_job_log(self, task_id: str = TASK) -> Any:
        """The newest part of a node's log."""
        return self.session.call("GET", f"{self._job}/tasks/{task_id}/logs/preview")

    def get_job_metrics(self, task_id: str = TASK) -> Any:
        return self.session.call("GET", f"{self._job}/metrics/{task_id}")

    def update_job_configs(self, description: str) -> Any:
        return self.session.call("PUT", self._job, body={"description": description})

    def control_job(self) -> Any:
        """Stops the job."""
        return self.session.call("POST", f"{self._job}/actions", body={"action_type": "terminate"})

    def delete_job(self) -> Any:
        return self.session.call("DELETE", self._job)


class Estimator(TrainingJob):
    """What a job is made of; with `job_id`, a job that is there already."""

    def __init__(
        self,
        session: Session,
        job_id: Optional[str] = None,
        training_files: Optional[TrainingFiles] = None,
        outputs: Sequence[OutputData] = (),
        parameters: Sequence[Dict[str, Any]] = (),
        environments: Optional[Dict[str, str]] = None,
        **settings: Any,
    ) -> None:
        super().__init__(session, job_id)
        self._files = training_files
        self._outputs = outputs or ()
        self._parameters = parameters or ()
        self._environments = environments
        self._settings = {name: value for name, value in settings.items() if value not in (None, "")}

    def fit(self, inputs: Sequence[InputData] = (), wait: bool = True, job_name: Optional[str] = None) -> TrainingJob:
        """Creates a job and returns it; with `wait`, once it has ended."""
        made = self.session.call("POST", JOBS, body=self._request(inputs or (), job_name))
        job = TrainingJob(self.session, made["metadata"]["id"])
        if wait:
            _wait(job)
        return job

    def _request(self, inputs: Sequence[InputData], job_name: Optional[str]) -> Dict[str, Any]:
        given = self._settings
        metadata = {"name": job_name, "description": given.get("job_description"), "workspace_id": given.get("workspace_id")}
        resource = {
            "flavor_id": given.get("train_instance_type"),
            "node_count": given.get("train_instance_count", 1),
            "pool_id": given.get("pool_id"),
        }
        spec: Dict[str, Any] = {"resource": _named(resource)}
        if given.get("log_url"):
            spec["log_export_path"] = {"obs_url": service_path(given["log_url"])}
        return {"kind": "job", "metadata": _named(metadata), "algorithm": self._algorithm(inputs), "spec": spec}

    def _algorithm(self, inputs: Sequence[InputData]) -> Dict[str, Any]:
        given = self._settings
        engine = {
            "engine_name": given.get("framework_type"),
            "engine_version": given.get("framework_version"),
            "image_url": given.get("user_image_url"),
        }
        found: Dict[str, Any] = {
            "engine": _named(engine),
            "command": given.get("user_command"),
            "parameters": [{**one, "value": str(one["value"])} for one in self._parameters],
            "inputs": [one.to_request() for one in inputs],
            "outputs": [one.to_request() for one in self._outputs],
            "environments": self._environments,
        }
        if self._files is not None:
            found["code_dir"] = service_path(self._files.code_dir)
            found["boot_file"] = boot_path(self._files.code_dir, self._files.boot_file)
        return _named(found)

    @staticmethod
    def get_job_list(
        session: Session,
        offset: int = 0,
        limit: int = 10,
        sort_by: str = "create_time",
        order: str = "desc",
        filters: Optional[List[Dict[str, Any]]] = None,
        **others: Any,
    ) -> Any:
        body = {"offset": offset, "limit": limit, "sort_by": sort_by, "order": order, "filters": filters or [], **others}
        return session.call("POST", "/v2/{project_id}/training-job-searches", body=body)

    @staticmethod
    def get_train_instance_types(session: Session) -> List[str]:
        return [str(flavor["flavor_id"]) for flavor in session.call("GET", "/v2/{project_id}/training-job-flavors")["flavors"]]

    @staticmethod
    def get_framework_list(session: Session) -> List[Dict[str, str]]:
        engines = session.call("GET", "/v2/{project_id}/training-job-engines")["items"]
        return [{"framework_type": one["engine_name"], "framework_version": one["engine_version"]} for one in engines]

    @staticmethod
    def control_job_by_id(session: Session, job_id: str) -> Any:
        """Stops a job."""
        return TrainingJob(session, job_id).control_job()

    @staticmethod
    def delete_job_by_id(session: Session, job_id: str) -> Any:
        return TrainingJob(session, job_id).delete_job()


def _wait(job: TrainingJob) -> None:
    wait(job.get_job_info, lambda info: str(info["status"]["phase"]), PHASES[0], PHASES.__contains__)


def _named(given: Dict[str, Any]) -> Dict[str, Any]:
    return {name: value for name, value in given.items() if value is not None}
