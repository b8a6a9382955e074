#!/usr/bin/env bash
# `make install`, `make uninstall` and `make run`: ends with one message if the cluster cannot be used, and says which was
# tried, whether it answered, and what to do.
#
#   dev/hack/reachable.sh TARGET KUBECTL...
set -euo pipefail
target=$1
shift
if [ -n "${KUBECONFIG:-}" ] && ! [[ $KUBECONFIG == *:* ]] && ! [ -e "$KUBECONFIG" ]; then
    echo "make $target: there is no file $KUBECONFIG (KUBECONFIG), and nothing was changed" >&2
    exit 1
fi
if answer=$("$@" get --raw /version --request-timeout=10s 2>&1 < /dev/null); then exit 0; fi

if [ -n "${KUBECONFIG:-}" ]; then
    file=$KUBECONFIG cluster="the cluster of KUBECONFIG=$KUBECONFIG"
else
    file=~/.kube/config cluster="KUBECONFIG is not set, so the cluster of ~/.kube/config was tried: it"
fi
other="name another file: make $target KUBECONFIG=/path/to/kubeconfig (a local one: .venv/bin/jobset cluster up)"
said=": $(tail -n 1 <<< "$answer")"
case $answer in
    *"no configuration has been provided"* | *"server localhost:8080"*) # kubectl's own default, if nothing names a server
        if [ -n "${KUBECONFIG:-}" ]; then
            found="KUBECONFIG=$KUBECONFIG names no cluster"
        elif [ -e "$file" ]; then
            found="KUBECONFIG is not set, and ~/.kube/config names no cluster"
        else
            found="KUBECONFIG is not set, and there is no file ~/.kube/config"
        fi
        said=
        todo="Name a file: ${other#name another file: }" ;;
    *x509:*)
        found="$cluster answers, but with a certificate that this file does not trust"
        todo="Correct certificate-authority-data in the file, or $other" ;;
    *"logged in"* | *Unauthorized* | *"provide credentials"* | *"tls: "*certificate*)
        found="$cluster answers, but refuses the credentials in this file: they are wrong, or have expired"
        todo="Renew them, or $other" ;;
    *"context"*"not exist"* | *"context was not found"* | *"invalid configuration"* | *"error loading config"*)
        found="the kubeconfig $file cannot be used"
        todo="Correct it (\`kubectl config get-contexts\` lists the contexts), or $other" ;;
    *"Error from server"*)
        found="$cluster answers with an error"
        todo="See whether the server in the file is a Kubernetes API server, with https, or $other" ;;
    *)
        found="$cluster does not answer"
        todo="Name the file of a cluster that runs: ${other#name another file: }" ;;
esac
cat >&2 << END
make $target: $found, and nothing was changed$said
$todo
END
exit 1
