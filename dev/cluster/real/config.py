"""Writes the files in the root folder of a real node: configuration of kubelet, kube-proxy, containerd and system."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dev.cluster import pki
from dev.cluster.components import Plan
from dev.cluster.real import layout
from dev.cluster.real.layout import RealNode

PAUSE = "jobset.local/pause:1"
"""The image of the sandbox of each pod."""

SOCKET = "/run/containerd/containerd.sock"
PROGRAMS = "/opt/jobset"
"""The folder of a node at which the folder of `assets` is mounted."""
KUBECONFIG, PROXY_KUBECONFIG, AUTHORITY = (
    f"/etc/kubernetes/{name}" for name in ("kubelet.conf", "proxy.conf", "ca.crt")
)
KUBELET, PROXY, CONTAINERD = "/etc/kubernetes/kubelet.json", "/etc/kubernetes/proxy.json", "/etc/containerd/config.toml"

REGISTRIES = "/etc/containerd/certs.d"
"""The folder of a node with a folder `HOST`, which has a file hosts.toml, for each registry from which the node may
pull. No such folders are written here."""

_CONTAINERD = f"""version = 3
root = "/var/lib/containerd"
state = "/run/containerd"
disabled_plugins = ["io.containerd.nri.v1.nri"]
[grpc]
address = "{SOCKET}"
[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = "{PAUSE}"
[plugins.'io.containerd.cri.v1.images'.registry]
config_path = "{REGISTRIES}"
[plugins.'io.containerd.cri.v1.runtime']
restrict_oom_score_adj = true
[plugins.'io.containerd.cri.v1.runtime'.cni]
bin_dirs = ["/usr/lib/cni"]
conf_dir = "/etc/cni/net.d"
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
BinaryName = "/usr/sbin/runc"
SystemdCgroup = false
"""


def write_files(plan: Plan, authority: pki.Pair) -> None:
    """Write the root folders of all real nodes of the cluster."""
    server = f"https://{layout.GATEWAY.ip}:{plan.ports['kube-apiserver']}"

    def kubeconfig(client: pki.Pair) -> str:
        return pki.kubeconfig("local", server, authority.certificate, client)

    proxy_kubeconfig = kubeconfig(pki.issue_client(authority, "system:kube-proxy"))
    for node in layout.real_nodes(plan.layout, plan.spec.real_nodes):
        kubelet = pki.issue_client(authority, f"system:node:{node.name}", ["system:nodes"])
        files = {
            KUBECONFIG: kubeconfig(kubelet),
            PROXY_KUBECONFIG: proxy_kubeconfig,
            AUTHORITY: authority.certificate.decode(),
            KUBELET: json.dumps(_kubelet_config(node), indent=1),
            PROXY: json.dumps(_proxy_config(node), indent=1),
            CONTAINERD: _CONTAINERD,
            "/etc/cni/net.d/10-pods.conflist": json.dumps(_pod_network_config(node), indent=1),
            "/etc/hostname": f"{node.name}\n",
            "/etc/hosts": f"127.0.0.1 localhost\n{node.address.ip} {node.name}\n",
            "/etc/machine-id": f"{node.index:032x}\n",
            "/etc/os-release": 'ID=jobset\nPRETTY_NAME="JobSet local cluster"\n',
            "/etc/passwd": "root:x:0:0:root:/root:/bin/sh\n",
            # No server answers at this address. Pods use the DNS of the cluster.
            "/etc/resolv.conf": "nameserver 127.0.0.1\n",
        }
        for path, text in files.items():
            file = Path(f"{node.root}{path}")
            file.parent.mkdir(parents=True, exist_ok=True)
            pki.write_private(file, text.encode())


def labels(plan: Plan, node: RealNode) -> Mapping[str, str]:
    """The labels of a real node, as fake nodes have them. `label_every` counts real nodes after the last fake node."""
    return plan.spec.nodes.labels_at(plan.spec.nodes.count + node.index)


def _kubelet_config(node: RealNode) -> dict[str, Any]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": str(node.address.ip),
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": AUTHORITY},
        },
        "authorization": {"mode": "Webhook"},
        "cgroupDriver": "cgroupfs",
        "failCgroupV1": False,
        "failSwapOn": False,
        "containerRuntimeEndpoint": f"unix://{SOCKET}",
        "clusterDNS": [str(layout.DNS)],
        "clusterDomain": "cluster.local",
        "resolvConf": "/etc/resolv.conf",
        "volumePluginDir": "/var/lib/kubelet/volumeplugins",
        "healthzBindAddress": "127.0.0.1",
        # Memory and the disk of images belong to the machine, whose other programs may use most of them.
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "100Mi", "imagefs.available": "1%"},
        "evictionPressureTransitionPeriod": "10s",
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "serializeImagePulls": False,
        # The kubelet renews its Lease every 2 s, so that `--back` sees it at once, and detection always takes equally
        # long.
        "nodeLeaseDurationSeconds": 8,
    }


def _proxy_config(node: RealNode) -> dict[str, Any]:
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        "clientConnection": {"kubeconfig": PROXY_KUBECONFIG},
        "clusterCIDR": str(layout.PODS),
        "hostnameOverride": node.name,
        # These limits of the whole machine are not changed.
        "conntrack": {"maxPerCore": 0, "min": 0, "tcpCloseWaitTimeout": "0s", "tcpEstablishedTimeout": "0s"},
    }


def _pod_network_config(node: RealNode) -> dict[str, Any]:
    # With `ptp`, each pod has its own cable to the node. With a bridge, answers of a Service's pod on the same node
    # would bypass the address translation, unless the machine has the kernel module br_netfilter.
    plugin = {
        "type": "ptp",
        "ipam": {
            "type": "host-local",
            "dataDir": "/run/cni",
            "ranges": [[{"subnet": str(node.pods)}]],
            "routes": [{"dst": "0.0.0.0/0"}],
        },
    }
    return {"cniVersion": "1.0.0", "name": "pods", "plugins": [plugin]}
