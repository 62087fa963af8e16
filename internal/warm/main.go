package main
import (
 _ "k8s.io/apiserver/pkg/registry/generic/registry"
 _ "k8s.io/apiserver/pkg/endpoints/handlers"
 _ "k8s.io/apiserver/pkg/server"
 _ "k8s.io/apiserver/pkg/storage/etcd3"
 _ "go.etcd.io/etcd/server/v3/embed"
 _ "k8s.io/apiextensions-apiserver/pkg/registry/customresource"
 _ "k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder"
 _ "k8s.io/client-go/kubernetes"
)
func main(){}
