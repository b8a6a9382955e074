"""Real nodes of a local cluster: kubelet, containerd and kube-proxy in namespaces of their own. Linux, as root.

`network` holds the network of the nodes and connects it with the API server, which stays on the machine's own. `node`
starts one node and starts it again after a power cut, `init` is PID 1 in it, `config` has its files. `assets`, `debian`
and `image` bring programs and images, `faults` breaks nodes, `preflight` says whether this machine can run them.
"""
