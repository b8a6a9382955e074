"""Both protocols of milestones, as lists."""


class Tally:
    """Both protocols of milestones, as lists."""

    def __init__(self):
        self.finished_, self.forgotten, self.times = [], [], []

    def finished(self, namespace, name, state):
        self.finished_.append((namespace, name, state))

    def forget(self, namespace, name):
        self.forgotten.append((namespace, name))

    def created(self, seconds):
        self.times.append(("created", seconds))

    def ready(self, seconds):
        self.times.append(("ready", seconds))

    def restarted(self, seconds):
        self.times.append(("restarted", seconds))
