"""The kind that adds Ray as an engine."""

from collections.abc import Mapping

from maskevidence.core.kind import Kind


class RayWorkers(Kind):
    """The Ray engine."""

    engines: Mapping[str, str] = {"ray": "maskevidence.ray.engine:parse_engine"}


workers = RayWorkers()
