// Package wire defines the protocol of hub and agent: the frames of the desired
// stream, reports, and the digests by which both sides find out what differs. The two
// binaries may be one minor version apart, so fields are only ever added.
//
// Bodies are JSON values, one per line. The package must never do I/O of its
// own beyond encoding to and decoding from a stream it is given.
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
	// CapabilitiesHeader lists, separated by commas, what the agent can do that agents of
	// the version before can't. The hub sends others nothing that needs it.
	CapabilitiesHeader = "Orrery-Capabilities"
	// Impersonates: the agent obeys Policy.ServiceAccount.
	Impersonates = "Impersonates"
	// Confirms: the agent says of what is to be gone that it is (Gone). Others are told of
	// the removal only, so that nothing waits for their word but in vain.
	Confirms = "Confirms"
	// Looks: the agent answers Look frames.
	Looks = "Looks"
	// Prefixes: the agent obeys Settings.Namespaces.
	Prefixes = "Prefixes"
	// Sees: the agent obeys Settings.Upsync and Policy.Associated, and its reports have
	// other origins than key.Placed, too. It lets go of what is held for Upsynced.
	Sees = "Sees"
)

// ShardParam is the parameter of every request but for credentials that names the agent's
// shard, K/N, if it does not have the whole location.
const ShardParam = "shard"

// ShardHeader is in each answer to such a request, and says for which shard it was answered. A
// hub that knows nothing of shards answers for the whole location, and does not send it.
const ShardHeader = "Orrery-Shard"

// Capable says whether the header of a request lists a capability.
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

// Frame is one line of the desired stream or of a walk's answer; exactly one
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
	// Part answers one span of a paged walk.
	Part *Part `json:"part,omitempty"`
	// Endpoints are all URLs under which the agent is to reach the hub. They come after the
	// hello and whenever they change, if the agent asks for that by naming the digest of
	// those that it has, and never if they are the same.
	Endpoints *Endpoints `json:"endpoints,omitempty"`
	// Look asks what is at the target.
	Look *Look `json:"look,omitempty"`
	// Bye is the last frame of a session that the hub ends.
	Bye *Bye `json:"bye,omitempty"`
}

// Hello opens a session.
type Hello struct {
	// UID is the location's UID: a location of the same name with another UID
	// is another location.
	UID string `json:"uid"`
	// Marker is the newest hub marker at or below Revision.
	Marker   string `json:"marker"`
	Revision int64  `json:"revision"`
	// Root and Count describe the location's content, what is desired there, at
	// Revision.
	Root  Sum `json:"root"`
	Count int `json:"count"`
	// Continuous says that the marker and revision the agent named are known to be
	// of this hub's log. It is true for an agent that named none.
	Continuous bool `json:"continuous"`
	// Resumed says that the frames up to the next mark are the difference
	// between the agent's revision and that mark's. Otherwise only what happens
	// after Revision follows, and an agent whose root differs has to walk.
	Resumed  bool     `json:"resumed"`
	Settings Settings `json:"settings"`
}

// Settings are what a location's spec, annotations and conditions mean for its agent. A
// settings frame replaces those of the hello.
type Settings struct {
	// Halt says why the agent must change nothing; empty while it works.
	Halt string `json:"halt,omitempty"`
	// PruneMaxPercent is the location's spec.prune.maxPercent.
	PruneMaxPercent int `json:"pruneMaxPercent"`
	// HeartbeatSeconds is how often the hub sends a ping on a quiet stream.
	HeartbeatSeconds int `json:"heartbeatSeconds"`
	// Accept is a marker: the operator accepts a log whose hello names it as the
	// continuation of what the agent knows.
	Accept string `json:"accept,omitempty"`
	// Confirm lets guarded removals proceed.
	Confirm []Confirmation `json:"confirm,omitempty"`
	// Purge says that the operator has everything removed: the location's content is
	// empty, and no removal is guarded.
	Purge bool `json:"purge,omitempty"`
	// TakesOver are the marks of locations that are no more, as NAME.UID8, whose objects at
	// the target the location takes over. Agents of the version before leave these alone.
	TakesOver []string `json:"takesOver,omitempty"`
	// Namespaces is the location's spec.namespaces if that is not Same. Keys and objects of
	// frames and reports are those of the space all the same: the agent alone knows places. An
	// agent that does not announce Prefixes has nothing desired where there is one.
	Namespaces string `json:"namespaces,omitempty"`
	// Upsync says which objects that are born at the location come back, for each space that
	// asks. An agent that does not announce Sees is never asked.
	Upsync []Upsync `json:"upsync,omitempty"`
	// UpsyncObjects and UpsyncBytes bound what comes back of born objects, over all spaces.
	UpsyncObjects int   `json:"upsyncObjects,omitempty"`
	UpsyncBytes   int64 `json:"upsyncBytes,omitempty"`
	// Dropped is another number whenever the hub has removed reports of what was not placed,
	// since nobody asked for it any more: by the time the agent hears, somebody may again. An
	// agent compares its reports then.
	Dropped int64 `json:"dropped,omitempty"`
}

// Upsync are objects that a space wants to see: those that match all fields that are given.
// Where there are Namespaces, nothing that is in none matches.
type Upsync struct {
	Space string `json:"space"`
	// Group is that of the kinds; core group: core; "*": any of Resources.
	Group      string   `json:"group"`
	Resources  []string `json:"resources"`
	Namespaces []string `json:"namespaces,omitzero"` // an empty list is not one that is missing
	Names      []string `json:"names,omitzero"`
}

// Equal says whether two are the same.
func (u Upsync) Equal(o Upsync) bool {
	return u.Space == o.Space && u.Group == o.Group && slices.Equal(u.Resources, o.Resources) &&
		sameList(u.Namespaces, o.Namespaces) && sameList(u.Names, o.Names)
}

// sameList says whether two lists are the same, of which one that is nil matches all.
func sameList(a, b []string) bool { return (a == nil) == (b == nil) && slices.Equal(a, b) }

// Equal says whether two settings are the same.
func (s Settings) Equal(o Settings) bool {
	lists := slices.Equal(s.Confirm, o.Confirm) && slices.Equal(s.TakesOver, o.TakesOver) &&
		slices.EqualFunc(s.Upsync, o.Upsync, Upsync.Equal) && s.UpsyncObjects == o.UpsyncObjects && s.UpsyncBytes == o.UpsyncBytes && s.Dropped == o.Dropped
	return lists && s.Halt == o.Halt && s.PruneMaxPercent == o.PruneMaxPercent &&
		s.HeartbeatSeconds == o.HeartbeatSeconds && s.Accept == o.Accept && s.Purge == o.Purge && s.Namespaces == o.Namespaces
}

// Put says that an object is desired at the location.
type Put struct {
	// Key is SPACE/GROUP/RESOURCE/[NAMESPACE/]NAME (core group: core).
	Key string `json:"key"`
	// UID and Generation are those of the source object.
	UID        string `json:"uid"`
	Generation int64  `json:"generation,omitempty"`
	// Digest is the digest of Object.
	Digest Sum    `json:"digest"`
	Policy Policy `json:"policy"`
	// ReportFirst: where the location has nothing of the object yet, the log is to have a
	// report of it before it is made, since its deletion waits for all locations that may
	// have it. It is part of no digest. Agents of the version before pass over it.
	ReportFirst bool `json:"reportFirst,omitempty"`
	// Object is the rendered object in canonical JSON, without ownership marks.
	Object json.RawMessage `json:"object"`
	// Revision and Marker are the place in the log at which the object is delivered;
	// an empty Marker is that of the hello. They are part of no digest.
	Revision int64  `json:"revision,omitempty"`
	Marker   string `json:"marker,omitempty"`
}

// Policy is how the agent treats one object. It is part of the object's leaf, so the
// default policy must stay the zero value, and a field is absent unless it differs.
type Policy struct {
	// ReturnStatus asks for the object's status in its report.
	ReturnStatus bool `json:"returnStatus,omitempty"`
	// CreateOnly: the object is created if it is missing, and never changed.
	CreateOnly bool `json:"createOnly,omitempty"`
	// Adopt: a foreign object of the identity is taken over.
	Adopt bool `json:"adopt,omitempty"`
	// Recreate: if a change is refused because a field is immutable, the object is
	// deleted and created anew.
	Recreate bool `json:"recreate,omitempty"`
	// Orphan: when the object is no longer desired, it stays without ownership marks.
	Orphan bool `json:"orphan,omitempty"`
	// ReportDrift: drift is reported and not repaired.
	ReportDrift bool `json:"reportDrift,omitempty"`
	// Release are JSONPaths (RFC 9535) of values that are written when the object is
	// created and then left to others: sorted, one per line, empty if none. It is a
	// string to keep a Policy comparable.
	Release string `json:"release,omitempty"`
	// ServiceAccount, as NAMESPACE/NAME, is in whose name every request about the object
	// is made; the agent's own if empty. An agent that does not announce Impersonates is
	// not sent what has one.
	ServiceAccount string `json:"serviceAccount,omitempty"`
	// Associated are the kinds whose objects come back that the object owns at the location,
	// directly or not: GROUP/RESOURCE (core group: core), sorted, one per line, empty if
	// none. An agent that does not announce Sees is never asked.
	Associated string `json:"associated,omitempty"`
}

// Hold says that the location keeps what it has of an object, whatever that is: the
// hub can't or must not say now what is desired. It takes the place of a put in the
// location's content, with Digest as its leaf's digest.
//
// Of the reason Upsynced the object is the location's own from then on: an agent that
// announces Sees lets go of what it has of it, as by Policy.Orphan, and has no report of it.
// Others keep it, so that none deletes what its space has begun to watch.
type Hold struct {
	Key    string `json:"key"`
	UID    string `json:"uid"`
	Digest Sum    `json:"digest"`
	// Reason and Error say why; the agent reports them with the state Held. Hubs of the
	// version before sent no reason.
	Reason string `json:"reason,omitempty"`
	Error  string `json:"error"`
}

// Conflict says that an assigned object is held back because the location has another
// space's object of the same identity. It takes part in the content like a hold.
type Conflict struct {
	Key    string `json:"key"`
	UID    string `json:"uid"`
	Digest Sum    `json:"digest"`
	// Owner is the key of the object that wins.
	Owner string `json:"owner"`
}

// Gone says that an object is to be gone from the location, and that the location is to
// say so: by the state Removed, once nothing of it is there. It takes the place of a put in
// the location's content, with Digest as its leaf's digest, until that is known of all
// locations.
type Gone struct {
	Key    string `json:"key"`
	UID    string `json:"uid"`
	Digest Sum    `json:"digest"`
	// APIVersion and Kind are those of the object, by which it is looked for.
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
}

// Cause tells a user's deletion from one that follows from policy.
type Cause string

const (
	// Deleted: the source object itself was deleted, or the Placement that placed it.
	Deleted Cause = "deleted"
	// Unassigned: a selector or label changed, or the space is being deleted.
	Unassigned Cause = "unassigned"
	// Walked: a completed walk found that the object is not desired.
	Walked Cause = "walked"
)

// Del says that an object is no longer desired at the location.
type Del struct {
	Key   string `json:"key"`
	UID   string `json:"uid,omitempty"`
	Cause Cause  `json:"cause"`
	// Placement is the name of the Placement that had assigned it, the first of
	// several; empty if there was none or it is not known.
	Placement string `json:"placement,omitempty"`
}

// Mark says that everything up to a revision has been sent, and what the location's
// content then adds up to. Marker is the hub marker that the revision is under.
type Mark struct {
	Revision int64  `json:"revision"`
	Root     Sum    `json:"root"`
	Count    int    `json:"count"`
	Marker   string `json:"marker"`
}

// Ping keeps a quiet stream alive.
type Ping struct {
	// Renew asks the agent to renew its credential now, as RenewHeader does in answers.
	Renew bool `json:"renew,omitempty"`
}

// Bye says why the hub ends a session.
type Bye struct {
	// Reason is one of the Bye reasons.
	Reason  string `json:"reason"`
	Message string `json:"message,omitempty"`
}

const (
	// ByeReplaced: a newer session of the same location and shard took over.
	ByeReplaced = "Replaced"
	// ByeExpired: the session fell out of the hub's window; connect again.
	ByeExpired = "Expired"
	// ByeShutdown: the hub stops; connect again.
	ByeShutdown = "Shutdown"
	// ByeRevoked: the token that the session began with was replaced.
	ByeRevoked = "Revoked"
	// ByeRemoved: the location is gone at the hub; the agent keeps what it runs.
	ByeRemoved = "Removed"
)

// Walk is the first line of the body of a walk request, of the desired content or
// of the reports; spans follow, at most MaxSpans. The answer is a hello, a part
// for each span that differs, and a mark. The agent keeps asking until it knows what
// differs, fetches what it needs, and resumes the stream after the revision of the
// first answer. Only when all of that has been answered may it take objects that only
// it has for removed. A walk of the reports changes nothing at the hub.
type Walk struct {
	// At is the revision of the walk's first answer, so that the later ones are about
	// the same revision if the hub still has it.
	At     int64  `json:"at,omitempty"`
	Shard  string `json:"shard,omitempty"`
	After  int64  `json:"after,omitempty"`
	Marker string `json:"marker,omitempty"`
}

// Leaf is one key of a side's content and its sum: that of LeafSum in a walk of
// the desired content; the Sum of the report in one of the reports.
type Leaf struct {
	Key string `json:"key"`
	Sum Sum    `json:"sum"`
}

// Fetch is one line of the body of a fetch request, of which there are at most
// MaxFetch. The answer is a put, hold, conflict or gone frame for each key in order, or a
// del (cause Walked) if the object is not desired, and a mark. It ends early when it
// has grown large; the agent asks again for the rest. A fetch of
// reports is answered with a ReportLine for each key in order, Removed if the hub
// has none, and no mark.
type Fetch struct {
	Key string `json:"key"`
}

// MaxFetch is how many keys one fetch request may name.
const MaxFetch = 1000

// State is how far an object is at a location.
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
	// Removed: nothing of the object is at the location, or what is there is no longer
	// Orrery's. It is reported only of what is to be gone (Gone).
	Removed State = "Removed"
	// Present: the object is at the location, where it was not placed: it was born there, or
	// belongs to what was placed.
	Present State = "Present"
)

// OtherSpace is the message of hub and agent about an object in whose place the
// location has another space's. It does not name that space, which is for its own
// readers to know.
const OtherSpace = "the location has another space's object in its place"

// Report is what a location says of one object. Its JSON is the value that the
// hub's log keeps.
type Report struct {
	// UID and Generation are those of the source object the report is about.
	UID        string `json:"uid"`
	Generation int64  `json:"generation,omitempty"`
	// Digest is that of the last rendered object that was applied; zero if none was.
	Digest  Sum    `json:"digest"`
	State   State  `json:"state"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Since is when State and Reason last changed, RFC 3339 in UTC.
	Since string `json:"since,omitempty"`
	// Cause says why the object is no longer desired, and LetGoBy which Placement had assigned
	// it, as the location was told; empty while it is desired, or if it was not told.
	Cause   Cause  `json:"cause,omitempty"`
	LetGoBy string `json:"letGoBy,omitempty"`
	// Health says how the object does at the location; empty if that is not known. It and
	// all else that is small comes before the status, which readers stop at.
	Health Health `json:"health,omitempty"`
	// HealthNote says to people why the object is not Healthy.
	HealthNote string `json:"healthNote,omitempty"`
	// Wanted are the numbers of the object's live spec at the location that its status is
	// measured by, if the policy asks for the status.
	Wanted *Wanted `json:"wanted,omitempty"`
	// Owner is the identity of the placed object that an object of origin Owned belongs to.
	Owner string `json:"owner,omitempty"`
	// LeftOut counts the objects that belong to a placed one and do not come back, since
	// there are more, or larger ones, than may. Events are not counted.
	LeftOut int `json:"leftOut,omitempty"`
	// Status is the object's status at the location, if the policy asks for it.
	Status json.RawMessage `json:"status,omitempty"`
	// StatusBytes is how large the status is, if Fit left it out.
	StatusBytes int `json:"statusBytes,omitempty"`
	// Completed says that a Job or Pod ran to its end for UID and Digest.
	Completed string `json:"completed,omitempty"`
	// Orphan says that by its last policy the object stays when it is no longer
	// desired: an agent that has lost its store needs to know.
	Orphan bool `json:"orphan,omitempty"`
	// Object is the object as the cluster shows it, without managedFields: of what was born
	// at the location, or is owned there by what was placed.
	Object json.RawMessage `json:"object,omitempty"`
	// ObjectBytes is how large the object is, if Fit left it out.
	ObjectBytes int `json:"objectBytes,omitempty"`
}

// Health is how an object does at a location, by the rules of kstatus.
type Health string

// What Health can be.
const (
	// Healthy: the object is what its spec asks for (kstatus: Current).
	Healthy Health = "Healthy"
	// Progressing: it is on its way (InProgress, Terminating).
	Progressing Health = "Progressing"
	// Degraded: it will not get there by itself (Failed).
	Degraded Health = "Degraded"
	// HealthUnknown: the rules have no answer.
	HealthUnknown Health = "Unknown"
)

// Wanted are numbers of a live spec; nil where the spec has none.
type Wanted struct {
	Replicas    *int64 `json:"replicas,omitempty"`
	Partition   *int64 `json:"partition,omitempty"`
	Completions *int64 `json:"completions,omitempty"`
	Parallelism *int64 `json:"parallelism,omitempty"`
}

// Sum is the digest by which a walk compares reports. It is a function of what
// the report says, not of how a stream happened to encode it.
func (r Report) Sum() Sum {
	b, err := json.Marshal(r)
	if err != nil { // a status that is not JSON; a decoder accepts none
		return Sum{}
	}
	return SumOf(b)
}

// ReportLine is one line of a reports request: a report, or the removal of one.
type ReportLine struct {
	// Key is the report's key.Report.Line, as it is in walks and fetches of reports: that of
	// the object, behind the origin if that is not Placed.
	Key     string  `json:"key"`
	Report  *Report `json:"report,omitempty"`
	Removed bool    `json:"removed,omitempty"`
}

// ReportsAnswer names the revision that holds the reports of a request.
type ReportsAnswer struct {
	Revision int64 `json:"revision"`
	// Refused lists lines the hub did not take, and why.
	Refused []RefusedReport `json:"refused,omitempty"`
}

// RefusedReport is one report that the hub did not take.
type RefusedReport struct {
	Key     string `json:"key"`
	Message string `json:"message"`
}
