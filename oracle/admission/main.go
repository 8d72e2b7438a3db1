// Command admission runs Kerf's admission cases with kube-apiserver's own libraries. It reads one case per line (a JSON
// object) and writes one result per line.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextinstall "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/install"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	crdvalidation "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	apiservervalidation "k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apiextensions-apiserver/pkg/crdserverscheme"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresource"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/warning"
)

type Case struct {
	Name    string          `json:"name"`
	CRD     json.RawMessage `json:"crd"`
	Version string          `json:"version,omitempty"`
	Op      string          `json:"op,omitempty"` // compile, create, update, status
	Object  json.RawMessage `json:"object,omitempty"`
	Old     json.RawMessage `json:"old,omitempty"`
}

type Cause struct {
	Reason  string `json:"reason"`
	Field   string `json:"field"`
	Message string `json:"message"`
}

type Answer struct {
	Name      string                 `json:"name"`
	Malformed string                 `json:"malformed,omitempty"`
	Causes    []Cause                `json:"causes,omitempty"`
	Message   string                 `json:"message,omitempty"`
	Unknown   []string               `json:"unknown,omitempty"`
	Warnings  []string               `json:"warnings,omitempty"`
	Object    map[string]interface{} `json:"object,omitempty"`
}

var scheme = runtime.NewScheme()

type recorder struct{ texts []string }

func (r *recorder) AddWarning(agent, text string) { r.texts = append(r.texts, text) }

func causes(errs field.ErrorList) []Cause {
	var out []Cause
	for _, e := range errs {
		out = append(out, Cause{string(e.Type), e.Field, e.ErrorBody()})
	}
	return out
}

func status(a *Answer, err error) {
	s, ok := err.(apierrors.APIStatus)
	if !ok {
		a.Malformed = err.Error()
		return
	}
	a.Message = s.Status().Message
	if s.Status().Details != nil {
		for _, c := range s.Status().Details.Causes {
			a.Causes = append(a.Causes, Cause{string(c.Type), c.Field, c.Message})
		}
	}
}

// read decodes an object as the decoder of the API server's request handler does.
func read(raw []byte, ss *structuralschema.Structural) (*unstructured.Unstructured, []string, error) {
	obj := map[string]interface{}{}
	if err := utiljson.Unmarshal(raw, &obj); err != nil {
		return nil, nil, err
	}
	u := &unstructured.Unstructured{Object: obj}
	if _, _, err := unstructured.NestedString(obj, "kind"); err != nil {
		return nil, nil, err
	}
	kind := u.GetKind()
	apiVersion := u.GetAPIVersion()
	meta, found, unknown, err := objectmeta.GetObjectMetaWithOptions(obj, objectmeta.ObjectMetaOptions{ReturnUnknownFieldPaths: true})
	if err != nil {
		return nil, nil, err
	}
	unknown = append(unknown, pruning.PruneWithOptions(obj, ss, true, structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})...)
	defaulting.PruneNonNullableNullsWithoutDefaults(obj, ss)
	ferr, paths := objectmeta.CoerceWithOptions(nil, obj, ss, false, objectmeta.CoerceOptions{ReturnUnknownFieldPaths: true})
	if ferr != nil {
		return nil, nil, ferr
	}
	unknown = append(unknown, paths...)
	u.SetKind(kind)
	u.SetAPIVersion(apiVersion)
	if found {
		if err := objectmeta.SetObjectMeta(obj, meta); err != nil {
			return nil, nil, err
		}
	}
	defaulting.Default(obj, ss)
	return u, unknown, nil
}

func answer(c Case) (a Answer) {
	a.Name = c.Name
	defer func() {
		if r := recover(); r != nil {
			a.Malformed = fmt.Sprint("panic: ", r)
		}
	}()
	v1 := &apiextensionsv1.CustomResourceDefinition{}
	if err := json.Unmarshal(c.CRD, v1); err != nil {
		a.Malformed = err.Error()
		return
	}
	scheme.Default(v1)
	crd := &apiextensions.CustomResourceDefinition{}
	if err := scheme.Convert(v1, crd, nil); err != nil {
		a.Malformed = err.Error()
		return
	}
	ctx := context.Background()
	if errs := crdvalidation.ValidateCustomResourceDefinition(ctx, crd); len(errs) > 0 {
		a.Causes = causes(errs)
		return
	}
	if c.Op == "compile" {
		return
	}
	version := c.Version
	if version == "" {
		version = v1.Spec.Versions[0].Name
	}
	validation, err := apiextensions.GetSchemaForVersion(crd, version)
	if err != nil {
		a.Malformed = err.Error()
		return
	}
	ss, err := structuralschema.NewStructural(validation.OpenAPIV3Schema)
	if err != nil {
		a.Malformed = err.Error()
		return
	}
	validator, _, err := apiservervalidation.NewSchemaValidator(validation.OpenAPIV3Schema)
	if err != nil {
		a.Malformed = err.Error()
		return
	}
	sub, _ := apiextensions.GetSubresourcesForVersion(crd, version)
	var statusSpec *apiextensions.CustomResourceSubresourceStatus
	var scaleSpec *apiextensions.CustomResourceSubresourceScale
	var statusValidator apiservervalidation.SchemaValidator
	if sub != nil {
		statusSpec = sub.Status
		scaleSpec = sub.Scale
		if statusSpec != nil {
			if st, ok := validation.OpenAPIV3Schema.Properties["status"]; ok {
				statusValidator, _, _ = apiservervalidation.NewSchemaValidator(&st)
			}
		}
	}
	gvk := schema.GroupVersionKind{Group: crd.Spec.Group, Version: version, Kind: crd.Spec.Names.Kind}
	namespaced := crd.Spec.Scope == apiextensions.NamespaceScoped
	strategy := customresource.NewStrategy(crdserverscheme.NewUnstructuredObjectTyper(), namespaced, gvk, validator, statusValidator, ss, statusSpec, scaleSpec, nil)
	obj, unknown, err := read(c.Object, ss)
	if err != nil {
		a.Malformed = err.Error()
		return
	}
	a.Unknown = unknown
	rec := &recorder{}
	ctx = warning.WithWarningRecorder(ctx, rec)
	ns := ""
	if namespaced {
		ns = obj.GetNamespace()
	}
	ctx = genericapirequest.WithNamespace(ctx, ns)
	switch c.Op {
	case "create":
		rest.FillObjectMetaSystemFields(obj)
		if err := rest.BeforeCreate(strategy, ctx, obj); err != nil {
			status(&a, err)
		}
	case "update", "status":
		old, _, err := read(c.Old, ss)
		if err != nil {
			a.Malformed = "old: " + err.Error()
			return
		}
		if old.GetResourceVersion() == "" {
			old.SetResourceVersion("1")
		}
		if obj.GetResourceVersion() == "" {
			obj.SetResourceVersion("1")
		}
		var s rest.RESTUpdateStrategy = strategy
		if c.Op == "status" {
			s = customresource.NewStatusStrategy(strategy)
		}
		if err := rest.BeforeUpdate(s, ctx, obj, old); err != nil {
			status(&a, err)
		}
	}
	a.Warnings = rec.texts
	if a.Message == "" && a.Malformed == "" {
		for _, f := range []string{"creationTimestamp", "uid", "resourceVersion", "generation", "managedFields"} {
			unstructured.RemoveNestedField(obj.Object, "metadata", f)
		}
		// The server stores JSON. Decoding it again turns floats without a fraction into integers.
		bytes, _ := json.Marshal(obj.Object)
		stored := map[string]interface{}{}
		_ = utiljson.Unmarshal(bytes, &stored)
		a.Object = stored
	}
	return
}

func main() {
	apiextinstall.Install(scheme)
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(make([]byte, 1<<20), 64<<20)
	out := json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	for in.Scan() {
		line := strings.TrimSpace(in.Text())
		if line == "" {
			continue
		}
		var c Case
		if err := json.Unmarshal([]byte(line), &c); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		a := answer(c)
		sort.SliceStable(a.Causes, func(i, j int) bool { return a.Causes[i].Field+a.Causes[i].Message < a.Causes[j].Field+a.Causes[j].Message })
		_ = out.Encode(a)
	}
}
