"""Both protocols of milestones, as lists."""

from collections.abc import Callable


class Tally:
    """Both protocols of milestones, as lists; what takes seconds is noted in `times` by its name."""

    def __init__(self):
        self.finished_, self.too_long, self.too_late, self.forgotten, self.times = [], [], [], [], []
        self.by_node, self.seconds = 0, []

    def on_end(self, namespace, name, state):
        self.finished_.append((namespace, name, state))

    def deadline_exceeded(self, namespace, name):
        self.too_long.append((namespace, name))

    def start_timed_out(self, namespace, name):
        self.too_late.append((namespace, name))

    def node_failed(self):
        self.by_node += 1

    def on_seconds(self, running, lost):
        self.seconds.append((running, lost))

    def forget(self, namespace, name):
        self.forgotten.append((namespace, name))

    def __getattr__(self, milestone: str) -> Callable[[float], None]:
        return lambda seconds: self.times.append((milestone.removeprefix("on_"), seconds))
