// Command crdvalidator puts CustomResourceDefinitions through the validation that the API server of one Kubernetes minor
// puts them through when they are created: structure, defaults, and the compilation and cost of CEL rules.
//
// Arguments are files with one CustomResourceDefinition each. It prints what the API server would refuse, a line for each
// fault, and ends with exit code 1 if there is any.
package main

import (
	"context"
	"fmt"
	"os"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/install"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
)

func main() {
	code := 0
	for _, file := range os.Args[1:] {
		faults, err := findFaults(file)
		if err != nil {
			faults = append(faults, err)
		}
		for _, fault := range faults {
			fmt.Printf("%s: %v\n", file, fault)
			code = 1
		}
	}
	os.Exit(code)
}

func findFaults(file string) ([]error, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	scheme := runtime.NewScheme()
	install.Install(scheme)
	crd := &apiextensions.CustomResourceDefinition{}
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDecoder(apiextensions.SchemeGroupVersion)
	if err := runtime.DecodeInto(decoder, data, crd); err != nil {
		return nil, err
	}
	var faults []error
	for _, fault := range validation.ValidateCustomResourceDefinition(context.Background(), crd) {
		faults = append(faults, fault)
	}
	return faults, nil
}
