"""The fields of Events that this program reads."""

from kube.model.meta import Base


class Regarding(Base, frozen=True, kw_only=True):
    """core/v1 ObjectReference."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    field_path: str = ""


class _Series(Base, frozen=True, kw_only=True):
    last_observed_time: str = ""


class SeenEvent(Base, frozen=True, kw_only=True):
    """events.k8s.io/v1 Event. Older components fill in the deprecated time only."""

    reason: str = ""
    note: str = ""
    regarding: Regarding = Regarding()
    related: Regarding | None = None
    event_time: str | None = None
    series: _Series | None = None
    deprecated_first_timestamp: str | None = None
    deprecated_last_timestamp: str | None = None

    @property
    def first_time(self) -> str:
        """When the event first happened, RFC 3339; empty if unknown."""
        return self.event_time or self.deprecated_first_timestamp or ""

    @property
    def last_time(self) -> str:
        """When the event last happened, RFC 3339; empty if unknown."""
        series_time = self.series.last_observed_time if self.series else ""
        return series_time or self.event_time or self.deprecated_last_timestamp or ""
