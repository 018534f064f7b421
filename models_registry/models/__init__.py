"""What can run: model files, the presets that run them, and other names for presets."""

from models_registry.models.audit import AuditRecord
from models_registry.models.downloads import Download
from models_registry.models.engine_columns import Engine
from models_registry.models.files import FileMetadata, ModelFile
from models_registry.models.measurements import Measurement
from models_registry.models.presets import Alias, PlacementWish, Preset, Priority
from models_registry.models.revised import RegistryRevision, Revised, Source
from models_registry.models.sharing import Group
from models_registry.models.switching import GlobalPreset, Profile

__all__ = [
    "Alias",
    "AuditRecord",
    "Download",
    "Engine",
    "FileMetadata",
    "GlobalPreset",
    "Group",
    "Measurement",
    "ModelFile",
    "PlacementWish",
    "Preset",
    "Priority",
    "Profile",
    "RegistryRevision",
    "Revised",
    "Source",
]
