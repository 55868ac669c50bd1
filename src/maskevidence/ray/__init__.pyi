from maskevidence.ray.engine import RayEngine as RayEngine
from maskevidence.ray.engine import parse_engine as parse_engine
