"""Sessions that last: what they did is written down, can be carried elsewhere, resumed there, and replayed."""

from __future__ import annotations

from cloche.journal.entries import BridgeCall, Cell, Step
from cloche.journal.recording import Recorder, resume, resume_async
from cloche.journal.replay import Divergence, ReplayReport, replay
from cloche.journal.session_file import SavedVariable, SessionFile, SessionSummary, read_summary
from cloche.journal.shelf import SavedSession, SessionShelf

__all__ = [
    "BridgeCall", "Cell", "Divergence", "Recorder", "ReplayReport", "SavedSession", "SavedVariable", "SessionFile",
    "SessionShelf", "SessionSummary", "Step", "read_summary", "replay", "resume", "resume_async",
]  # fmt: skip
