// Command certmanager runs the parts of cert-manager that the tests of the certificates need, in one process: the
// controllers of Certificates, their requests, and Issuers of the kinds SelfSigned and CA, and the ca-injector.
//
// cert-manager's own commands are modules of their own that cannot be fetched, so this starts the same controllers. It
// takes the cluster from KUBECONFIG and ends with SIGTERM.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/cert-manager/cert-manager/pkg/api"
	"github.com/cert-manager/cert-manager/pkg/controller"
	"github.com/cert-manager/cert-manager/pkg/controller/cainjector"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/approver"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/ca"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/selfsigned"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/issuing"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/keymanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/readiness"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/requestmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/revisionmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/trigger"
	_ "github.com/cert-manager/cert-manager/pkg/controller/issuers"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/ca"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/selfsigned"
	"github.com/cert-manager/cert-manager/pkg/logs"
	"github.com/cert-manager/cert-manager/pkg/util"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

const (
	workers = 2

	// As in cert-manager's own command.
	minimumBackoff = time.Hour
	maximumBackoff = 32 * time.Hour
)

func main() {
	ctrl.SetLogger(logs.Log)
	if err := run(ctrl.SetupSignalHandler()); err != nil {
		fmt.Fprintln(os.Stderr, "certmanager:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	kubeconfig := os.Getenv("KUBECONFIG")
	if kubeconfig == "" {
		return errors.New("KUBECONFIG is not set")
	}
	group, ctx := errgroup.WithContext(logs.NewContext(ctx, logs.Log))
	if err := startControllers(ctx, group, kubeconfig); err != nil {
		return err
	}
	injector, err := newInjector(ctx)
	if err != nil {
		return err
	}
	group.Go(func() error { return injector.Start(ctx) })
	return group.Wait()
}

func startControllers(ctx context.Context, group *errgroup.Group, kubeconfig string) error {
	options := controller.ContextOptions{Kubeconfig: kubeconfig}
	options.CertificateRequestMinimumBackoffDuration = minimumBackoff
	options.CertificateRequestMaximumBackoffDuration = maximumBackoff
	factory, err := controller.NewContextFactory(ctx, options)
	if err != nil {
		return err
	}
	for name, construct := range controller.Known() {
		each, err := construct(factory)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		group.Go(func() error { return each.Run(workers, ctx) })
	}
	shared, err := factory.Build()
	if err != nil {
		return err
	}
	shared.SharedInformerFactory.Start(ctx.Done())
	shared.KubeSharedInformerFactory.Start(ctx.Done())
	return nil
}

func newInjector(ctx context.Context) (ctrl.Manager, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientscheme.AddToScheme, api.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	config, err := ctrl.GetConfig()
	if err != nil {
		return nil, err
	}
	// The injector writes by server-side apply, and takes the name of the field manager from the user agent.
	manager, err := ctrl.NewManager(util.RestConfigWithUserAgent(config, "cainjector"), ctrl.Options{
		Scheme:  scheme,
		Metrics: server.Options{BindAddress: "0"},
		// Of Secrets the injector watches the metadata only, so it has to read their data from the API server.
		Client: client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}}}},
	})
	if err != nil {
		return nil, err
	}
	return manager, cainjector.RegisterAllInjectors(ctx, manager, cainjector.SetupOptions{
		EnableCertificatesDataSource: true,
		EnabledReconcilersFor: map[string]bool{
			cainjector.MutatingWebhookConfigurationName:   true,
			cainjector.ValidatingWebhookConfigurationName: true,
		},
	})
}
