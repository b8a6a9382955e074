"""Clusters whose components are started again when they end, and whose audit log holds the bodies of some writes."""

import json
import os
import signal

import pytest
import urllib3

from dev.cluster.assets import Sources
from dev.cluster.cluster import Cluster, running, statuses
from dev.cluster.spec import ClusterSpec
from tests.support.cluster.requests import request, wait_for

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


def answers(cluster: Cluster) -> bool:
    try:
        return request(cluster, "GET", CONFIG_MAPS)[0] == 200
    except urllib3.exceptions.HTTPError:
        return False


@pytest.mark.integration
def test_killed_components_start_again_with_what_was_stored(tmp_path, binaries):
    spec = ClusterSpec(name="kept", profile="api", audit_bodies=("configmaps.",), keep=True)
    with running(spec, sources=Sources(assets=binaries), state_root=tmp_path) as cluster:
        assert request(cluster, "POST", CONFIG_MAPS, {"metadata": {"name": "one"}, "data": {"key": "value"}})[0] == 201
        for component in ("kube-apiserver", "etcd"):
            pid = statuses(state_root=tmp_path)[0]["components"][component]
            os.kill(pid, signal.SIGKILL)
            wait_for(lambda pid=pid, name=component: statuses(state_root=tmp_path)[0]["components"][name] != pid)
            wait_for(lambda: answers(cluster), what=f"the API server answers after {component} has ended")
        assert request(cluster, "GET", f"{CONFIG_MAPS}/one")[1]["data"] == {"key": "value"}
        written = [
            event
            for event in map(json.loads, cluster.audit_log.read_text().splitlines())
            if event["verb"] == "create" and event["objectRef"].get("resource") == "configmaps"
        ]
        assert [event["requestObject"]["data"] for event in written if "data" in event["requestObject"]]
        read = [
            event
            for event in map(json.loads, cluster.audit_log.read_text().splitlines())
            if event["verb"] == "get" and (event.get("objectRef") or {}).get("resource") == "configmaps"
        ]
        assert read
        assert not any("responseObject" in event for event in read)
