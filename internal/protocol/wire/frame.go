// Package wire defines the protocol of hub and agent: the frames of the stream of desired objects,
// reports, and the digests by which both sides find differences. The two programs may be one minor
// version apart, so fields are only ever added.
//
// Bodies are JSON values, one per line. The package must not do I/O other than encoding to and
// decoding from a given stream.
package wire

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
)

const (
	// Header carries ProtocolVersion on every request and response.
	Header = "Orrery-Protocol"
	// ProtocolVersion is the version of this contract.
	ProtocolVersion = "1"
)

const (
	// CapabilitiesHeader lists, separated by commas, the features of the agent that agents of the
	// previous version lack. The hub sends frames that need a feature only to agents that list it.
	CapabilitiesHeader = "Orrery-Capabilities"
	// Impersonates: the agent supports Policy.ServiceAccount.
	Impersonates = "Impersonates"
	// Confirms: the agent confirms removals (Gone). To other agents the hub sends only the removal,
	// so no deletion waits for a confirmation that never comes.
	Confirms = "Confirms"
	// Inspects: the agent responds to InspectRequest frames.
	Inspects = "Looks"
	// Prefixes: the agent supports Settings.Namespaces.
	Prefixes = "Prefixes"
	// Upsyncs: the agent supports Settings.Upsync and Policy.Associated, and sends reports with other
	// origins than key.Placed. It releases objects that are held for Upsynced.
	Upsyncs = "Sees"
)

// ShardParam is the query parameter with the agent's shard, K/N, in all requests except those for
// credentials. It is absent for an agent that serves the whole location.
const ShardParam = "shard"

// ShardHeader, in each response to such a request, is the shard that the response is for. A hub
// without support for shards responds for the whole location, and does not send the header.
const ShardHeader = "Orrery-Shard"

// Capable reports whether the headers of a request list a capability.
func Capable(header http.Header, capability string) bool {
	for _, line := range header.Values(CapabilitiesHeader) {
		for one := range strings.SplitSeq(line, ",") {
			if strings.TrimSpace(one) == capability {
				return true
			}
		}
	}
	return false
}

// Frame is one line of the stream of desired objects, or of a comparison response; exactly one
// field is set.
type Frame struct {
	Hello    *Hello    `json:"hello,omitempty"`
	Settings *Settings `json:"settings,omitempty"`
	Put      *Put      `json:"put,omitempty"`
	Hold     *Hold     `json:"hold,omitempty"`
	Conflict *Conflict `json:"conflict,omitempty"`
	Gone     *Gone     `json:"gone,omitempty"`
	Del      *Del      `json:"del,omitempty"`
	Mark     *Mark     `json:"mark,omitempty"`
	Ping     *Ping     `json:"ping,omitempty"`
	// RangeDifference is the response for one span of a comparison.
	RangeDifference *RangeDifference `json:"part,omitempty"`
	// Endpoints are all URLs of the hub for the agent. The agent requests them with the digest of
	// its present endpoints. They are sent after the hello and after each change, but never if they
	// are the same.
	Endpoints *Endpoints `json:"endpoints,omitempty"`
	// InspectRequest requests the present object in the cluster.
	InspectRequest *InspectRequest `json:"look,omitempty"`
	// Bye is the last frame of a session that the hub ends.
	Bye *Bye `json:"bye,omitempty"`
}

// Hello opens a session.
type Hello struct {
	// UID is the location's UID. A location of the same name with another UID is another location.
	UID string `json:"uid"`
	// Marker is the newest hub marker (log epoch) at or below Revision.
	Marker   string `json:"marker"`
	Revision int64  `json:"revision"`
	// Root and Count are the content hash and the number of the objects desired at the location, at
	// Revision.
	Root  Sum `json:"root"`
	Count int `json:"count"`
	// Continuous reports whether the marker and revision that the agent sent are known to be in
	// this hub's log. It is true for an agent that sent none.
	Continuous bool `json:"continuous"`
	// Resumed reports that the frames up to the next mark are the difference between the agent's
	// revision and the revision of that mark. Otherwise only changes after Revision follow, and an
	// agent with another content hash must compare.
	Resumed  bool     `json:"resumed"`
	Settings Settings `json:"settings"`
	// KeepsAggregated reports that the hub keeps Report.Aggregated. The agent compares its reports
	// without that field if the hub does not.
	KeepsAggregated bool `json:"keepsAggregated,omitempty"`
}

// Settings are the location's spec, annotations and conditions in the form that its agent needs. A
// settings frame replaces the settings of the hello.
type Settings struct {
	// Halt is the reason why the agent must change nothing; empty while it works.
	Halt string `json:"halt,omitempty"`
	// PruneMaxPercent is the location's spec.prune.maxPercent.
	PruneMaxPercent int `json:"pruneMaxPercent"`
	// HeartbeatSeconds is the interval of pings on a stream without other frames.
	HeartbeatSeconds int `json:"heartbeatSeconds"`
	// Accept is a marker. An administrator accepts a log whose hello has this marker as the
	// continuation of the log that the agent last followed.
	Accept string `json:"accept,omitempty"`
	// Confirm confirms removals that the removal guard holds back.
	Confirm []Confirmation `json:"confirm,omitempty"`
	// Purge reports that an administrator removes all objects: the location's content is empty, and
	// the removal guard is off.
	Purge bool `json:"purge,omitempty"`
	// TakesOver are the ownership labels, NAME.UID8, of deleted locations whose objects in the
	// cluster the location takes over. Agents of the previous version ignore them.
	TakesOver []string `json:"takesOver,omitempty"`
	// Namespaces is the location's spec.namespaces if it is not Same. Frames and reports always
	// have the keys and objects of the space; only the agent maps namespaces. An agent without the
	// capability Prefixes gets no desired objects at such a location.
	Namespaces string `json:"namespaces,omitempty"`
	// Upsync selects objects created at the location that the agent reports, for each space that
	// requests them. An agent without the capability Upsyncs gets no such request.
	Upsync []Upsync `json:"upsync,omitempty"`
	// UpsyncObjects and UpsyncBytes limit the upsynced objects of all spaces together.
	UpsyncObjects int   `json:"upsyncObjects,omitempty"`
	UpsyncBytes   int64 `json:"upsyncBytes,omitempty"`
	// Dropped changes whenever the hub has removed reports of upsynced objects because no space
	// requested them. A space may request them again before the agent receives the change. The
	// agent therefore compares its reports when Dropped changes.
	Dropped int64 `json:"dropped,omitempty"`
}

// Upsync selects objects for a space: those that match all given fields. If Namespaces is given,
// cluster-scoped objects do not match.
type Upsync struct {
	Space string `json:"space"`
	// Group is the API group of the kinds; core for the core group; "*" for any group of Resources.
	Group      string   `json:"group"`
	Resources  []string `json:"resources"`
	Namespaces []string `json:"namespaces,omitzero"` // an empty list differs from a missing one
	Names      []string `json:"names,omitzero"`
}

// Equal reports whether two selections are the same.
func (u Upsync) Equal(o Upsync) bool {
	return u.Space == o.Space && u.Group == o.Group && slices.Equal(u.Resources, o.Resources) &&
		sameList(u.Namespaces, o.Namespaces) && sameList(u.Names, o.Names)
}

// sameList reports whether two lists are the same; a nil list, which matches all, differs from an
// empty one.
func sameList(a, b []string) bool { return (a == nil) == (b == nil) && slices.Equal(a, b) }

// Equal reports whether two settings are the same.
func (s Settings) Equal(o Settings) bool {
	lists := slices.Equal(s.Confirm, o.Confirm) && slices.Equal(s.TakesOver, o.TakesOver) &&
		slices.EqualFunc(s.Upsync, o.Upsync, Upsync.Equal) && s.UpsyncObjects == o.UpsyncObjects && s.UpsyncBytes == o.UpsyncBytes && s.Dropped == o.Dropped
	return lists && s.Halt == o.Halt && s.PruneMaxPercent == o.PruneMaxPercent &&
		s.HeartbeatSeconds == o.HeartbeatSeconds && s.Accept == o.Accept && s.Purge == o.Purge && s.Namespaces == o.Namespaces
}

// Put sends an object that is desired at the location.
type Put struct {
	// Key is SPACE/GROUP/RESOURCE/[NAMESPACE/]NAME (core group: core).
	Key string `json:"key"`
	// UID and Generation are those of the source object.
	UID        string `json:"uid"`
	Generation int64  `json:"generation,omitempty"`
	// Digest is the digest of Object.
	Digest Sum    `json:"digest"`
	Policy Policy `json:"policy"`
	// ReportFirst: if the location does not have the object yet, the log must have a report of it
	// before the agent creates it, since its deletion waits for all locations that may have it. It
	// is part of no digest. Agents of the previous version ignore it.
	ReportFirst bool `json:"reportFirst,omitempty"`
	// Object is the rendered object in canonical JSON, without ownership metadata.
	Object json.RawMessage `json:"object"`
	// Revision and Marker are the log position at which the object is delivered; an empty Marker is
	// that of the hello. They are part of no digest.
	Revision int64  `json:"revision,omitempty"`
	Marker   string `json:"marker,omitempty"`
}

// Policy is the set of policies for one object. It is part of the object's leaf, so the default
// policy must be the zero value, and fields with default values are absent.
type Policy struct {
	// ReturnStatus requests the object's status in its report.
	ReturnStatus bool `json:"returnStatus,omitempty"`
	// CreateOnly: the agent creates a missing object, and never changes it.
	CreateOnly bool `json:"createOnly,omitempty"`
	// Adopt: the agent takes over an existing object that Orrery did not create.
	Adopt bool `json:"adopt,omitempty"`
	// Recreate: if a change is refused because a field is immutable, the agent deletes and
	// recreates the object.
	Recreate bool `json:"recreate,omitempty"`
	// Orphan: an object that is no longer desired stays without ownership metadata.
	Orphan bool `json:"orphan,omitempty"`
	// ReportDrift: the agent reports drift and does not repair it.
	ReportDrift bool `json:"reportDrift,omitempty"`
	// Release are JSONPaths (RFC 9535) of values that are written when the object is created, and
	// then left to other writers: sorted, one per line, empty if none. It is a string to keep a
	// Policy comparable.
	Release string `json:"release,omitempty"`
	// ServiceAccount, as NAMESPACE/NAME, is the identity that the agent impersonates in all
	// requests about the object; empty for its own. Objects with a ServiceAccount are not sent to
	// an agent without the capability Impersonates.
	ServiceAccount string `json:"serviceAccount,omitempty"`
	// Associated are the kinds whose objects the agent reports if the object owns them, directly or
	// not: GROUP/RESOURCE (core group: core), sorted, one per line, empty if none. An agent without
	// the capability Upsyncs gets no such request.
	Associated string `json:"associated,omitempty"`
}

// Hold makes the location keep its present object, because the hub currently can't or must not send
// the desired one. It replaces a put in the location's content, and Digest is the digest of its
// leaf.
//
// With the reason Upsynced the object belongs to the location from then on. An agent with the
// capability Upsyncs releases it as with Policy.Orphan, and does not report it. Other agents keep it,
// so that no agent deletes an object that its space has begun to watch.
type Hold struct {
	Key    string `json:"key"`
	UID    string `json:"uid"`
	Digest Sum    `json:"digest"`
	// Reason and Error explain the hold; the agent reports them with the state Held. Hubs of the
	// previous version sent no reason.
	Reason string `json:"reason,omitempty"`
	Error  string `json:"error"`
}

// Conflict reports that an assigned object is held back, because the location has an object of the
// same identity from another space. It is part of the content like a hold.
type Conflict struct {
	Key    string `json:"key"`
	UID    string `json:"uid"`
	Digest Sum    `json:"digest"`
	// Owner is the key of the object that is placed.
	Owner string `json:"owner"`
}

// Gone requests the removal of an object with a confirmation: the agent reports the state Removed
// once nothing of the object exists. Until each location has reported Removed, the
// frame takes the place of the object's put in the location's content. Digest is then its own digest.
type Gone struct {
	Key    string `json:"key"`
	UID    string `json:"uid"`
	Digest Sum    `json:"digest"`
	// APIVersion and Kind are those of the object; the agent finds the object by them.
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
}

// Cause distinguishes a deletion by a user from a removal by policy.
type Cause string

const (
	// Deleted: a user deleted the source object, or the Placement that placed it.
	Deleted Cause = "deleted"
	// Unassigned: a selector or label changed, or the space is being deleted.
	Unassigned Cause = "unassigned"
	// Walked: a completed comparison found that the object is not desired.
	Walked Cause = "walked"
)

// Del reports that an object is no longer desired at the location.
type Del struct {
	Key   string `json:"key"`
	UID   string `json:"uid,omitempty"`
	Cause Cause  `json:"cause"`
	// Placement is the name of the Placement that had assigned the object, the first of several;
	// empty if there was none or it is unknown.
	Placement string `json:"placement,omitempty"`
}

// Mark ends the frames up to a revision, with the content hash of the location at that revision.
// Marker is the hub marker of the revision.
type Mark struct {
	Revision int64  `json:"revision"`
	Root     Sum    `json:"root"`
	Count    int    `json:"count"`
	Marker   string `json:"marker"`
}

// Ping keeps an idle stream alive.
type Ping struct {
	// Renew makes the agent renew its credential now, as RenewHeader does in responses.
	Renew bool `json:"renew,omitempty"`
}

// Bye has the reason why the hub ends a session.
type Bye struct {
	// Reason is one of the Bye reasons.
	Reason  string `json:"reason"`
	Message string `json:"message,omitempty"`
}

const (
	// ByeReplaced: a newer session of the same location and shard exists.
	ByeReplaced = "Replaced"
	// ByeExpired: the session is too far behind the hub's log; connect again.
	ByeExpired = "Expired"
	// ByeShutdown: the hub stops; connect again.
	ByeShutdown = "Shutdown"
	// ByeRevoked: the session's credential was revoked.
	ByeRevoked = "Revoked"
	// ByeRemoved: the location was deleted at the hub; the agent keeps its objects.
	ByeRemoved = "Removed"
)

// Walk is the first line of a comparison request, of the desired objects or of the reports; spans
// follow, at most MaxSpans. The response is a hello, a part for each span that differs, and a mark.
// The agent sends further requests until it knows all differences, fetches the objects that it
// needs, and resumes the stream after the revision of the first response. Only after all responses
// may it treat objects that only it has as removed. A comparison of reports changes nothing at the
// hub.
type Walk struct {
	// Revision is the revision of the first response. Later responses are for the same revision if the
	// hub still has it.
	Revision int64  `json:"at,omitempty"`
	Shard    string `json:"shard,omitempty"`
	After    int64  `json:"after,omitempty"`
	Marker   string `json:"marker,omitempty"`
}

// Fetch is one line of a fetch request, at most MaxFetch lines. The response has a put, hold,
// conflict or gone frame for each key in order, or a del (cause Walked) if the object is not
// desired, and a mark. It ends early if it becomes large; the agent requests the rest again. The
// response to a fetch of reports has a ReportLine for each key in order, Removed if the hub has
// none, and no mark.
type Fetch struct {
	Key string `json:"key"`
}

// MaxFetch is the maximum number of keys in a fetch request.
const MaxFetch = 1000

// State is the state of an object at a location.
type State string

// The states of a report.
const (
	Applied     State = "Applied"
	Failed      State = "Failed"
	Held        State = "Held"
	InConflict  State = "Conflict"
	Unsupported State = "Unsupported"
	Waiting     State = "Waiting"
	Removing    State = "Removing"
	Orphaned    State = "Orphaned"
	// Removed: the location has nothing of the object, or the existing object no longer belongs to
	// Orrery. It is reported only in response to Gone.
	Removed State = "Removed"
	// Present: the object exists at the location but was not placed. It was created there, or a
	// placed object owns it.
	Present State = "Present"
)

// OtherSpace is the message about an object that the location has from another space. It does not
// name that space, since readers of one space may not know others.
const OtherSpace = "the location has another space's object in its place"

// Report is a location's report about one object. Its JSON is the value in the hub's log.
type Report struct {
	// UID and Generation are those of the reported source object.
	UID        string `json:"uid"`
	Generation int64  `json:"generation,omitempty"`
	// Digest is the digest of the last applied rendering; zero if there is none.
	Digest  Sum    `json:"digest"`
	State   State  `json:"state"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Since is when State and Reason last changed, RFC 3339 in UTC.
	Since string `json:"since,omitempty"`
	// Cause is the reason why the object is no longer desired, and LetGoBy the Placement that had
	// assigned it, as received from the hub. They are empty while it is desired, or if the hub did
	// not send them.
	Cause   Cause  `json:"cause,omitempty"`
	LetGoBy string `json:"letGoBy,omitempty"`
	// Health is the health of the object at the location; empty if unknown. It and all other small
	// fields come before the status, so that readers can stop there.
	Health Health `json:"health,omitempty"`
	// HealthNote explains to users why the object is not Healthy.
	HealthNote string `json:"healthNote,omitempty"`
	// Diagnosis is the reason why the object is not Healthy, found in the objects that it owns. Hubs
	// of the previous version drop it.
	Diagnosis string `json:"diagnosis,omitempty"`
	// Wanted are numbers of the live spec to compare the status with, if the policy requests the
	// status.
	Wanted *Wanted `json:"wanted,omitempty"`
	// Owner is the identity of the placed object that owns an object of origin Owned.
	Owner string `json:"owner,omitempty"`
	// Omitted is the number of owned objects that are not reported because they exceed the limits.
	// Events are not counted.
	Omitted int `json:"leftOut,omitempty"`
	// Status is the object's status at the location, if the policy requests it.
	Status json.RawMessage `json:"status,omitempty"`
	// StatusBytes is the size of a status that Fit omitted.
	StatusBytes int `json:"statusBytes,omitempty"`
	// Completed reports that a Job or Pod ran to completion for UID and Digest.
	Completed string `json:"completed,omitempty"`
	// Aggregated reports that the location has served the kind without a CustomResourceDefinition, so the
	// object is not gone when the location ceases to serve it. An agent that has lost its store reads it.
	// Hubs of the previous version drop it, see Hello.KeepsAggregated.
	Aggregated bool `json:"aggregated,omitempty"`
	// Orphan reports that by its last policy the object stays when it is no longer desired. An
	// agent that has lost its store reads it.
	Orphan bool `json:"orphan,omitempty"`
	// Object is the object in the cluster, without managedFields. It is set for objects that were
	// created at the location, or that placed objects own.
	Object json.RawMessage `json:"object,omitempty"`
	// ObjectBytes is the size of an object that Fit omitted.
	ObjectBytes int `json:"objectBytes,omitempty"`
}

// Health is the health of an object at a location, by the rules of kstatus.
type Health string

// The values of Health.
const (
	// Healthy: the object has the state that its spec requests (kstatus: Current).
	Healthy Health = "Healthy"
	// Progressing: the object is changing towards that state (InProgress, Terminating).
	Progressing Health = "Progressing"
	// Degraded: the object will not reach that state without a change (Failed).
	Degraded Health = "Degraded"
	// HealthUnknown: the rules have no result.
	HealthUnknown Health = "Unknown"
)

// Severity orders health from Healthy, whose severity is the least, to Degraded. A missing health is
// worse than Healthy. The severity of an invalid health is negative.
func (h Health) Severity() int {
	return slices.Index([]Health{Healthy, "", HealthUnknown, Progressing, Degraded}, h)
}

// Wanted are numbers of a live spec; nil for missing numbers.
type Wanted struct {
	Replicas    *int64 `json:"replicas,omitempty"`
	Partition   *int64 `json:"partition,omitempty"`
	Completions *int64 `json:"completions,omitempty"`
	Parallelism *int64 `json:"parallelism,omitempty"`
}

// Sum returns the digest by which reports are compared. It depends on the content of the report,
// and not on its encoding in a stream.
func (r Report) Sum() Sum {
	b, err := json.Marshal(r)
	if err != nil { // a status that is not JSON, which no decoder accepts
		return Sum{}
	}
	return SumOf(b)
}

// ReportLine is one line of a reports request: a report, or the removal of one.
type ReportLine struct {
	// Key is the key.Report.Line of the report, as in comparisons and fetches of reports: the key
	// of the object, after the origin if that is not Placed.
	Key     string  `json:"key"`
	Report  *Report `json:"report,omitempty"`
	Removed bool    `json:"removed,omitempty"`
}

// ReportsAnswer is the response to a reports request, with the revision that contains the reports.
type ReportsAnswer struct {
	Revision int64 `json:"revision"`
	// Refused lists the lines that the hub rejected, with reasons.
	Refused []RefusedReport `json:"refused,omitempty"`
}

// RefusedReport is one report that the hub rejected.
type RefusedReport struct {
	Key     string `json:"key"`
	Message string `json:"message"`
}
