"""Ray, as an engine of scores."""

from collections.abc import Mapping

from maskevidence.core.kind import Kind


class RayWorkers(Kind):
    """Ray, as an engine of scores."""

    engines: Mapping[str, str] = {"ray": "maskevidence.ray.engine:parse_engine"}


workers = RayWorkers()
