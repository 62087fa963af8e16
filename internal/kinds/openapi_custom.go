package kinds

// documents are the OpenAPI descriptions of one version of a CRD, gzipped.
type documents struct{}

func (d *definition) compileDocuments(string) (*documents, error) { return &documents{}, nil }
