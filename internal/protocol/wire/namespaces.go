package wire

// MaxNamespaces is the maximum number of Namespaces in one request.
const MaxNamespaces = 100

// NamespacesRequest is the request body about Namespaces that the agent of a shard needs and that its share does not
// contain. The response is a NamespacesResponse. The request changes nothing at the hub. Hubs of the previous version
// answer that they do not know the request.
type NamespacesRequest struct {
	Names []string `json:"names"`
}

// NamespacesResponse lists the requested Namespaces that are desired at the location, in any of its shards. The agent
// of that shard creates them, with their labels.
type NamespacesResponse struct {
	Desired []string `json:"desired,omitempty"`
	// Marker and Revision are the log position of the response. Hubs of the previous version do not send them.
	Marker   string `json:"marker,omitempty"`
	Revision int64  `json:"revision,omitempty"`
}
