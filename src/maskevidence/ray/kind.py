"""The kind that adds Ray as an engine."""

from maskevidence.core.kind import Kind

workers = Kind()
workers.engines = {"ray": "maskevidence.ray.engine:parse_engine"}
