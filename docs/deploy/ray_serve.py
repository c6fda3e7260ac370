"""The service on a cluster of Ray: each replica is a process with a model of its own.

    pip install -c constraints.txt -e '.[serve]' && pip install 'ray[serve]'
    serve run docs.deploy.ray_serve:service      # from the root of the repository; port 8000

Ray Serve sends a request to the replica with the fewest in progress. Its own limits, number of
replicas and autoscaling: https://docs.ray.io/en/latest/serve/.
"""

import os

from ray import serve
from starlette.applications import Starlette

import asr
from asr.serve.app import build
from asr.serve.service import Service
from asr.serve.settings import ServiceLimits


def application() -> Starlette:
    """Return the routes of `asr serve` around a model that this replica loads."""
    model = os.environ.get("ASR_MODEL", "english")
    key = os.environ.get("ASR_API_KEY")
    return build(Service(model, asr.load(model), ServiceLimits(), key))


@serve.deployment(num_replicas=2, ray_actor_options={"num_cpus": 1})
@serve.ingress(application)
class Transcriber:
    """A replica; the application answers."""


service = Transcriber.bind()
