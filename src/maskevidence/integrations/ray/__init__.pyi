from .engine import RayEngine as RayEngine
from .engine import parse_engine as parse_engine
