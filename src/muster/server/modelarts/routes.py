"""All routes of ModelArts' API and of what its clients ask of IAM; the last takes what no other one does."""

from muster.server.modelarts import iam
from muster.server.modelarts.v1 import catalog as catalog_v1
from muster.server.modelarts.v1 import jobs as jobs_v1
from muster.server.modelarts.v2 import catalog, history, jobs, logs, others

ROUTERS = (
    iam.router,
    jobs.router,
    logs.router,
    history.router,
    catalog.router,
    jobs_v1.router,
    catalog_v1.router,
    others.router,
)
