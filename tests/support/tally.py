"""Both protocols of milestones, as lists."""


class Tally:
    """Both protocols of milestones, as lists."""

    def __init__(self):
        self.finished_, self.forgotten, self.told = [], [], []

    def finished(self, namespace, name, state):
        self.finished_.append((namespace, name, state))

    def forget(self, namespace, name):
        self.forgotten.append((namespace, name))

    def created(self, seconds):
        self.told.append(("created", seconds))

    def ready(self, seconds):
        self.told.append(("ready", seconds))

    def restarted(self, seconds):
        self.told.append(("restarted", seconds))
