"""The record of a run: its format, how it is loaded and saved, and where run files are kept."""

from results.files import MACHINES, REFERENCE, RUNS, latest, new_path
from results.record import Record, RecordedPeer, RecordedWorkload, Run, Sample, load, save
from results.validation import BadRecord

__all__ = [
    "MACHINES",
    "REFERENCE",
    "RUNS",
    "BadRecord",
    "Record",
    "RecordedPeer",
    "RecordedWorkload",
    "Run",
    "Sample",
    "latest",
    "load",
    "new_path",
    "save",
]
