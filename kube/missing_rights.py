"""What the log says about reconciles that fail for a missing right: the right and the remedy, at most once a minute."""

from kube.errors import missing_right
from kube.interruptions import CLUSTER_ROLES, LOG_EVERY


class MissingRights:
    """Remembers which missing rights were logged."""

    def __init__(self) -> None:
        self._say_again_at: dict[str, float] = {}
        self._unsaid: dict[str, int] = {}

    def words(self, errors: list[BaseException], now: float) -> str | None:
        """What to say about errors: None if a missing right is all that is wrong, and was said a moment ago.

        "" if something else is wrong.
        """
        rights = list(dict.fromkeys(map(missing_right, errors)))
        if "" in rights:
            return ""
        missing = ", ".join(rights)
        if now < self._say_again_at.get(missing, now):
            self._unsaid[missing] = self._unsaid.get(missing, 0) + 1
            return None
        self._say_again_at[missing] = now + LOG_EVERY
        unsaid = self._unsaid.pop(missing, 0)
        more = f" ({unsaid} more failures since this was said)" if unsaid else ""
        return f"the manager may not {missing}: {CLUSTER_ROLES}{more}: "
