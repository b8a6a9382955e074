"""Real nodes of a local cluster: kubelet, containerd and kube-proxy in their own namespaces. They need Linux and root.

`network` holds the network of the nodes, and connects it with the API server, which stays on the machine's network.
`node` starts one node, and starts it again after a power cut. `init` is PID 1 of the node, `config` has its files.
`assets`, `debian` and `image` provide programs and images, `faults` breaks nodes, `preflight` checks whether this
machine can run them.
"""
