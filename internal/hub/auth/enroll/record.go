package enroll

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"orrery.dev/orrery/internal/lib/jsonsplice"
	"orrery.dev/orrery/internal/protocol/key"
)

// Record is the record of a location's enrolment in the log: which of its credentials are valid. It
// is a value: methods return the changed record.
//
// A newly issued credential is valid beside the one in use until it is used itself; then the
// previous one is spent. An agent stores a credential on its disk before it uses it, and never uses
// an older one again. So the use of a spent credential proves that two clients have it, and the hub
// cannot know which of them is the location's agent.
type Record struct {
	// Location is the UID of the location: a location that is created again with the same name is
	// another one.
	Location string `json:"location"`
	// Hash and Created belong to a long-lived token of former versions. It is valid until a
	// credential that it was exchanged for is used.
	Hash    string `json:"hash,omitempty"`
	Created string `json:"created,omitempty"`
	// Join is the newest join token.
	Join *JoinToken `json:"join,omitempty"`
	// Joined is the number of the first credential of the last join. Issued is the newest
	// credential, and Used the newest that was used.
	Joined uint64 `json:"joined,omitempty"`
	Issued Mark   `json:"issued,omitzero"`
	Used   Mark   `json:"used,omitzero"`
	// Revoked is set if no credential is valid until an agent joins the location again.
	Revoked *Revocation `json:"revoked,omitempty"`
	// Readmits is a spent credential that an operator has readmitted: it can be renewed until the
	// next credential is used.
	Readmits *Mark `json:"readmits,omitempty"`
	// Shard is the number of the agent of the record, if several share the location and it is not
	// the first. Shards holds the records of those, in the record of the first.
	Shard  int            `json:"shard,omitempty"`
	Shards map[int]Record `json:"shards,omitempty"`
}

// ForShard returns the record of one of the location's agents, by the number of its shard. The
// record of the first shard, or of the whole location, contains the others.
func (r Record) ForShard(number int) Record {
	if number <= 1 {
		return r
	}
	shard, ok := r.Shards[number]
	if !ok {
		shard = Record{Shard: number}
	}
	shard.Location = r.Location
	return shard
}

// With returns the record with that of one of its agents replaced.
func (r Record) With(one Record) Record {
	if one.Shard <= 1 {
		return one
	}
	shards := maps.Clone(r.Shards)
	if shards == nil {
		shards = map[int]Record{}
	}
	shards[one.Shard] = one
	r.Shards = shards
	return r
}

// All returns the records of all agents, by the numbers of the shards.
func (r Record) All() []Record {
	all := []Record{r}
	for _, number := range slices.Sorted(maps.Keys(r.Shards)) {
		all = append(all, r.ForShard(number))
	}
	return all
}

// RevokeAll returns the record with all credentials of all agents revoked.
func (r Record) RevokeAll(why Revocation) Record {
	next := r
	// Include shards that this record does not contain: the log may be a copy from before they
	// joined.
	for number := 2; number <= key.MaxShards; number++ {
		next = next.With(r.ForShard(number).Revoke(why))
	}
	return next.Revoke(why)
}

// Mark identifies a credential in the record.
type Mark struct {
	Number uint64 `json:"number"`
	Key    string `json:"key"`
}

// JoinToken is the record of a join token.
type JoinToken struct {
	// Hash is the SHA-256 digest of the token's secret; the secret has the
	// entropy of a key, so it needs no salt.
	Hash    string    `json:"hash"`
	Expires time.Time `json:"expires"`
	// Key is the digest of the key that it was exchanged for; empty if it is unused.
	Key string `json:"key,omitempty"`
}

// Revocation is the time and the reason of a revocation.
type Revocation struct {
	Time time.Time `json:"at"`
	// Reused reports whether the reason is the use of a spent credential; otherwise an operator
	// revoked the enrolment.
	Reused bool `json:"reused,omitempty"`
	// Shown is the spent credential.
	Shown *Mark `json:"shown,omitempty"`
	// Message describes the reason.
	Message string `json:"message"`
}

// Errors of join tokens and credentials.
var (
	ErrUnknownJoin = errors.New("the join token is not one of this hub, or a newer one was made, or its location is gone")
	ErrJoinUsed    = errors.New("the join token was used already: it works once")
	ErrJoinExpired = errors.New("the join token has expired")
	ErrOther       = errors.New("the credential is one of another location, or of one that was removed")
	ErrSuperseded  = errors.New("another agent has joined the location since")
	ErrSpent       = errors.New("the credential was renewed, and the new one is in use")
	ErrRevoked     = errors.New("the enrolment of the location was revoked")
	ErrReadmitted  = errors.New("an operator has readmitted the agent that has this credential, which is to be renewed")
	// ErrNoReuse is returned by Readmit.
	ErrNoReuse = errors.New("the agent is not locked out since a spent credential was shown")
)

// ParseRecord parses the record of the location with a UID. The record is empty without a value, or
// if the value belongs to another location. If the value is invalid, the record has no valid
// credential.
func ParseRecord(value []byte, uid string) Record {
	r := Record{Location: uid}
	if len(value) == 0 {
		return r
	}
	if err := json.Unmarshal(value, &r); err != nil {
		return Record{Location: uid, Revoked: &Revocation{Message: "the record of the enrolment can't be read"}}
	}
	if r.Location != uid {
		return Record{Location: uid}
	}
	return r
}

// EncodeOver encodes the record as a new version of a stored value. Fields of the value that this
// version of the hub does not know are kept.
func (r Record) EncodeOver(value []byte) []byte {
	whole := r.Encode()
	if len(value) == 0 {
		return whole
	}
	var old Record
	if json.Unmarshal(value, &old) != nil || old.Location != r.Location {
		return whole
	}
	changed, err := jsonsplice.Differing(old.Encode(), whole, "shards")
	if err != nil {
		return whole
	}
	over, err := jsonsplice.Copy(value, whole, changed...)
	if err != nil {
		return whole
	}
	return over
}

// Encode encodes the record for the log.
func (r Record) Encode() []byte {
	b, err := json.Marshal(r)
	if err != nil { // cannot happen: it holds only strings and valid times
		panic(err)
	}
	return b
}

// joinPrefix distinguishes join tokens from other tokens.
const joinPrefix = "orr_j_"

// WithJoin returns the record with a new join token, which replaces the previous one. Valid
// credentials stay valid until the token is used.
func (r Record) WithJoin(l key.Location, expires time.Time) (token string, next Record) {
	secret := rand.Text()
	r.Join = &JoinToken{Hash: hash(secret), Expires: expires.UTC().Truncate(time.Second)}
	return r.tokenPrefix(l) + secret, r
}

// tokenPrefix returns the prefix of join tokens for the agent of the record.
func (r Record) tokenPrefix(l key.Location) string {
	if r.Shard > 1 {
		return fmt.Sprintf("%s%s/%d.", joinPrefix, l, r.Shard)
	}
	return joinPrefix + string(l) + "."
}

// IsJoin reports whether a token claims to be a join token.
func IsJoin(token string) bool { return strings.HasPrefix(token, joinPrefix) }

// TokenOf returns the location and the number of the shard that a join token, or a token of a
// former version, claims.
func TokenOf(token string) (l key.Location, shard int, ok bool) {
	subject, _, ok := strings.Cut(strings.TrimPrefix(token, joinPrefix), ".")
	name, number, sharded := strings.Cut(subject, "/")
	shard = 1
	if sharded {
		var err error
		if shard, err = strconv.Atoi(number); err != nil || shard <= 1 || shard > key.MaxShards {
			return "", 0, false
		}
	}
	return key.Location(name), shard, ok && key.ValidateName(name) == nil
}

// Trade exchanges a join token, or a token of a former version, for a credential of a key. It can
// be repeated for the same key as long as nothing else has happened, since the response may have
// been lost.
func (r Record) Trade(l key.Location, token, keyDigest string, now time.Time) (Credential, Record, error) {
	secret, ok := strings.CutPrefix(token, r.tokenPrefix(l))
	if !ok {
		return r.tradeLasting(l, token, keyDigest)
	}
	switch {
	case r.Join == nil || !matchesHash(secret, r.Join.Hash):
		return Credential{}, r, ErrUnknownJoin
	case r.Join.Key == keyDigest && r.Issued == Mark{r.Joined, keyDigest} && r.Revoked == nil:
		return r.credential(l), r, nil
	case r.Join.Key != "":
		return Credential{}, r, ErrJoinUsed
	case !now.Before(r.Join.Expires):
		return Credential{}, r, ErrJoinExpired
	}
	// Earlier credentials are superseded at once. The number contains the time, so that this also
	// holds for credentials that a restored copy of the log does not know.
	join := *r.Join
	join.Key = keyDigest
	r.Join, r.Hash, r.Created, r.Revoked, r.Readmits = &join, "", "", nil, nil
	r.Joined = max(r.Issued.Number+1, r.Used.Number+1, uint64(max(0, now.Unix())))
	r.Issued = Mark{r.Joined, keyDigest}
	r.Used = r.Issued
	return r.credential(l), r, nil
}

// tradeLasting exchanges a long-lived token.
func (r Record) tradeLasting(l key.Location, token, keyDigest string) (Credential, Record, error) {
	if err := r.CheckLasting(token); err != nil {
		return Credential{}, r, err
	}
	r.Joined = max(r.Joined, 1)
	return r.credentialOf(l, keyDigest)
}

// CheckLasting returns an error if a long-lived token of a former version is invalid.
func (r Record) CheckLasting(token string) error {
	_, secret, ok := strings.Cut(token, ".")
	switch {
	case !ok || r.Hash == "" || !matchesHash(secret, r.Hash): // unauthenticated clients learn nothing else
		return ErrUnknownJoin
	case r.Revoked != nil:
		return ErrRevoked
	}
	return nil
}

// Check returns an error if a credential is invalid. news reports whether its use must be recorded
// by Use.
func (r Record) Check(c Credential) (news bool, err error) {
	switch {
	case c.UID != r.Location || c.number() != max(1, r.Shard):
		return false, ErrOther
	case r.Readmitted(c):
		return false, ErrReadmitted
	case r.Revoked != nil:
		return false, ErrRevoked
	case c.Joined < r.Joined:
		return false, ErrSuperseded
	case c.Joined > r.Joined, c.Number > r.Issued.Number:
		return true, nil // the log is a copy from before the credential was issued
	case c.Mark() == r.Used:
		return false, nil
	case c.Mark() == r.Issued:
		return true, nil
	}
	return false, ErrSpent
}

// CheckFormer returns an error if a credential of a replaced authority is invalid. Only credentials
// in the record are valid. The key of that authority may be compromised, and forged credentials
// would neither spend others nor be detected.
func (r Record) CheckFormer(c Credential) error {
	switch {
	case c.UID != r.Location || c.number() != max(1, r.Shard):
		return ErrOther
	case r.Revoked != nil:
		return ErrRevoked
	case c.Joined != r.Joined:
		return ErrSuperseded
	case c.Mark() != r.Used && c.Mark() != r.Issued:
		return ErrSpent
	}
	return nil
}

// Use returns the record after the use of a valid credential. The credential becomes the newest
// one, even if the log is a copy from before it was issued.
func (r Record) Use(c Credential) Record {
	if c.Mark() == r.Used {
		return r
	}
	if c.Joined > r.Joined || c.Number > r.Issued.Number {
		r.Joined, r.Issued = c.Joined, c.Mark()
	}
	r.Used, r.Hash, r.Created, r.Readmits = c.Mark(), "", "", nil
	return r
}

// Readmit returns the record after an operator has readmitted an agent that has used a spent
// credential, for instance after a restore of its machine from a snapshot.
func (r Record) Readmit() (Record, error) {
	if r.Revoked == nil || r.Revoked.Shown == nil {
		return r, ErrNoReuse
	}
	r.Readmits = r.Revoked.Shown
	return r, nil
}

// Readmitted reports whether an operator has readmitted the agent that has a credential.
func (r Record) Readmitted(c Credential) bool { return r.Readmits != nil && *r.Readmits == c.Mark() }

// Rejoin exchanges a readmitted credential for one of a key. The credentials after the readmitted
// one are superseded, as by a join.
func (r Record) Rejoin(c Credential, keyDigest string, now time.Time) (Credential, Record) {
	if r.Revoked != nil || r.Issued.Key != keyDigest {
		r.Joined = max(r.Issued.Number+1, r.Used.Number+1, uint64(max(0, now.Unix())))
		r.Issued, r.Revoked = Mark{r.Joined, keyDigest}, nil
	}
	return r.credential(c.Location), r
}

// Renew issues the next credential, for a key, and records the use of the present one. It can be
// repeated for the same key, since the response may have been lost.
func (r Record) Renew(c Credential, keyDigest string) (Credential, Record, error) {
	if _, err := r.Check(c); err != nil {
		return Credential{}, r, err
	}
	return r.Use(c).credentialOf(c.Location, keyDigest)
}

// credentialOf returns the newest credential if it is unused and for this key, or else a new one.
func (r Record) credentialOf(l key.Location, keyDigest string) (Credential, Record, error) {
	if r.Issued == r.Used || r.Issued.Key != keyDigest {
		r.Issued = Mark{r.Issued.Number + 1, keyDigest}
	}
	return r.credential(l), r, nil
}

// credential returns the newest credential.
func (r Record) credential(l key.Location) Credential {
	return Credential{Location: l, Shard: r.Shard, UID: r.Location, Number: r.Issued.Number, Joined: r.Joined, Key: r.Issued.Key}
}

// Revoke returns the record without valid credentials and join tokens. An earlier reason is kept.
func (r Record) Revoke(why Revocation) Record {
	r.Join, r.Readmits = nil, nil
	if r.Revoked == nil {
		why.Time = why.Time.UTC().Truncate(time.Second)
		r.Revoked = &why
	}
	return r
}

// Moved returns the numbers of the shards whose newest used credential differs between two encoded
// records.
func Moved(before, after []byte) (numbers []int) {
	var old, is Record
	// A record that cannot be parsed counts as one in which no shard has used a credential.
	_, _ = json.Unmarshal(before, &old), json.Unmarshal(after, &is)
	for number := 1; number <= key.MaxShards; number++ {
		if old.ForShard(number).Used != is.ForShard(number).Used {
			numbers = append(numbers, number)
		}
	}
	return numbers
}

// Enrolled reports whether an agent has used its credential.
func (r Record) Enrolled() bool {
	return slices.ContainsFunc(r.All(), func(one Record) bool { return one.Used.Number > 0 })
}

func matchesHash(secret, want string) bool {
	return subtle.ConstantTimeCompare([]byte(hash(secret)), []byte(want)) == 1
}

func hash(secret string) string {
	h := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(h[:])
}

// String returns the reason and time of a revocation.
func (r Revocation) String() string {
	return fmt.Sprintf("%s (%s)", r.Message, r.Time.Format(time.RFC3339))
}
